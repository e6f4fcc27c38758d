#include "base/base_own.h"

#include "common/call_table.h"
#include "common/pages.h"

#define LIVES_LEAST INSTRUCTION_BLOCK_MAX

/* How many instructions ahead entries are fetched into the cache. */
enum { BASE_ROW_AHEAD = 16, BASE_LIFE_AHEAD = 8 };

bool base_open(struct base *base, const struct base_limits *limits, uint64_t page_bytes)
{
    *base = (struct base){.lives_free = BASE_NONE, .threads_free = BASE_NONE, .at = 1};
    base->mappings.page_bytes = page_bytes > 0 ? page_bytes : MAPPING_PAGE_BYTES;
    base->limits = *limits;
    base->moments_max = limits->moments == 0                 ? BASE_MOMENTS_MAX
                        : limits->moments == BASE_NO_MOMENTS ? 0
                        : limits->moments > BASE_MOMENTS_MAX ? BASE_MOMENTS_MAX
                                                             : limits->moments;
    base->every =
        base->moments_max == 0 ? UINT64_MAX : 0; /* nothing is large; all that a base has */
    return base_threads_open(base);
}

void base_close(struct base *base)
{
    base_threads_close(base);
    stacks_free(&base->stacks);
    mapping_table_free(&base->mappings);
    pages_unmap(base->lives, base->lives_capacity * sizeof *base->lives);
    pages_unmap(base->row, base->row_capacity * sizeof *base->row);
    base->lives = NULL;
    base->row = NULL;
}

/* ---- lives ---- */

/* A free entry; there is room. */
static uint32_t base_life_entry(struct base *base)
{
    const uint32_t at = base->lives_free;
    if (at == BASE_NONE) return (uint32_t)base->lives_end++;
    base->lives_free = base->lives[at].after;
    if (base->lives_free != BASE_NONE) __builtin_prefetch(&base->lives[base->lives_free], 1);
    return at;
}

void base_drop_life(struct base *base, uint32_t at)
{
    struct base_life *life = &base->lives[at];
    if (life->before != BASE_NONE) base->lives[life->before].after = BASE_NONE;
    if (life->after != BASE_NONE) base->lives[life->after].before = BASE_NONE;
    if (life->died != BASE_ALIVE) base->dead--;
    life->died = 0;
    life->after = base->lives_free;
    base->lives_free = at;
}

/* What the instruction at hand makes. */
struct base_made {
    uint64_t size, alignment, address;
    uint32_t stack, thread;
    uint8_t kind;
};

static void base_count_live(struct base *base, uint64_t size)
{
    struct base_class *of = &base->classes[base_class_of(size)];
    base->live_bytes += size;
    of->bytes += size;
    if (of->bytes > of->most) base_note_class_peak(base, of);
    if (base->live_bytes > base->local_bytes) base_note_peak(base);
}

static void base_count_ended(struct base *base, uint64_t size)
{
    base->live_bytes -= size;
    base->classes[base_class_of(size)].bytes -= size;
}

static uint32_t base_begin(struct base *base, const struct base_made *made, uint32_t before)
{
    const uint32_t at = base_life_entry(base);
    struct base_life *life = &base->lives[at];
    life->born = base->at;
    life->died = BASE_ALIVE;
    life->born_ns = base->ns;
    life->size = made->size;
    life->alignment = made->alignment;
    life->address = made->address;
    life->stack = made->stack;
    life->before = before;
    life->after = BASE_NONE;
    life->thread = made->thread;
    life->kind = made->kind;
    return at;
}

/* Of a base in the stream: moments that have seen this life, if there are none. */
static void base_justify(struct base *base, const struct base_life *life)
{
    if (base_is_seen(base, life->born) || base->moments_max == 0) return;
    if (base->moments_count == BASE_MOMENTS_ROOM) return;
    base->moments[base->moments_count++] = base->at;
    base->newest = base->at;
}

/* Ends a life; the object may have another one, `after`. */
static void base_end_life(struct base *base, uint32_t at, const struct base_made *by,
                          uint32_t after)
{
    struct base_life *life = &base->lives[at];
    life->died = base->at;
    life->died_ns = base->ns;
    life->died_stack = by->stack;
    life->died_thread = by->thread;
    life->died_kind = by->kind;
    life->after = after;
    base->dead++;
}

static void base_free(struct base *base, uint64_t index, const struct base_made *by)
{
    const uint32_t at = base->row[index];
    base->row[index] = base->row[--base->live];
    if (at == BASE_NONE) return;
    base_count_ended(base, base->lives[at].size);
    if (base->walk.batch->is_base) base_justify(base, &base->lives[at]);
    if (!base_stays(base, &base->lives[at])) {
        base_drop_life(base, at);
        return;
    }
    base_end_life(base, at, by, BASE_NONE);
    base_limit_dead(base);
}

/* A realloc of an object that no moment has seen as it was: it is made as it is now. */
static void base_remake(struct base *base, struct base_life *life, const struct base_made *made)
{
    const bool moves = made->kind == CALL_REALLOC_MOVED && life->before == BASE_NONE;
    if (moves) {
        life->born = base->at;
        life->thread = made->thread;
    }
    if (life->before == BASE_NONE) life->born_ns = base->ns;
    life->size = made->size;
    life->address = made->address;
    life->stack = made->stack;
}

static void base_resize(struct base *base, uint64_t index, const struct base_made *made)
{
    const uint32_t at = base->row[index];
    if (at == BASE_NONE) return;
    base_count_ended(base, base->lives[at].size);
    if (base->walk.batch->is_base) base_justify(base, &base->lives[at]);
    if (base_stays(base, &base->lives[at])) {
        struct base_made next = *made;
        next.kind = base->lives[at].kind;
        next.alignment = base->lives[at].alignment;
        const uint32_t after = base_begin(base, &next, at);
        base_end_life(base, at, made, after);
        base->row[index] = after;
        base_limit_dead(base);
    } else {
        base_remake(base, &base->lives[at], made);
    }
    base_count_live(base, made->size);
}

/* ---- instructions ---- */

static bool base_take_call(struct base *base, const struct instruction *one, unsigned does)
{
    const struct instruction_batch *batch = base->walk.batch;
    const unsigned number = instruction_number(one), shape = call_shapes[number];
    const size_t at = base->walk.at - 1;
    const uint64_t *operands = batch->operands + one->operand_at;
    if (shape == SHAPE_HEAP) return base_set(base, number, operands, one->operands);
    if (does == INSTRUCTION_CALLS) return true;
    struct base_made made = {.size = one->size,
                             .address = batch->addresses != NULL ? batch->addresses[at] : 0,
                             .stack = instruction_walk_stack(&base->walk),
                             .thread = base_thread(base),
                             .kind = (uint8_t)number};
    if (made.thread == BASE_NONE) return false;
    if (does == INSTRUCTION_ENDS) {
        base_free(base, one->object, &made);
        return true;
    }
    if (does == INSTRUCTION_RESIZES) {
        base_resize(base, one->object, &made);
    } else {
        if (shape == SHAPE_REALLOC) made.kind = CALL_MALLOC; /* of an object that is not known */
        if (shape == SHAPE_ALLOCATION_ALIGNED) made.alignment = operands[0];
        const struct base_limits *limits = &base->limits;
        const bool taken =
            limits->takes == NULL || limits->takes(limits->of, base->lane, made.size, made.stack);
        base->row[base->live++] = taken ? base_begin(base, &made, BASE_NONE) : BASE_NONE;
        if (taken) base_count_live(base, made.size);
    }
    if (!batch->is_base) base_count_allocated(base, made.size);
    return true;
}

static void base_take_tick(struct base *base, const struct instruction_batch *batch,
                           const struct instruction_tick *tick)
{
    const uint64_t *operands = batch->operands + tick->operand_at;
    base->ns += operands[0];
    base_note_rss(base, operands[1]);
    base->heap_bytes = operands[2];
    base->has_usage = instruction_batch_usage(batch, tick, &base->usage);
    instruction_batch_statistics(batch, tick, &base->statistics);
}

static bool base_take_other(struct base *base, const struct instruction_batch *batch,
                            const struct instruction *one)
{
    const uint64_t *operands = batch->operands + one->operand_at;
    switch (one->opcode) {
    case INSTRUCTION_LANE: base->lane = (uint32_t)operands[0]; break;
    case INSTRUCTION_THREAD_BEGIN: return base_thread_begins(base, operands[0]);
    case INSTRUCTION_THREAD_END: base_thread_ends(base); break;
    case INSTRUCTION_TICK: base_take_tick(base, batch, base->tick++); break;
    case INSTRUCTION_BASE_END: base_begin_moments(base); break;
    default: break;
    }
    return true;
}

/* Of the objects that calls a little further on will end. */
static inline __attribute__((always_inline)) void base_look_ahead(const struct base *base)
{
    const uint64_t far = instruction_walk_record_ahead(&base->walk, BASE_ROW_AHEAD);
    const uint64_t near = instruction_walk_record_ahead(&base->walk, BASE_LIFE_AHEAD);
    if (far < base->live) __builtin_prefetch(&base->row[far]);
    if (near >= base->live || base->row[near] == BASE_NONE) return;
    const struct base_life *life = &base->lives[base->row[near]];
    __builtin_prefetch(life);
    __builtin_prefetch(&life->before);
}

bool base_take(struct base *base, const struct instruction_batch *batch, size_t from, size_t to)
{
    struct instruction one;
    if (from == 0) {
        base->walk = instruction_walk_over(batch, batch->count);
        base->tick = batch->ticks;
    }
    if (!pages_reserve(&base->lives, &base->lives_capacity, base->lives_end + (to - from),
                       LIVES_LEAST, sizeof *base->lives) ||
        !pages_reserve(&base->row, &base->row_capacity, base->live + (to - from), LIVES_LEAST,
                       sizeof *base->row) ||
        base->lives_end + (to - from) >= BASE_NONE)
        return false;
    const struct instruction *record = base->walk.record;
    while (base->walk.at < to && instruction_walk_next(&base->walk, &one)) {
        if (base->walk.record != record) base_look_ahead(base);
        record = base->walk.record;
        const unsigned does = instruction_does[one.opcode];
        if (!(does == INSTRUCTION_OTHER ? base_take_other(base, batch, &one)
                                        : base_take_call(base, &one, does)))
            return false;
        base->calls += does != INSTRUCTION_OTHER && !batch->is_base;
        base->at++;
    }
    return !base->mappings.no_memory;
}

const char *base_take_definition(struct base *base, const struct stack_definition *definition)
{
    return stacks_define(&base->stacks, definition);
}

void base_take_mapping(struct base *base, const struct mapping_record *record)
{
    mapping_table_take(&base->mappings, record);
}
