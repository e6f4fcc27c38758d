#include "symbols/stack_tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/pages.h"
#include "stream/metadata.h"

enum { SLOTS_LEAST = 4096 };
#define STACK_TIME_NS (UINT64_C(1) << 22)
/* How many calls of its thread lie at most between the free of a container's memory and the one
 * that made larger memory, this one included: what it copies may ask for memory, too. */
enum { GROWTH_CALLS = 4 };
/* How recorders sampled that did not say it: those of tcmalloc. */
#define SMALL          1025u
#define SMALL_REALLOC  32768u
#define LARGE          (UINT64_C(1) << 20)
#define BYTES_A_CALL   256u
#define BYTES_OF_FREES 65536u /* if all allocations have stacks */

struct stack_object {
    uint64_t size;
    uint64_t call : 48, lane : 16;
    uint32_t cell;
    uint32_t time;
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

static unsigned magnitude_of(uint64_t size)
{
    return size == 0 ? 0 : 64u - (unsigned)__builtin_clzll(size);
}

/* Samples tell apart kinds and sizes; if all calls have stacks, no more than frees and others. */
static unsigned class_of(const struct stack_tally *tally, uint64_t size, enum stack_calls calls)
{
    const struct stack_chance *chance = &tally->chance;
    const bool are_frees = calls >= STACK_FREES;
    if (calls == STACK_MAPPINGS) return STACK_MAPPINGS * HISTOGRAM_BUCKETS;
    if (!(are_frees ? stack_tally_frees_are_sampled(tally) : stack_tally_is_sampled(tally)))
        return (are_frees ? STACK_FREES : STACK_ALLOCATIONS) * HISTOGRAM_BUCKETS +
               (are_frees ? 0 : magnitude_of(size));
    if (calls == STACK_ALLOCATIONS && size >= chance->small) calls = STACK_LARGE_ALLOCATIONS;
    if (calls == STACK_REALLOCS && size >= chance->small_realloc) calls = STACK_LARGE_REALLOCS;
    return calls * HISTOGRAM_BUCKETS + histogram_bucket(size);
}

unsigned stack_tally_magnitude(const struct stack_tally *tally, const struct stack_cell *cell)
{
    const unsigned within = cell->size_class % HISTOGRAM_BUCKETS;
    return stack_tally_is_sampled(tally) ? magnitude_of(histogram_bucket_low(within)) : within;
}

/* There is room for one more. */
static uint32_t cell_find(struct stack_tally *tally, uint32_t stack, uint64_t size,
                          enum stack_calls calls)
{
    return stack_cells_find(&tally->cells, stack, class_of(tally, size, calls));
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

/* Room for so many calls, of stacks up to `node`. */
static bool stack_tally_reserve(struct stack_tally *tally, size_t calls, uint32_t node)
{
    if (tally->with_frees && !pairs_reserve(tally, calls)) return false;
    return stack_cells_reserve(&tally->cells, calls, node) &&
           pages_reserve(&tally->latest_at, &tally->latest_at_room, (uint64_t)node + 1, SLOTS_LEAST,
                         sizeof *tally->latest_at) &&
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
    stack_times_open(&tally->times);
    return stack_cells_open(&tally->cells);
}

/* What only counting needs. */
static void forget_objects(struct stack_tally *tally)
{
    pages_unmap(tally->objects, tally->capacity * sizeof *tally->objects);
    pages_unmap(tally->latest_at, tally->latest_at_room * sizeof *tally->latest_at);
    tally->objects = NULL;
    tally->latest_at = NULL;
    tally->capacity = tally->latest_at_room = 0;
}

void stack_tally_close(struct stack_tally *tally)
{
    forget_objects(tally);
    stack_cells_close(&tally->cells);
    stack_times_close(&tally->times);
    free(tally->stacks);
    free(tally->oldest);
    free(tally->ages);
    free(tally->pairs);
    free(tally->pair_slots);
    free(tally->latest);
    *tally = (struct stack_tally){.stacks = NULL};
}

/* ---- objects ---- */

static void cell_add(struct stack_cell *cell, enum stack_measure measure, uint64_t bytes)
{
    struct stack_amount *amount = &cell->amounts[stack_measure_at(measure)];
    amount->objects++;
    amount->bytes += bytes;
}

static void object_enters(struct stack_tally *tally, struct stack_object *object, uint64_t size,
                          uint32_t stack, enum stack_calls calls)
{
    const uint32_t at = cell_find(tally, stack, size, calls);
    struct stack_cell *cell = &tally->cells.at[at];
    stack_times_use(&tally->times, cell, at);
    cell_add(cell, STACK_MADE, size);
    live_begin(&cell->live, tally->epoch, size);
    *object = (struct stack_object){size, tally->calls, tally->lane, at, tally->time};
    tally->live_bytes += size;
    if (tally->live_bytes <= tally->peak_bytes) return;
    tally->peak_bytes = tally->live_bytes;
    tally->epoch++;
}

static void note_lifetime(struct stack_cell *cell, uint64_t calls)
{
    unsigned at = 0;
    for (uint64_t most = 1000; at < STACK_LIFETIMES - 1 && calls > most; most *= 10)
        at++;
    cell->lived[at]++;
}

static bool is_short(const struct stack_tally *tally, const struct stack_object *object)
{
    return object->call > 0 && tally->calls - object->call <= STACK_SHORT_CALLS;
}

static void object_leaves(struct stack_tally *tally, const struct stack_object *object)
{
    struct stack_cell *cell = &tally->cells.at[object->cell];
    stack_times_use(&tally->times, cell, object->cell);
    live_end(&cell->live, tally->epoch, object->size);
    if (is_short(tally, object))
        cell_add(cell, STACK_SHORT_LIVED, object->size);
    else if (object->call > 0) /* not of a base */
        note_lifetime(cell, tally->calls - object->call);
    if (object->lane != tally->lane) cell_add(cell, STACK_REMOTE, object->size);
    tally->live_bytes -= object->size;
}

/* Counts a free with this stack (0: none), before object_leaves() is called for the object. */
static void note_free(struct stack_tally *tally, const struct stack_object *object, uint32_t stack)
{
    const bool is_remote = object->lane != tally->lane, lived_short = is_short(tally, object);
    const uint32_t at =
        cell_find(tally, stack, object->size, is_remote ? STACK_REMOTE_FREES : STACK_FREES);
    const uint32_t made = tally->cells.at[object->cell].stack;
    cell_add(&tally->cells.at[at], STACK_FREED, object->size);
    if (is_remote) cell_add(&tally->cells.at[at], STACK_FREED_REMOTE, object->size);
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
    object_enters(tally, object, size, stack, STACK_REALLOCS);
    if (size > before) cell_add(&tally->cells.at[object->cell], STACK_GROWN, size - before);
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

/* Keeps a call of the lane. */
static void note_call(struct stack_tally *tally, const struct stack_object *made)
{
    struct stack_latest *latest = &tally->latest[tally->lane];
    const uint32_t stack = made != NULL ? tally->cells.at[made->cell].stack : 0;
    latest->at = (latest->at + 1) % GROWTH_CALLS;
    latest->calls[latest->at] = (struct stack_made){.stack = 0};
    if (stack == 0 || !tally->copies_grow) return;
    latest->calls[latest->at] =
        (struct stack_made){made->size, tally->latest_at[stack], stack, made->cell};
    tally->latest_at[stack] = made->call;
}

/* Before end() is called for the object. */
static void note_growth(struct stack_tally *tally, const struct stack_object *object)
{
    struct stack_latest *latest = &tally->latest[tally->lane];
    const uint32_t stack = tally->cells.at[object->cell].stack;
    if (stack == 0 || object->lane != tally->lane) return;
    for (unsigned i = 0; i < GROWTH_CALLS; i++) {
        struct stack_made *made = &latest->calls[i];
        if (made->stack != stack || made->size <= object->size ||
            made->size < object->size + object->size / 2 ||
            (i != latest->at && made->before != object->call))
            continue;
        cell_add(&tally->cells.at[made->cell], STACK_GROWN, made->size - object->size);
        made->stack = 0;
        return;
    }
}

/* What was counted is a base (INSTRUCTIONS.md 4.9): the objects that are alive stay. False: no memory. */
static bool forget_base(struct stack_tally *tally)
{
    for (size_t i = 0; i < tally->cells.count; i++) {
        memset(tally->cells.at[i].amounts, 0, sizeof tally->cells.at[i].amounts);
        memset(tally->cells.at[i].lived, 0, sizeof tally->cells.at[i].lived);
    }
    for (size_t i = 0; i < tally->pair_slots_count; i++)
        tally->pair_slots[i] = 0;
    tally->pairs_count = 0;
    tally->ages_by_time = true;
    tally->peak_bytes = tally->live_bytes;
    tally->epoch++;
    return stack_times_base(&tally->times, &tally->cells);
}

/* The greatest node of the first `count` instructions of a batch. */
static uint32_t greatest_node(const struct instruction_batch *batch, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; batch->stacks != NULL && i < count; i++)
        if (batch->stacks[i] > most) most = batch->stacks[i];
    return most;
}

/* What is no call. False: no memory. */
static bool note_other(struct stack_tally *tally, unsigned number, const uint64_t *operands)
{
    if (number == INSTRUCTION_TICK) {
        const bool good = stack_times_tick(&tally->times, &tally->cells, operands[0], tally->calls);
        tally->time = (uint32_t)(tally->times.ns / STACK_TIME_NS);
        return good;
    }
    return number != INSTRUCTION_LANE || stack_tally_follow_lane(tally, (uint32_t)operands[0]);
}

bool stack_tally_add(struct stack_tally *tally, const struct instruction_batch *batch, size_t count)
{
    struct instruction_walk walk = instruction_walk_over(batch, count);
    struct instruction one;
    if (!stack_tally_reserve(tally, batch->count, greatest_node(batch, count)) ||
        !stack_times_reserve(&tally->times, &tally->cells, batch->count, tally->calls) ||
        !stack_tally_follow_lane(tally, tally->lane))
        return false;
    while (instruction_walk_next(&walk, &one)) {
        const unsigned does = instruction_does[one.opcode];
        const uint32_t stack = instruction_walk_stack(&walk);
        tally->calls += does != INSTRUCTION_OTHER && !batch->is_base;
        switch (does) {
        case INSTRUCTION_BEGINS:
            object_enters(tally, &tally->objects[tally->live++], one.size, stack,
                          STACK_ALLOCATIONS);
            note_call(tally, &tally->objects[tally->live - 1]);
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
            if (!note_other(tally, one.opcode, batch->operands + one.operand_at)) return false;
            continue;
        default: break;
        }
        note_call(tally, NULL);
    }
    return !instruction_batch_ends_base(batch) || forget_base(tally);
}

bool stack_tally_add_mapped(struct stack_tally *tally, uint32_t stack, uint64_t pieces,
                            uint64_t bytes)
{
    if (!stack_tally_reserve(tally, 1, stack)) return false;
    struct stack_cell *cell = &tally->cells.at[cell_find(tally, stack, 0, STACK_MAPPINGS)];
    struct stack_amount *mapped = &cell->amounts[stack_measure_at(STACK_MAPPED)];
    mapped->objects += pieces;
    mapped->bytes += bytes;
    return true;
}

uint32_t stack_tally_node(const struct stack_tally *tally, uint64_t index)
{
    return tally->cells.at[tally->objects[index].cell].stack;
}

/* ---- the end ---- */

/* The quarter in which it was made. Of a base, without a clock: the first one. */
static unsigned quarter_of(const struct stack_tally *tally, const struct stack_object *object)
{
    if (tally->ages_by_time) return stack_ages_quarter(object->time, tally->time);
    return object->call > 0 ? stack_ages_quarter(object->call - 1, tally->calls - 1) : 0;
}

/* How old live objects are. Cells have numbers of stacks. */
static void note_ages(struct stack_tally *tally)
{
    for (uint64_t i = 0; i < tally->live; i++) {
        const struct stack_object *object = &tally->objects[i];
        const uint32_t stack = tally->cells.at[object->cell].stack;
        uint64_t *oldest = &tally->oldest[stack];
        struct stack_ages *ages = &tally->ages[stack];
        if (stack_ages_all(ages) == 0 || object->call < *oldest) *oldest = object->call;
        ages->quarters[quarter_of(tally, object)]++;
    }
}

bool stack_tally_end(struct stack_tally *tally)
{
    if (tally->time < 4) tally->ages_by_time = false;
    tally->stacks_count = stack_cells_number(&tally->cells, &tally->stacks);
    tally->oldest = calloc(tally->stacks_count + 1, sizeof *tally->oldest);
    tally->ages = calloc(tally->stacks_count + 1, sizeof *tally->ages);
    if (tally->stacks_count == 0 || tally->oldest == NULL || tally->ages == NULL) return false;
    for (size_t i = 0; i < tally->cells.count; i++)
        live_settle(&tally->cells.at[i].live, tally->epoch);
    for (size_t i = 0; i < tally->pairs_count; i++) {
        struct stack_pair *pair = &tally->pairs[i];
        pair->made = stack_cells_number_of(&tally->cells, pair->made);
        pair->freed = stack_cells_number_of(&tally->cells, pair->freed);
    }
    note_ages(tally);
    forget_objects(tally);
    if (!stack_times_end(&tally->times, &tally->cells, tally->calls)) return false;
    stack_cells_sort(&tally->cells);
    return true;
}
