#include "symbols/stack_tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/histogram.h"
#include "common/pages.h"

enum { SLOTS_LEAST = 4096, SAMPLES_LEAST = 32 };
#define DEGREES_LEAST 2.0

/* Kinds of calls with classes of their own: each has HISTOGRAM_BUCKETS numbers, in this order. */
enum calls_of { ALLOCATIONS, REALLOCS, FREES, REMOTE_FREES };

static enum calls_of calls_of(const struct stack_tally *tally, size_t cell)
{
    return (enum calls_of)(tally->cells[cell].size_class / HISTOGRAM_BUCKETS);
}

struct stack_object {
    uint64_t size;
    uint64_t call : 48, lane : 16;
    uint32_t cell;
};

/* ---- cells ---- */

static size_t slot_of(const struct stack_tally *tally, uint32_t stack, uint32_t size_class)
{
    const uint64_t key = ((uint64_t)stack << 16 | size_class) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(key >> 32) & (tally->slots_count - 1);
    while (tally->slots[at] != 0) {
        const struct stack_cell *cell = &tally->cells[tally->slots[at] - 1];
        if (cell->stack == stack && cell->size_class == size_class) break;
        at = (at + 1) & (tally->slots_count - 1);
    }
    return at;
}

static bool slots_grow(struct stack_tally *tally)
{
    uint32_t *old = tally->slots;
    const size_t more = tally->slots_count == 0 ? SLOTS_LEAST : 2 * tally->slots_count;
    uint32_t *slots = calloc(more, sizeof *slots);
    if (slots == NULL) return false;
    tally->slots = slots;
    tally->slots_count = more;
    for (size_t i = 0; i < tally->count; i++)
        slots[slot_of(tally, tally->cells[i].stack, tally->cells[i].size_class)] = (uint32_t)i + 1;
    free(old);
    return true;
}

/* There is room for one more. */
static uint32_t cell_find(struct stack_tally *tally, uint32_t stack, uint64_t size,
                          enum calls_of calls)
{
    const uint32_t size_class = calls * HISTOGRAM_BUCKETS + histogram_bucket(size);
    uint32_t *slot = &tally->slots[slot_of(tally, stack, size_class)];
    if (*slot != 0) return *slot - 1;
    tally->cells[tally->count] = (struct stack_cell){.stack = stack, .size_class = size_class};
    *slot = (uint32_t)++tally->count;
    return *slot - 1;
}

/* ---- pairs ---- */

static uint32_t *pair_slot(const struct stack_tally *tally, uint32_t made, uint32_t freed)
{
    const uint64_t key = ((uint64_t)made << 32 | freed) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(key >> 32) & (tally->pair_slots_count - 1);
    while (tally->pair_slots[at] != 0) {
        const struct stack_pair *pair = &tally->pairs[tally->pair_slots[at] - 1];
        if (pair->made == made && pair->freed == freed) break;
        at = (at + 1) & (tally->pair_slots_count - 1);
    }
    return &tally->pair_slots[at];
}

static bool pair_slots_grow(struct stack_tally *tally)
{
    const size_t more = tally->pair_slots_count == 0 ? SLOTS_LEAST : 2 * tally->pair_slots_count;
    uint32_t *slots = calloc(more, sizeof *slots);
    if (slots == NULL) return false;
    free(tally->pair_slots);
    tally->pair_slots = slots;
    tally->pair_slots_count = more;
    for (size_t i = 0; i < tally->pairs_count; i++)
        *pair_slot(tally, tally->pairs[i].made, tally->pairs[i].freed) = (uint32_t)i + 1;
    return true;
}

/* There is room for one more. */
static struct stack_pair *pair_find(struct stack_tally *tally, uint32_t made, uint32_t freed)
{
    uint32_t *slot = pair_slot(tally, made, freed);
    if (*slot == 0) {
        tally->pairs[tally->pairs_count] = (struct stack_pair){.made = made, .freed = freed};
        *slot = (uint32_t)++tally->pairs_count;
    }
    return &tally->pairs[*slot - 1];
}

static bool pairs_reserve(struct stack_tally *tally, size_t calls)
{
    while ((tally->pairs_count + calls) * 2 > tally->pair_slots_count)
        if (!pair_slots_grow(tally)) return false;
    return array_reserve(&tally->pairs, &tally->pairs_room, tally->pairs_count + calls,
                         sizeof *tally->pairs);
}

static bool reserve(struct stack_tally *tally, size_t calls)
{
    while ((tally->count + calls) * 2 > tally->slots_count)
        if (!slots_grow(tally)) return false;
    if (tally->with_frees && !pairs_reserve(tally, calls)) return false;
    return array_reserve(&tally->cells, &tally->room, tally->count + calls, sizeof *tally->cells) &&
           pages_reserve(&tally->objects, &tally->capacity, tally->live + calls,
                         INSTRUCTION_BLOCK_MAX, sizeof *tally->objects);
}

static const char *define(void *stacks, const struct stack_definition *definition)
{
    return stacks_define(stacks, definition);
}

bool stack_tally_follow(struct stacks *stacks, struct instruction_reader *reader)
{
    if ((reader->header.features & INSTRUCTION_FEATURE_STACKS) == 0) return false;
    reader->define = define;
    reader->define_context = stacks;
    return true;
}

bool stack_tally_open(struct stack_tally *tally)
{
    *tally = (struct stack_tally){.epoch = 1};
    return slots_grow(tally);
}

void stack_tally_close(struct stack_tally *tally)
{
    pages_unmap(tally->objects, tally->capacity * sizeof *tally->objects);
    free(tally->cells);
    free(tally->slots);
    free(tally->stacks);
    free(tally->oldest);
    free(tally->pairs);
    free(tally->pair_slots);
    *tally = (struct stack_tally){.count = 0};
}

/* ---- objects ---- */

static void add(struct stack_cell *cell, enum stack_measure measure, uint64_t bytes)
{
    cell->amounts[measure].objects++;
    cell->amounts[measure].bytes += bytes;
}

static void begin(struct stack_tally *tally, struct stack_object *object, uint64_t size,
                  uint32_t stack, enum calls_of calls)
{
    const uint32_t at = cell_find(tally, stack, size, calls);
    struct stack_cell *cell = &tally->cells[at];
    add(cell, STACK_MADE, size);
    live_begin(&cell->live, tally->epoch, size);
    *object = (struct stack_object){size, tally->calls, tally->lane, at};
    tally->live_bytes += size;
    if (tally->live_bytes <= tally->peak_bytes) return;
    tally->peak_bytes = tally->live_bytes;
    tally->epoch++;
}

static bool is_short(const struct stack_tally *tally, const struct stack_object *object)
{
    return tally->calls - object->call <= STACK_SHORT_CALLS;
}

static void end(struct stack_tally *tally, const struct stack_object *object)
{
    struct stack_cell *cell = &tally->cells[object->cell];
    live_end(&cell->live, tally->epoch, object->size);
    if (is_short(tally, object)) add(cell, STACK_SHORT_LIVED, object->size);
    if (object->lane != tally->lane) add(cell, STACK_REMOTE, object->size);
    tally->live_bytes -= object->size;
}

/* Counts a free with this stack (0: none), before end() is called for the object. */
static void note_free(struct stack_tally *tally, const struct stack_object *object, uint32_t stack)
{
    const bool is_remote = object->lane != tally->lane, lived_short = is_short(tally, object);
    const uint32_t at = cell_find(tally, stack, object->size, is_remote ? REMOTE_FREES : FREES);
    const uint32_t made = tally->cells[object->cell].stack;
    add(&tally->cells[at], STACK_FREED, object->size);
    if (is_remote) add(&tally->cells[at], STACK_FREED_REMOTE, object->size);
    if (stack == 0 || made == 0 || (!is_remote && !lived_short)) return;
    struct stack_pair *pair = pair_find(tally, made, stack);
    pair->short_lived += lived_short;
    pair->remote += is_remote;
}

static void resize(struct stack_tally *tally, struct stack_object *object, uint64_t size,
                   uint32_t stack)
{
    const uint64_t before = object->size;
    end(tally, object);
    begin(tally, object, size, stack, REALLOCS);
    if (size > before) add(&tally->cells[object->cell], STACK_GROWN, size - before);
}

bool stack_tally_add(struct stack_tally *tally, const struct instruction_batch *batch, size_t count)
{
    struct instruction_walk walk = instruction_walk_over(batch, count);
    struct instruction one;
    if (!reserve(tally, batch->count)) return false;
    while (instruction_walk_next(&walk, &one)) {
        const unsigned does = instruction_does[one.opcode];
        const uint32_t stack = instruction_walk_stack(&walk);
        tally->calls += does != INSTRUCTION_OTHER;
        switch (does) {
        case INSTRUCTION_BEGINS:
            begin(tally, &tally->objects[tally->live++], one.size, stack, ALLOCATIONS);
            break;
        case INSTRUCTION_ENDS:
            if (tally->with_frees) note_free(tally, &tally->objects[one.object], stack);
            end(tally, &tally->objects[one.object]);
            tally->objects[one.object] = tally->objects[--tally->live];
            break;
        case INSTRUCTION_RESIZES:
            resize(tally, &tally->objects[one.object], one.size, stack);
            break;
        case INSTRUCTION_OTHER:
            if (one.opcode == INSTRUCTION_LANE)
                tally->lane = (uint32_t)batch->operands[one.operand_at];
            break;
        default: break;
        }
    }
    return true;
}

uint32_t stack_tally_node(const struct stack_tally *tally, uint64_t index)
{
    return tally->cells[tally->objects[index].cell].stack;
}

/* ---- the end ---- */

static int by_number(const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

static int by_class(const void *one, const void *other)
{
    const struct stack_cell *a = one, *b = other;
    if (a->size_class != b->size_class) return a->size_class < b->size_class ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* Lists each stack once, always including 0. False: no memory. */
static bool list_stacks(struct stack_tally *tally)
{
    size_t count = 1;
    tally->stacks = calloc(tally->count + 1, sizeof *tally->stacks);
    tally->oldest = calloc(tally->count + 1, sizeof *tally->oldest);
    if (tally->stacks == NULL || tally->oldest == NULL) return false;
    for (size_t i = 0; i < tally->count; i++)
        tally->stacks[i + 1] = tally->cells[i].stack;
    qsort(tally->stacks, tally->count + 1, sizeof *tally->stacks, by_number);
    for (size_t i = 1; i <= tally->count; i++)
        if (tally->stacks[i] != tally->stacks[count - 1]) tally->stacks[count++] = tally->stacks[i];
    tally->stacks_count = count;
    return true;
}

static uint32_t index_of(const struct stack_tally *tally, uint32_t stack)
{
    const uint32_t *at =
        bsearch(&stack, tally->stacks, tally->stacks_count, sizeof stack, by_number);
    return (uint32_t)(at - tally->stacks);
}

bool stack_tally_end(struct stack_tally *tally)
{
    if (!list_stacks(tally)) return false;
    for (size_t i = 0; i < tally->count; i++) {
        struct stack_cell *cell = &tally->cells[i];
        live_settle(&cell->live, tally->epoch);
        cell->stack = index_of(tally, cell->stack);
        cell->amounts[STACK_AT_PEAK] =
            (struct stack_amount){cell->live.peak_objects, cell->live.peak_bytes};
        cell->amounts[STACK_AT_END] = (struct stack_amount){cell->live.objects, cell->live.bytes};
    }
    for (size_t i = 0; i < tally->pairs_count; i++) {
        tally->pairs[i].made = index_of(tally, tally->pairs[i].made);
        tally->pairs[i].freed = index_of(tally, tally->pairs[i].freed);
    }
    for (uint64_t i = 0; i < tally->live; i++) {
        uint64_t *oldest = &tally->oldest[tally->cells[tally->objects[i].cell].stack];
        if (*oldest == 0 || tally->objects[i].call < *oldest) *oldest = tally->objects[i].call;
    }
    if (tally->count > 1) qsort(tally->cells, tally->count, sizeof *tally->cells, by_class);
    return true;
}

/* ---- sums of groups ---- */

/* Sums over samples, or over all objects. */
struct moments {
    double sum;
    /* A sample that stands for w objects of a size: w (w - 1) size^2, and the square of that. */
    double squares, fourths;
};

struct weight {
    double samples;
    struct moments objects, bytes;
};

/* Samples of the same size; each stands for `each` objects. */
static void add_moments(struct moments *to, double samples, double each, double size)
{
    const double square = each * (each - 1) * size * size;
    to->sum += samples * each * size;
    to->squares += samples * square;
    to->fourths += samples * square * square;
}

/* The objects of a cell count as equally large. */
static void add_amount(struct weight *to, const struct stack_amount *amount, double each)
{
    const double count = (double)amount->objects;
    to->samples += count;
    add_moments(&to->objects, count, each, 1);
    add_moments(&to->bytes, count, each, (double)amount->bytes / count);
}

/* Adds the share of `all` that a group has of the samples, and the variance of that. */
static void add_part(struct stack_sum *to, const struct moments *group, double all,
                     const struct moments *sampled)
{
    if (sampled->sum <= 0) return;
    to->value += all * group->sum / sampled->sum;
    if (sampled->squares <= 0) return; /* every object was sampled */
    /* The effective number of samples, and the weight of each of so many equal ones: the two samples
     * that are added have it. */
    const double more = sampled->squares / sampled->sum, alike = sampled->sum / more;
    const double whole = sampled->sum + 2 * more, part = (group->sum + more) / whole;
    const double squares = (1 - part) * (1 - part) * (group->squares + more * more) +
                           part * part * (sampled->squares - group->squares + more * more);
    /* The share depends on each sample, so its distance from the share is too small: by this. */
    const double variance = (1 + 2 / alike) * all * all * squares / (whole * whole);
    to->variance += variance;
    to->doubt += variance * variance * sampled->fourths / (sampled->squares * sampled->squares);
}

/* Adds the estimate for a group over some classes, from its samples. */
static void add_estimate(struct stack_sums *to, enum stack_measure measure,
                         const struct weight *group, const struct weight *all,
                         const struct weight *sampled)
{
    add_part(&to->objects[measure], &group->objects, all->objects.sum, &sampled->objects);
    add_part(&to->bytes[measure], &group->bytes, all->bytes.sum, &sampled->bytes);
}

static void add_exact(struct stack_sums *to, enum stack_measure measure, const struct weight *all)
{
    to->objects[measure].value += all->objects.sum;
    to->bytes[measure].value += all->bytes.sum;
}

/* Whether only some of the calls of the cell's class have stacks. */
static bool is_sampled(const struct stack_tally *tally, size_t cell)
{
    return calls_of(tally, cell) < FREES ? tally->is_sampled : tally->sampled_frees;
}

struct group_here {
    bool is_touched;
    struct weight weight;
};

struct summing {
    const struct stack_tally *tally;
    const struct stack_groups *groups;
    struct stack_sums *sums;
    double *stands_for;      /* by cell: how many objects a sample stands for */
    struct group_here *here; /* by group: in these cells */
    uint32_t *touched;
    size_t touched_count;
};

static void touch(struct summing *state, size_t cell, const struct stack_amount *amount)
{
    const struct stack_groups *groups = state->groups;
    const uint32_t stack = state->tally->cells[cell].stack;
    for (uint32_t i = groups->first[stack]; i < groups->first[stack + 1]; i++) {
        struct group_here *here = &state->here[groups->groups[i]];
        if (!here->is_touched) state->touched[state->touched_count++] = groups->groups[i];
        here->is_touched = true;
        if (amount->objects > 0) add_amount(&here->weight, amount, state->stands_for[cell]);
    }
}

/* Estimates the cells from `first` up to `end` together. A group with samples, none of which counts
 * here, may have objects that do: it gets a variance. */
static void sum_cells(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_groups *groups = state->groups;
    struct weight all = {.samples = 0}, with_stacks = {.samples = 0};
    const bool sampled = is_sampled(state->tally, first);
    state->touched_count = 0;
    for (size_t i = first; i < end; i++) {
        const struct stack_cell *cell = &state->tally->cells[i];
        const struct stack_amount *amount = &cell->amounts[measure];
        if (amount->objects == 0 && !sampled) continue;
        if (cell->stack != 0 || !sampled) touch(state, i, amount);
        if (amount->objects == 0) continue;
        add_amount(&all, amount, 1);
        if (cell->stack != 0) add_amount(&with_stacks, amount, state->stands_for[i]);
    }
    for (size_t i = 0; i < state->touched_count; i++) {
        struct group_here *here = &state->here[state->touched[i]];
        struct stack_sums *to = &state->sums[state->touched[i]];
        if (sampled)
            add_estimate(to, measure, &here->weight, &all, &with_stacks);
        else
            add_exact(to, measure, &here->weight);
        *here = (struct group_here){.is_touched = false};
    }
    /* Without any sample, all goes to stack 0. */
    for (uint32_t i = groups->first[0]; i < groups->first[1] && sampled; i++)
        if (with_stacks.samples <= 0) add_exact(&state->sums[groups->groups[i]], measure, &all);
}

/* Some cells that are estimated together. */
struct cell_range {
    size_t end;
    uint64_t samples; /* of a measure; of STACK_MADE: all calls */
};

/* The range of the class that begins at `first`. */
static struct cell_range one_class(const struct stack_tally *tally, enum stack_measure measure,
                                   size_t first)
{
    struct cell_range range = {.end = first};
    while (range.end < tally->count &&
           tally->cells[range.end].size_class == tally->cells[first].size_class) {
        const struct stack_cell *cell = &tally->cells[range.end++];
        if (cell->stack == 0) continue;
        range.samples += cell->amounts[measure].objects;
        if (measure == STACK_MADE) range.samples += cell->amounts[STACK_FREED].objects;
    }
    return range;
}

/* The index from which on, up to `end`, all calls are sampled. Recorders sample all of the largest
 * (except frees) and smaller ones at random. Only the contiguous range at the end counts: a lower
 * class that was sampled completely by chance still tells about its neighbours. */
static size_t certain_from(const struct stack_tally *tally, size_t first, size_t end)
{
    size_t certain = end;
    while (calls_of(tally, first) < FREES && is_sampled(tally, first) && certain > first &&
           tally->cells[certain - 1].stack != 0)
        certain--;
    /* Must not be in the middle of a class. */
    while (certain > first && certain < end &&
           tally->cells[certain - 1].size_class == tally->cells[certain].size_class)
        certain++;
    return certain;
}

/* The range of as many classes before `end` as it takes for enough samples, or of all. */
static struct cell_range enough_classes(const struct stack_tally *tally, enum stack_measure measure,
                                        size_t first, size_t end)
{
    struct cell_range range = {.end = first};
    while (range.end < end && range.samples < SAMPLES_LEAST) {
        const struct cell_range next = one_class(tally, measure, range.end);
        range.end = next.end;
        range.samples += next.samples;
    }
    return range;
}

/* The end of that range. If the rest does not have enough samples, it is included. */
static size_t range_end(const struct stack_tally *tally, enum stack_measure measure, size_t first,
                        size_t end)
{
    const struct cell_range range = enough_classes(tally, measure, first, end);
    const struct cell_range rest = enough_classes(tally, measure, range.end, end);
    return rest.samples < SAMPLES_LEAST ? rest.end : range.end;
}

/* Sets for a range how many calls each of its samples stands for. This is done before ranges are
 * merged: if few samples are of objects alive at the end, ranges of smaller and of larger objects,
 * which are sampled at different rates, are estimated together. */
static void weigh(struct summing *state, size_t first, size_t end)
{
    double calls = 0, samples = 0;
    for (size_t i = first; i < end; i++) {
        const struct stack_cell *cell = &state->tally->cells[i];
        const uint64_t more =
            cell->amounts[STACK_MADE].objects + cell->amounts[STACK_FREED].objects;
        calls += (double)more;
        if (cell->stack != 0) samples += (double)more;
    }
    for (size_t i = first; i < end && samples > 0; i++)
        state->stands_for[i] = calls / samples;
}

/* Sums up the calls of one kind (enum calls_of). */
static void sum_calls(struct summing *state, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    const size_t certain = is_sampled(tally, first) ? certain_from(tally, first, end) : first;
    for (size_t at = first, next; at < certain; at = next) {
        next = range_end(tally, STACK_MADE, at, certain);
        weigh(state, at, next);
    }
    for (unsigned i = 0; i < STACK_MEASURES; i++) {
        const enum stack_measure measure = (enum stack_measure)i;
        for (size_t at = first, next; at < certain; at = next) {
            next = range_end(tally, measure, at, certain);
            sum_cells(state, measure, at, next);
        }
        if (certain < end) sum_cells(state, measure, certain, end);
    }
}

bool stack_tally_sum(const struct stack_tally *tally, const struct stack_groups *groups,
                     struct stack_sums *sums)
{
    struct summing state = {.tally = tally, .groups = groups, .sums = sums};
    state.here = calloc(groups->count + 1, sizeof *state.here);
    state.touched = calloc(groups->count + 1, sizeof *state.touched);
    state.stands_for = calloc(tally->count + 1, sizeof *state.stands_for);
    const bool good = state.here != NULL && state.touched != NULL && state.stands_for != NULL;
    for (size_t i = 0; i < tally->count && good; i++)
        state.stands_for[i] = 1;
    for (size_t first = 0, end; first < tally->count && good; first = end) {
        for (end = first + 1; end < tally->count && calls_of(tally, end) == calls_of(tally, first);)
            end++;
        sum_calls(&state, first, end);
    }
    free(state.here);
    free(state.touched);
    free(state.stands_for);
    return good;
}

/* The 97.5th percentile of Student's distribution, to the second order of 1 / degrees of freedom. */
double stack_sum_margin(const struct stack_sum *sum)
{
    if (sum->variance <= 0) return 0;
    const double degrees = sum->variance * sum->variance / sum->doubt;
    const double by = 1 / (degrees > DEGREES_LEAST ? degrees : DEGREES_LEAST);
    return (1.96 + 2.37 * by + 2.82 * by * by) * sqrt(sum->variance);
}
