#include "symbols/stack_tally.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/histogram.h"
#include "common/pages.h"
#include "stream/metadata.h"

enum { SLOTS_LEAST = 4096, SAMPLES_LEAST = 16 };
/* How many calls of its thread lie at most between the free of a container's memory and the one
 * that made larger memory, this one included: what it copies may ask for memory, too. */
enum { GROWTH_CALLS = 4 };
#define DEGREES_LEAST  2.0
/* How recorders sampled that did not say it: those of tcmalloc. */
#define SMALL          1025u
#define SMALL_REALLOC  32768u
#define LARGE          (UINT64_C(1) << 20)
#define BYTES_A_CALL   256u
#define BYTES_OF_FREES 65536u /* if all allocations have stacks */

/* Kinds of calls with classes of their own: each has HISTOGRAM_BUCKETS numbers, in this order. Of
 * two that differ in size only, calls of the second one are also sampled by bytes. */
enum tallied_calls {
    ALLOCATIONS,
    LARGE_ALLOCATIONS,
    REALLOCS,
    LARGE_REALLOCS,
    FREES,
    REMOTE_FREES,
    MAPPINGS
};

static enum tallied_calls stack_tally_calls_of(const struct stack_tally *tally, size_t cell)
{
    return (enum tallied_calls)(tally->cells[cell].size_class / HISTOGRAM_BUCKETS);
}

/* Calls whose classes may be estimated together: those that differ in size only. */
static enum tallied_calls alike(enum tallied_calls calls)
{
    return calls < FREES ? (enum tallied_calls)(calls & ~1u) : calls;
}

static bool are_frees(const struct stack_tally *tally, size_t cell)
{
    const enum tallied_calls calls = stack_tally_calls_of(tally, cell);
    return calls == FREES || calls == REMOTE_FREES;
}

struct stack_object {
    uint64_t size;
    uint64_t call : 48, lane : 16;
    uint32_t cell;
};

/* The latest calls of a lane, as far as they made an object. */
struct stack_latest {
    struct stack_made {
        uint64_t size;
        uint64_t before; /* the call that made the latest object at its stack before; 0: none */
        uint32_t stack;  /* 0: it has made none */
        uint32_t cell;
    } calls[GROWTH_CALLS];
    unsigned at; /* of the latest one */
};

/* ---- cells ---- */

static size_t stack_tally_slot_of(const struct stack_tally *tally, uint32_t stack,
                                  uint32_t size_class)
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

static bool stack_tally_slots_grow(struct stack_tally *tally)
{
    uint32_t *old = tally->slots;
    const size_t more = tally->slots_count == 0 ? SLOTS_LEAST : 2 * tally->slots_count;
    uint32_t *slots = calloc(more, sizeof *slots);
    if (slots == NULL) return false;
    tally->slots = slots;
    tally->slots_count = more;
    for (size_t i = 0; i < tally->count; i++)
        slots[stack_tally_slot_of(tally, tally->cells[i].stack, tally->cells[i].size_class)] =
            (uint32_t)i + 1;
    free(old);
    return true;
}

/* There is room for one more. */
static uint32_t cell_find(struct stack_tally *tally, uint32_t stack, uint64_t size,
                          enum tallied_calls calls)
{
    const struct stack_chance *chance = &tally->chance;
    if (calls == ALLOCATIONS && size >= chance->small) calls = LARGE_ALLOCATIONS;
    if (calls == REALLOCS && size >= chance->small_realloc) calls = LARGE_REALLOCS;
    const uint32_t size_class = calls * HISTOGRAM_BUCKETS + histogram_bucket(size);
    uint32_t *slot = &tally->slots[stack_tally_slot_of(tally, stack, size_class)];
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
static struct stack_pair *stack_tally_pair_find(struct stack_tally *tally, uint32_t made,
                                                uint32_t freed)
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

static bool stack_tally_reserve(struct stack_tally *tally, size_t calls)
{
    while ((tally->count + calls) * 2 > tally->slots_count)
        if (!stack_tally_slots_grow(tally)) return false;
    if (tally->with_frees && !pairs_reserve(tally, calls)) return false;
    return array_reserve(&tally->cells, &tally->room, tally->count + calls, sizeof *tally->cells) &&
           pages_reserve(&tally->objects, &tally->capacity, tally->live + calls,
                         INSTRUCTION_BLOCK_MAX, sizeof *tally->objects);
}

static const char *stack_tally_define(void *stacks, const struct stack_definition *definition)
{
    return stacks_define(stacks, definition);
}

/* ---- the beginning ---- */

/* Which calls the recorder has sampled. False: no memory. */
static bool stack_chance_read(struct stack_chance *chance, const struct instruction_header *header)
{
    char *bytes = metadata_copy(header->metadata, header->metadata_bytes, "stacks");
    char *frees = metadata_copy(header->metadata, header->metadata_bytes, "stacks.frees");
    char *numbers = metadata_copy(header->metadata, header->metadata_bytes, "stacks.chance");
    const bool good = bytes != NULL && frees != NULL && numbers != NULL;
    *chance = (struct stack_chance){.small = SMALL, .small_realloc = SMALL_REALLOC, .all = LARGE};
    if (good) {
        chance->bytes = strtoull(bytes, NULL, 10); /* "all": 0 */
        chance->frees_are_sampled = strcmp(frees, "all") != 0;
        chance->calls = (chance->bytes > 0 ? chance->bytes : BYTES_OF_FREES) / BYTES_A_CALL;
        sscanf(numbers, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &chance->calls,
               &chance->small, &chance->small_realloc, &chance->all);
        if (chance->calls == 0) chance->calls = 1;
    }
    free(bytes);
    free(frees);
    free(numbers);
    return good;
}

bool stack_tally_follow(struct stacks *stacks, struct instruction_reader *reader)
{
    if ((reader->header.features & INSTRUCTION_FEATURE_STACKS) == 0) return false;
    reader->define = stack_tally_define;
    reader->define_context = stacks;
    return true;
}

bool stack_tally_open(struct stack_tally *tally, const struct instruction_header *header)
{
    *tally = (struct stack_tally){.epoch = 1};
    tally->with_frees = (header->features & INSTRUCTION_FEATURE_FREE_STACKS) != 0;
    if (!stack_chance_read(&tally->chance, header)) return false;
    tally->copies_grow = !stack_tally_is_sampled(tally);
    return stack_tally_slots_grow(tally);
}

void stack_tally_close(struct stack_tally *tally)
{
    pages_unmap(tally->objects, tally->capacity * sizeof *tally->objects);
    free(tally->cells);
    free(tally->slots);
    free(tally->stacks);
    free(tally->oldest);
    free(tally->ages);
    free(tally->pairs);
    free(tally->pair_slots);
    free(tally->latest);
    free(tally->latest_at);
    *tally = (struct stack_tally){.count = 0};
}

/* ---- objects ---- */

static void cell_add(struct stack_cell *cell, enum stack_measure measure, uint64_t bytes)
{
    cell->amounts[measure].objects++;
    cell->amounts[measure].bytes += bytes;
}

static void object_enters(struct stack_tally *tally, struct stack_object *object, uint64_t size,
                          uint32_t stack, enum tallied_calls calls)
{
    const uint32_t at = cell_find(tally, stack, size, calls);
    struct stack_cell *cell = &tally->cells[at];
    cell_add(cell, STACK_MADE, size);
    live_begin(&cell->live, tally->epoch, size);
    *object = (struct stack_object){size, tally->calls, tally->lane, at};
    tally->live_bytes += size;
    if (tally->live_bytes <= tally->peak_bytes) return;
    tally->peak_bytes = tally->live_bytes;
    tally->epoch++;
}

static bool is_short(const struct stack_tally *tally, const struct stack_object *object)
{
    return object->call > 0 && tally->calls - object->call <= STACK_SHORT_CALLS;
}

static void object_leaves(struct stack_tally *tally, const struct stack_object *object)
{
    struct stack_cell *cell = &tally->cells[object->cell];
    live_end(&cell->live, tally->epoch, object->size);
    if (is_short(tally, object)) cell_add(cell, STACK_SHORT_LIVED, object->size);
    if (object->lane != tally->lane) cell_add(cell, STACK_REMOTE, object->size);
    tally->live_bytes -= object->size;
}

/* Counts a free with this stack (0: none), before object_leaves() is called for the object. */
static void note_free(struct stack_tally *tally, const struct stack_object *object, uint32_t stack)
{
    const bool is_remote = object->lane != tally->lane, lived_short = is_short(tally, object);
    const uint32_t at = cell_find(tally, stack, object->size, is_remote ? REMOTE_FREES : FREES);
    const uint32_t made = tally->cells[object->cell].stack;
    cell_add(&tally->cells[at], STACK_FREED, object->size);
    if (is_remote) cell_add(&tally->cells[at], STACK_FREED_REMOTE, object->size);
    if (stack == 0 || made == 0 || (!is_remote && !lived_short)) return;
    struct stack_pair *pair = stack_tally_pair_find(tally, made, stack);
    pair->short_lived += lived_short;
    pair->remote += is_remote;
}

static void resize(struct stack_tally *tally, struct stack_object *object, uint64_t size,
                   uint32_t stack)
{
    const uint64_t before = object->size;
    object_leaves(tally, object);
    object_enters(tally, object, size, stack, REALLOCS);
    if (size > before) cell_add(&tally->cells[object->cell], STACK_GROWN, size - before);
}

/* ---- what grows without realloc ---- */

/* False: no memory. */
static bool stack_tally_follow_lane(struct stack_tally *tally, uint32_t lane)
{
    const size_t before = tally->latest_room;
    tally->lane = lane;
    if (!array_reserve(&tally->latest, &tally->latest_room, (size_t)lane + 1,
                       sizeof *tally->latest))
        return false;
    for (size_t i = before; i < tally->latest_room; i++)
        tally->latest[i] = (struct stack_latest){.at = 0};
    return true;
}

/* Keeps a call of the lane. False: no memory. */
static bool note_call(struct stack_tally *tally, const struct stack_object *made)
{
    struct stack_latest *latest = &tally->latest[tally->lane];
    const uint32_t stack = made != NULL ? tally->cells[made->cell].stack : 0;
    const size_t known = tally->latest_at_room;
    latest->at = (latest->at + 1) % GROWTH_CALLS;
    latest->calls[latest->at] = (struct stack_made){.stack = 0};
    if (stack == 0 || !tally->copies_grow) return true;
    if (!array_reserve(&tally->latest_at, &tally->latest_at_room, (size_t)stack + 1,
                       sizeof *tally->latest_at))
        return false;
    for (size_t i = known; i < tally->latest_at_room; i++)
        tally->latest_at[i] = 0;
    latest->calls[latest->at] =
        (struct stack_made){made->size, tally->latest_at[stack], stack, made->cell};
    tally->latest_at[stack] = made->call;
    return true;
}

/* Before end() is called for the object. */
static void note_growth(struct stack_tally *tally, const struct stack_object *object)
{
    struct stack_latest *latest = &tally->latest[tally->lane];
    const uint32_t stack = tally->cells[object->cell].stack;
    if (stack == 0 || object->lane != tally->lane) return;
    for (unsigned i = 0; i < GROWTH_CALLS; i++) {
        struct stack_made *made = &latest->calls[i];
        if (made->stack != stack || made->size <= object->size ||
            made->size < object->size + object->size / 2 ||
            (i != latest->at && made->before != object->call))
            continue;
        cell_add(&tally->cells[made->cell], STACK_GROWN, made->size - object->size);
        made->stack = 0;
        return;
    }
}

/* What was counted is a base (INSTRUCTIONS.md 4.9): the objects that are alive stay. */
static void forget_base(struct stack_tally *tally)
{
    for (size_t i = 0; i < tally->count; i++)
        memset(tally->cells[i].amounts, 0, sizeof tally->cells[i].amounts);
    for (size_t i = 0; i < tally->pair_slots_count; i++)
        tally->pair_slots[i] = 0;
    tally->pairs_count = 0;
    tally->peak_bytes = tally->live_bytes;
    tally->epoch++;
}

bool stack_tally_add(struct stack_tally *tally, const struct instruction_batch *batch, size_t count)
{
    struct instruction_walk walk = instruction_walk_over(batch, count);
    struct instruction one;
    if (!stack_tally_reserve(tally, batch->count) || !stack_tally_follow_lane(tally, tally->lane))
        return false;
    while (instruction_walk_next(&walk, &one)) {
        const unsigned does = instruction_does[one.opcode];
        const uint32_t stack = instruction_walk_stack(&walk);
        tally->calls += does != INSTRUCTION_OTHER && !batch->is_base;
        switch (does) {
        case INSTRUCTION_BEGINS:
            object_enters(tally, &tally->objects[tally->live++], one.size, stack, ALLOCATIONS);
            if (!note_call(tally, &tally->objects[tally->live - 1])) return false;
            continue;
        case INSTRUCTION_ENDS:
            note_growth(tally, &tally->objects[one.object]);
            if (tally->with_frees) note_free(tally, &tally->objects[one.object], stack);
            object_leaves(tally, &tally->objects[one.object]);
            tally->objects[one.object] = tally->objects[--tally->live];
            break;
        case INSTRUCTION_RESIZES:
            resize(tally, &tally->objects[one.object], one.size, stack);
            break;
        case INSTRUCTION_OTHER:
            if (one.opcode == INSTRUCTION_LANE &&
                !stack_tally_follow_lane(tally, (uint32_t)batch->operands[one.operand_at]))
                return false;
            continue;
        default: break;
        }
        note_call(tally, NULL);
    }
    if (instruction_batch_ends_base(batch)) forget_base(tally);
    return true;
}

bool stack_tally_add_mapped(struct stack_tally *tally, uint32_t stack, uint64_t pieces,
                            uint64_t bytes)
{
    if (!stack_tally_reserve(tally, 1)) return false;
    struct stack_cell *cell = &tally->cells[cell_find(tally, stack, 0, MAPPINGS)];
    cell->amounts[STACK_MAPPED].objects += pieces;
    cell->amounts[STACK_MAPPED].bytes += bytes;
    return true;
}

uint32_t stack_tally_node(const struct stack_tally *tally, uint64_t index)
{
    return tally->cells[tally->objects[index].cell].stack;
}

/* ---- the end ---- */

static int stack_tally_by_number(const void *one, const void *other)
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
    tally->ages = calloc(tally->count + 1, sizeof *tally->ages);
    if (tally->stacks == NULL || tally->oldest == NULL || tally->ages == NULL) return false;
    for (size_t i = 0; i < tally->count; i++)
        tally->stacks[i + 1] = tally->cells[i].stack;
    qsort(tally->stacks, tally->count + 1, sizeof *tally->stacks, stack_tally_by_number);
    for (size_t i = 1; i <= tally->count; i++)
        if (tally->stacks[i] != tally->stacks[count - 1]) tally->stacks[count++] = tally->stacks[i];
    tally->stacks_count = count;
    return true;
}

static uint32_t stack_tally_index_of(const struct stack_tally *tally, uint32_t stack)
{
    const uint32_t *at =
        bsearch(&stack, tally->stacks, tally->stacks_count, sizeof stack, stack_tally_by_number);
    return (uint32_t)(at - tally->stacks);
}

bool stack_tally_end(struct stack_tally *tally)
{
    if (!list_stacks(tally)) return false;
    for (size_t i = 0; i < tally->count; i++) {
        struct stack_cell *cell = &tally->cells[i];
        live_settle(&cell->live, tally->epoch);
        cell->stack = stack_tally_index_of(tally, cell->stack);
        cell->amounts[STACK_AT_PEAK] =
            (struct stack_amount){cell->live.peak_objects, cell->live.peak_bytes};
        cell->amounts[STACK_AT_END] = (struct stack_amount){cell->live.objects, cell->live.bytes};
    }
    for (size_t i = 0; i < tally->pairs_count; i++) {
        tally->pairs[i].made = stack_tally_index_of(tally, tally->pairs[i].made);
        tally->pairs[i].freed = stack_tally_index_of(tally, tally->pairs[i].freed);
    }
    for (uint64_t i = 0; i < tally->live; i++) {
        const struct stack_object *object = &tally->objects[i];
        const uint32_t stack = tally->cells[object->cell].stack;
        uint64_t *oldest = &tally->oldest[stack];
        if (*oldest == 0 || object->call < *oldest) *oldest = object->call;
        /* Of a base, call 0: before the first quarter. */
        tally->ages[stack].quarters[object->call > 0 ? 4 * (object->call - 1) / tally->calls : 0]++;
    }
    if (tally->count > 1) qsort(tally->cells, tally->count, sizeof *tally->cells, by_class);
    return true;
}

/* ---- sums of groups ---- */

/* Whether only some of the calls of the cell's class have stacks. */
static bool cell_is_sampled(const struct stack_tally *tally, size_t cell)
{
    return are_frees(tally, cell) ? stack_tally_frees_are_sampled(tally)
                                  : stack_tally_is_sampled(tally);
}

/* How many calls one of the cell stands for, if it has its stack. */
static double stands_for(const struct stack_tally *tally, size_t cell)
{
    const struct stack_chance *chance = &tally->chance;
    const struct stack_amount *made = &tally->cells[cell].amounts[STACK_MADE];
    const enum tallied_calls calls = stack_tally_calls_of(tally, cell);
    double chosen = 1 / (double)chance->calls; /* how often, on average */
    if (!cell_is_sampled(tally, cell)) return 1;
    if (calls == LARGE_ALLOCATIONS || calls == LARGE_REALLOCS) {
        const double size =
            made->objects > 0 ? (double)made->bytes / (double)made->objects : (double)chance->small;
        if (size >= (double)chance->all) return 1;
        chosen += size / (double)chance->bytes;
    }
    return -1 / expm1(-chosen);
}

/* Sums over samples that stand for all objects, or over all objects. */
struct moments {
    double sum;
    /* The variance of the sum: over samples that stand for w objects of a size, w (w - 1) size^2;
     * over all objects what that is on average, (w - 1) size^2. And over samples the square. */
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
static void add_samples(struct weight *to, const struct stack_amount *amount, double each)
{
    const double count = (double)amount->objects;
    to->samples += count;
    add_moments(&to->objects, count, each, 1);
    add_moments(&to->bytes, count, each, (double)amount->bytes / count);
}

/* All objects of a cell, whether it has its stack or not. */
static void add_all(struct weight *to, const struct stack_amount *amount, double each)
{
    const double count = (double)amount->objects, size = (double)amount->bytes / count;
    to->objects.sum += count;
    to->objects.squares += count * (each - 1);
    to->bytes.sum += count * size;
    to->bytes.squares += count * (each - 1) * size * size;
}

static void add_weight(struct weight *to, const struct weight *one)
{
    to->objects.sum += one->objects.sum;
    to->objects.squares += one->objects.squares;
    to->bytes.sum += one->bytes.sum;
    to->bytes.squares += one->bytes.squares;
}

static void add_variance(struct stack_sum *to, double variance, double degrees)
{
    to->variance += variance;
    to->doubt += variance * variance / degrees;
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
    if (variance > 0)
        add_variance(to, variance, sampled->squares * sampled->squares / sampled->fourths);
}

/* Of these objects no sample is of the group: as if there were one, but not of more than all. */
static void add_unseen(struct stack_sum *to, const struct moments *all, const struct moments *seen)
{
    const double sum = all->sum - seen->sum, squares = all->squares - seen->squares;
    if (sum < 0.5 || squares <= 0) return;
    const double one = fmin(squares / sum, sum / 2);
    add_variance(to, one * one, 1);
}

struct group_here {
    bool is_touched;
    struct weight weight;
};

/* What a group has of a measure. */
struct group_seen {
    bool is_there;
    struct weight all; /* of the ranges of classes in which there are samples of the group */
};

struct summing {
    const struct stack_tally *tally;
    const struct stack_groups *groups;
    struct stack_sums *sums;
    double *stands_for;      /* by cell */
    struct group_here *here; /* by group: in these cells */
    struct group_seen *seen; /* by group: of a measure */
    struct weight all;       /* of the measure */
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
        if (amount->objects > 0) add_samples(&here->weight, amount, state->stands_for[cell]);
    }
}

static void add_exact(struct stack_sums *to, enum stack_measure measure, const struct weight *all)
{
    to->objects[measure].value += all->objects.sum;
    to->bytes[measure].value += all->bytes.sum;
}

/* Adds to each group that was touched what its samples stand for. */
static void add_touched(struct summing *state, enum stack_measure measure,
                        const struct weight *sampled, const struct weight *all)
{
    for (size_t i = 0; i < state->touched_count; i++) {
        const uint32_t group = state->touched[i];
        struct group_here *here = &state->here[group];
        struct stack_sums *to = &state->sums[group];
        add_part(&to->objects[measure], &here->weight.objects, all->objects.sum, &sampled->objects);
        add_part(&to->bytes[measure], &here->weight.bytes, all->bytes.sum, &sampled->bytes);
        *here = (struct group_here){.is_touched = false};
        state->seen[group].is_there = true;
        if (sampled->samples > 0) add_weight(&state->seen[group].all, all);
    }
}

/* Estimates the cells from `first` up to `end` together. A group with samples, none of which counts
 * here, may have objects that do: it gets a variance. Without any sample, all goes to stack 0. */
static void sum_cells(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_groups *groups = state->groups;
    struct weight all = {.samples = 0}, sampled = {.samples = 0};
    state->touched_count = 0;
    for (size_t i = first; i < end; i++) {
        const struct stack_cell *cell = &state->tally->cells[i];
        const struct stack_amount *amount = &cell->amounts[measure];
        if (cell->stack != 0) touch(state, i, amount);
        if (amount->objects == 0) continue;
        add_all(&all, amount, state->stands_for[i]);
        if (cell->stack != 0) add_samples(&sampled, amount, state->stands_for[i]);
    }
    add_touched(state, measure, &sampled, &all);
    add_weight(&state->all, &all);
    for (uint32_t i = groups->first[0]; i < groups->first[1]; i++)
        if (sampled.samples <= 0) add_exact(&state->sums[groups->groups[i]], measure, &all);
}

/* Sums up cells of which all calls have stacks: a call without one has none that could be found. */
static void sum_exactly(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_groups *groups = state->groups;
    for (size_t i = first; i < end; i++) {
        const struct stack_cell *cell = &state->tally->cells[i];
        const struct stack_amount *amount = &cell->amounts[measure];
        for (uint32_t at = groups->first[cell->stack]; at < groups->first[cell->stack + 1]; at++) {
            struct stack_sums *to = &state->sums[groups->groups[at]];
            to->objects[measure].value += (double)amount->objects;
            to->bytes[measure].value += (double)amount->bytes;
            state->seen[groups->groups[at]].is_there = true;
        }
    }
}

/* Some cells that are estimated together. */
struct cell_range {
    size_t end;
    uint64_t samples; /* of a measure */
};

/* The range of the class that begins at `first`. */
static struct cell_range one_class(const struct stack_tally *tally, enum stack_measure measure,
                                   size_t first)
{
    struct cell_range range = {.end = first};
    while (range.end < tally->count &&
           tally->cells[range.end].size_class == tally->cells[first].size_class) {
        const struct stack_cell *cell = &tally->cells[range.end++];
        if (cell->stack != 0) range.samples += cell->amounts[measure].objects;
    }
    return range;
}

/* The index from which on, up to `end`, all calls have stacks: those are sure to be sampled, or
 * happen to be. Only the contiguous range at the end counts: a lower class that was sampled
 * completely by chance still tells about its neighbours. */
static size_t certain_from(const struct summing *state, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    size_t certain = end;
    while (certain > first &&
           (state->stands_for[certain - 1] <= 1 || tally->cells[certain - 1].stack != 0))
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

/* Groups that are there may have more where no sample is theirs. */
static void add_all_unseen(struct summing *state, enum stack_measure measure)
{
    for (size_t i = 0; i < state->groups->count; i++) {
        const struct group_seen *seen = &state->seen[i];
        struct stack_sums *to = &state->sums[i];
        if (!seen->is_there) continue;
        add_unseen(&to->objects[measure], &state->all.objects, &seen->all.objects);
        add_unseen(&to->bytes[measure], &state->all.bytes, &seen->all.bytes);
    }
}

/* The first cell before `end` of which a sample stands for much less than one of `first` does.
 * Estimated together, a large class without a sample would count for those who have samples of a
 * small one. */
static size_t equal_until(const struct summing *state, size_t first, size_t end)
{
    size_t at = first;
    while (at < end && 2 * state->stands_for[at] > state->stands_for[first])
        at++;
    /* Must not be in the middle of a class. */
    while (at < end && state->tally->cells[at - 1].size_class == state->tally->cells[at].size_class)
        at++;
    return at;
}

/* Sums up cells of calls that are alike. */
static void sum_alike(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    const size_t certain = cell_is_sampled(tally, first) ? certain_from(state, first, end) : first;
    for (size_t at = first, next; at < certain; at = next) {
        next = range_end(tally, measure, at, equal_until(state, at, certain));
        sum_cells(state, measure, at, next);
    }
    sum_exactly(state, measure, certain, end);
}

/* Which cells a measure is of: cells are sorted by the kind of their calls. */
static struct cell_range cells_of_measure(const struct stack_tally *tally,
                                          enum stack_measure measure, size_t *first)
{
    const bool of_frees = measure == STACK_FREED || measure == STACK_FREED_REMOTE;
    const enum tallied_calls from = measure == STACK_MAPPED ? MAPPINGS
                                    : of_frees              ? FREES
                                                            : ALLOCATIONS;
    const enum tallied_calls until = measure == STACK_MAPPED ? MAPPINGS + 1
                                     : of_frees              ? MAPPINGS
                                                             : FREES;
    struct cell_range range = {.end = 0};
    while (range.end < tally->count && stack_tally_calls_of(tally, range.end) < from)
        range.end++;
    *first = range.end;
    while (range.end < tally->count && stack_tally_calls_of(tally, range.end) < until)
        range.end++;
    return range;
}

/* Sums up all cells of allocations and reallocs, of frees, or of mappings. */
static void sum_measure(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    memset(state->seen, 0, state->groups->count * sizeof *state->seen);
    state->all = (struct weight){.samples = 0};
    if (measure == STACK_MAPPED) {
        sum_exactly(state, measure, first, end);
        return;
    }
    for (size_t at = first, next; at < end; at = next) {
        const enum tallied_calls calls = alike(stack_tally_calls_of(tally, at));
        for (next = at + 1; next < end && alike(stack_tally_calls_of(tally, next)) == calls;)
            next++;
        sum_alike(state, measure, at, next);
    }
    add_all_unseen(state, measure);
}

bool stack_tally_sum(const struct stack_tally *tally, const struct stack_groups *groups,
                     struct stack_sums *sums)
{
    struct summing state = {.tally = tally, .groups = groups, .sums = sums};
    state.here = calloc(groups->count + 1, sizeof *state.here);
    state.seen = calloc(groups->count + 1, sizeof *state.seen);
    state.touched = calloc(groups->count + 1, sizeof *state.touched);
    state.stands_for = calloc(tally->count + 1, sizeof *state.stands_for);
    const bool good = state.here != NULL && state.seen != NULL && state.touched != NULL &&
                      state.stands_for != NULL;
    for (size_t i = 0; i < tally->count && good; i++)
        state.stands_for[i] = stands_for(tally, i);
    for (unsigned i = 0; i < STACK_MEASURES && good; i++) {
        size_t first;
        const struct cell_range cells = cells_of_measure(tally, (enum stack_measure)i, &first);
        sum_measure(&state, (enum stack_measure)i, first, cells.end);
    }
    free(state.here);
    free(state.seen);
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
