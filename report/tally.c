#include "report/tally.h"

#include <string.h>
#include <sys/mman.h>

#include "common/call_table.h"
#include "common/pages.h"

/* How many instructions ahead objects are prefetched. */
#define PREFETCH_AHEAD 12u

#define RISES_LEAST 64

_Static_assert(SIZES_MAX <= 1 << 20, "an object has the number of its size");
_Static_assert(PREFETCH_AHEAD < INSTRUCTION_BATCH_SLACK, "there is something to look at");

const double tally_growth_limits[TALLY_GROWTHS - 1] = {0.5, 1, 1.125, 1.25, 1.5, 2, 4};

/* ---- opening, closing, growing ---- */

bool tally_open(struct tally *tally)
{
    *tally = (struct tally){.epoch = 1};
    return sizes_open(&tally->sizes) && lanes_open(&tally->lanes);
}

void tally_close(struct tally *tally)
{
    sizes_close(&tally->sizes);
    lanes_close(&tally->lanes);
    statistics_free(&tally->history.names);
    pages_unmap(tally->objects, tally->capacity * sizeof *tally->objects);
    pages_unmap(tally->rises, tally->rises_capacity * sizeof *tally->rises);
    tally->objects = NULL;
    tally->rises = NULL;
}

/* Makes room for `more` objects. Objects end in random order, so with small pages each would also
 * cost a page table walk; huge pages are asked for, and if there are none, nothing is lost. */
static bool tally_objects_reserve(struct tally *tally, uint64_t more)
{
    const uint64_t before = tally->capacity;
    if (!pages_reserve(&tally->objects, &tally->capacity, tally->live + more, INSTRUCTION_BLOCK_MAX,
                       sizeof *tally->objects))
        return false;
    if (tally->capacity > before)
        madvise(tally->objects, tally->capacity * sizeof *tally->objects, MADV_HUGEPAGE);
    return true;
}

/* ---- objects begin and end ---- */

static void peak_move(struct tally *tally)
{
    tally->most_live_bytes = tally->live_bytes;
    if (tally->live_bytes <= tally->peak.bytes) return;
    tally->peak = (struct tally_peak){tally->live_bytes, tally->live, tally->calls, tally->ms};
    tally->epoch++;
}

/* `object` is a free entry of the array, and already counted in `live`. */
static inline void tally_object_begin(struct tally *tally, struct tally_object *object,
                                      uint64_t size, unsigned chain)
{
    const uint64_t epoch = tally->epoch;
    const uint32_t entry = sizes_find(&tally->sizes, size);
    struct size_entry *by_size = &tally->sizes.entries[entry];
    struct lane_counts *lane = &tally->lanes.lanes[tally->lane];
    by_size->count++;
    by_size->bytes += size;
    by_size->latest_call = tally->calls;
    live_begin(&by_size->live, epoch, size);
    live_begin(&lane->live, epoch, size);
    live_begin(ages_present(&tally->ages, tally->calls, epoch), epoch, size);
    tally->made++;
    tally->bytes += size;
    tally->live_bytes += size;
    *object = (struct tally_object){.size = size,
                                    .bytes_before = tally->bytes,
                                    .call = tally->calls,
                                    .lane = tally->lane,
                                    .entry = entry,
                                    .chain = chain,
                                    .ms = (uint32_t)tally->ms};
    if (tally->live_bytes > tally->most_live_bytes) peak_move(tally);
}

static inline void tally_object_end(struct tally *tally, const struct tally_object *object)
{
    const uint64_t epoch = tally->epoch, size = object->size;
    const uint64_t calls = tally->calls - object->call;
    struct size_entry *by_size = &tally->sizes.entries[object->entry];
    struct lane_counts *maker = &tally->lanes.lanes[object->lane];
    live_end(&by_size->live, epoch, size);
    live_end(&maker->live, epoch, size);
    live_end(ages_find(&tally->ages, object->call), epoch, size);
    by_size->lifetime_calls += calls;
    tally->lifetimes.calls[histogram_bucket(calls)]++;
    tally->lifetimes.bytes[histogram_bucket(tally->bytes - object->bytes_before)]++;
    tally->lifetimes.ms[histogram_bucket((uint32_t)tally->ms - object->ms)]++;
    /* tally_magnitude(calls), without a case for 0; 2 * calls + 1 does not overflow. */
    const unsigned lived = 63u - (unsigned)__builtin_clzll(2 * calls + 1);
    tally->lifetimes.by_size[tally_magnitude(size)][lived]++;
    if (object->lane != tally->lane) {
        tally->remote_frees++;
        tally->lanes.lanes[tally->lane].remote_frees++;
        lanes_add_remote_free(&tally->lanes, object->lane, tally->lane, size);
    }
    tally->live_bytes -= size;
}

static inline void allocate(struct tally *tally, uint64_t size)
{
    struct tally_object *object = &tally->objects[tally->live++];
    tally_object_begin(tally, object, size, 0);
}

static void chain_end(struct tally *tally, const struct tally_object *object)
{
    tally->realloc.chains[tally_magnitude(object->chain)]++;
}

static inline void tally_release(struct tally *tally, uint64_t index)
{
    struct tally_object *object = &tally->objects[index];
    tally_object_end(tally, object);
    if (__builtin_expect(object->chain != 0, 0)) chain_end(tally, object);
    *object = tally->objects[--tally->live];
}

static void tally_reallocate(struct tally *tally, const struct instruction *one)
{
    struct tally_reallocs *counts = &tally->realloc;
    struct tally_object *object = &tally->objects[one->object];
    const uint64_t old = object->size, new = one->size;
    const unsigned chain = object->chain < TALLY_CHAIN_MAX ? object->chain + 1u : TALLY_CHAIN_MAX;
    const double factor = old > 0 ? (double)new / (double)old : new > 0 ? 1e300 : 1;
    unsigned at = 0;
    while (at < TALLY_GROWTHS - 1 && factor > tally_growth_limits[at])
        at++;
    counts->growth[at]++;
    const bool moved = instruction_number(one) == CALL_REALLOC_MOVED;
    *(moved ? &counts->moved : &counts->in_place) += 1;
    *(new > old ? &counts->grown : new < old ? &counts->shrunk : &counts->same) += 1;
    if (moved) counts->copied_bytes += old < new ? old : new;
    tally->reallocs++;
    tally_object_end(tally, object);
    tally_object_begin(tally, object, new, chain);
}

/* ---- lanes and ticks ---- */

/* The counters, as they are now. */
static struct tally_counts counts_now(const struct tally *tally)
{
    return (struct tally_counts){
        tally->calls,    tally->made,  tally->made + tally->base_live - tally->live,
        tally->reallocs, tally->bytes, tally->ms};
}

static void turn_end(struct tally *tally)
{
    const struct tally_counts now = counts_now(tally), *since = &tally->at_turn;
    struct lane_counts *lane = &tally->lanes.lanes[tally->lane];
    lane->made += now.made - since->made;
    lane->bytes += now.bytes - since->bytes;
    lane->ended += now.ended - since->ended;
    lanes_add_turn(lane, now.calls - since->calls, since->ms, now.ms);
    tally->at_turn = now;
}

/* Counts the opcodes of a batch, flags included. In two tables in turn, because incrementing the
 * same counter again and again would wait for the previous store. */
static void kinds_count(struct tally *tally, const uint8_t *opcodes, size_t count)
{
    for (; count >= 2; count -= 2, opcodes += 2) {
        tally->opcodes[0][opcodes[0]]++;
        tally->opcodes[1][opcodes[1]]++;
    }
    if (count > 0) tally->opcodes[0][opcodes[0]]++;
}

static void kinds_take(struct tally *tally, uint64_t by_kind[CALL_KINDS])
{
    for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++)
        if ((opcode & INSTRUCTION_NUMBER_MASK) < CALL_KINDS)
            by_kind[opcode & INSTRUCTION_NUMBER_MASK] +=
                tally->opcodes[0][opcode] + tally->opcodes[1][opcode];
    memset(tally->opcodes, 0, sizeof tally->opcodes);
}

/* Ends the piece of time since the latest tick. */
static void piece_end(struct tally *tally, uint64_t rss, uint64_t heap)
{
    const struct tally_counts now = counts_now(tally), *since = &tally->at_tick;
    struct timeline_row piece = {.end_ns = tally->ns,
                                 .calls = now.calls - since->calls,
                                 .made = now.made - since->made,
                                 .ended = now.ended - since->ended,
                                 .reallocs = now.reallocs - since->reallocs,
                                 .bytes = now.bytes - since->bytes,
                                 .live_objects = tally->live,
                                 .live_bytes = tally->live_bytes,
                                 .most_live_bytes = tally->most_live_bytes,
                                 .rss_bytes = rss,
                                 .heap_bytes = heap};
    kinds_take(tally, piece.by_kind);
    memcpy(piece.statistics, tally->history.now.values, sizeof piece.statistics);
    timeline_add(&tally->timeline, &piece);
    tally->at_tick = now;
    tally->most_live_bytes = tally->live_bytes;
}

/* `now` has more RSS than any tick before. False: no memory. */
static bool rise_add(struct tally *tally, const struct tally_rss *now)
{
    while (tally->rises_first < tally->rises_count &&
           tally->rises[tally->rises_first].bytes < TALLY_RSS_NEAR(now->bytes))
        tally->rises_first++;
    if (tally->rises_first > tally->rises_count / 2) {
        tally->rises_count -= tally->rises_first;
        memmove(tally->rises, tally->rises + tally->rises_first,
                tally->rises_count * sizeof *tally->rises);
        tally->rises_first = 0;
    }
    if (!pages_reserve(&tally->rises, &tally->rises_capacity, tally->rises_count + 1, RISES_LEAST,
                       sizeof *tally->rises))
        return false;
    tally->rises[tally->rises_count++] = *now;
    tally->peak_rss_bytes = now->bytes;
    return true;
}

static uint64_t shared_bytes(const struct history *history)
{
    const unsigned at = statistics_find(&history->names, STATISTIC_RSS_SHARED);
    return at < history->now.count ? history->now.values[at] : 0;
}

/* Of jemalloc. It counts what it adds by rounding, too, and free objects that it keeps for threads. */
static void look_at_unseen(struct tally *tally)
{
    const unsigned at = statistics_find(&tally->history.names, "allocated_bytes");
    const uint64_t allocated = at < tally->history.now.count ? tally->history.now.values[at] : 0;
    if (allocated > 2 * tally->live_bytes + tally->unseen_bytes)
        tally->unseen_bytes = allocated - 2 * tally->live_bytes;
}

bool tally_has_unseen(const struct tally *tally)
{
    enum { THREAD_KEEPS = 1 << 20, FEW = 4 << 20 };
    return !tally->has_older && tally->unseen_bytes > FEW + THREAD_KEEPS * tally->totals.threads;
}

/* `usage` is NULL if the tick has none. False: no memory. */
static bool tick(struct tally *tally, const uint64_t *operands, const uint64_t *usage)
{
    uint64_t rss = operands[1];
    if (usage != NULL) {
        rss = rss > usage[0] ? rss - usage[0] : 0;
        if (tally->recorder_bytes == 0) tally->recorder_bytes = usage[0];
        tally->user_ns = usage[1];
        tally->system_ns = usage[2];
    }
    tally->ns += operands[0];
    tally->ms = tally->ns / 1000000;
    const struct tally_rss now = {.bytes = rss,
                                  .shared_bytes = shared_bytes(&tally->history),
                                  .heap_bytes = operands[2],
                                  .live_bytes = tally->live_bytes,
                                  .call = tally->calls,
                                  .ms = tally->ms};
    if (rss > tally->peak_rss_bytes && !rise_add(tally, &now)) return false;
    if (rss > 0 && tally->first_rss.bytes == 0) tally->first_rss = now;
    if (rss > 0) tally->last_rss = now;
    look_at_unseen(tally);
    if (operands[2] > tally->peak_heap_bytes) tally->peak_heap_bytes = operands[2];
    piece_end(tally, rss, operands[2]);
    return true;
}

static void other(struct tally *tally, unsigned number, const uint64_t *operands)
{
    struct lane_counts *lane = &tally->lanes.lanes[tally->lane];
    switch (number) {
    case INSTRUCTION_LANE:
        turn_end(tally);
        tally->lane = (unsigned)operands[0];
        break;
    case INSTRUCTION_THREAD_BEGIN:
        lane->threads++;
        lane->thread = operands[0];
        break;
    }
}

/* ---- batches ---- */

static void aligned(struct tally *tally, uint64_t size, uint64_t alignment)
{
    const unsigned magnitude = tally_magnitude(alignment);
    const unsigned at = magnitude > 0 ? magnitude - 1 : 0;
    tally->aligned[at]++;
    tally->aligned_bytes[at] += size;
}

static inline void call(struct tally *tally, unsigned does, const struct instruction *one,
                        const uint64_t *operands)
{
    const unsigned number = instruction_number(one);
    tally->calls++;
    if (__builtin_expect(one->opcode != number, 0)) {
        tally->failed[number] += (one->opcode & INSTRUCTION_FAILED) != 0;
        tally->unknown[number] += (one->opcode & INSTRUCTION_UNKNOWN) != 0;
    }
    switch (does) {
    case INSTRUCTION_BEGINS:
        if (call_shapes[number] == SHAPE_ALLOCATION_ALIGNED) aligned(tally, one->size, operands[0]);
        allocate(tally, one->size);
        break;
    case INSTRUCTION_ENDS:
        if (shape_has_size(call_shapes[number]))
            tally->wrong_sizes += tally->objects[one->object].size != one->size;
        tally_release(tally, one->object);
        break;
    case INSTRUCTION_RESIZES: tally_reallocate(tally, one); break;
    default: break;
    }
}

/* `from` is after the latest tick in the batch. False: no memory. */
static bool tick_of(struct tally *tally, const struct instruction_batch *batch, size_t from,
                    const struct instruction_tick *at)
{
    const bool has_usage = at->usage_at != INSTRUCTION_NO_USAGE;
    kinds_count(tally, batch->opcodes + from, at->at - from);
    instruction_batch_statistics(batch, at, &tally->history.now);
    const bool good = tick(tally, batch->operands + at->operand_at,
                           has_usage ? batch->operands + at->usage_at : NULL);
    history_tick(&tally->history, tally->ns);
    return good;
}

static void base_tick(struct tally *tally, const struct instruction_batch *batch,
                      const struct instruction_tick *at)
{
    instruction_batch_statistics(batch, at, &tally->history.now);
    tally->ns += batch->operands[at->operand_at];
    tally->ms = tally->ns / 1000000;
}

/* A batch of the base: no call of it counts. */
static void base_add(struct tally *tally, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    const struct instruction_tick *ticks = batch->ticks;
    while (instruction_walk_next(&walk, &one)) {
        switch (instruction_does[one.opcode]) {
        case INSTRUCTION_BEGINS: allocate(tally, one.size); break;
        case INSTRUCTION_ENDS: tally_release(tally, one.object); break;
        case INSTRUCTION_RESIZES:
            tally_object_end(tally, &tally->objects[one.object]);
            tally_object_begin(tally, &tally->objects[one.object], one.size, 0);
            break;
        default:
            if (one.opcode == INSTRUCTION_TICK)
                base_tick(tally, batch, ticks++);
            else if (one.opcode == INSTRUCTION_LANE)
                tally->lane = (unsigned)batch->operands[one.operand_at];
            else if (instruction_does[one.opcode] == INSTRUCTION_OTHER)
                other(tally, one.opcode, batch->operands + one.operand_at);
        }
    }
    if (!instruction_batch_ends_base(batch)) return;
    tally_end_base(tally);
    tally->at_tick = tally->at_turn = counts_now(tally);
}

bool tally_add(struct tally *tally, const struct instruction_batch *batch, size_t count)
{
    struct instruction_walk walk = instruction_walk_over(batch, count);
    struct instruction one;
    const struct instruction_tick *ticks = batch->ticks;
    size_t from = 0;
    if (!tally_objects_reserve(tally, batch->count)) return false;
    if (batch->is_base) {
        base_add(tally, batch);
        return true;
    }
    while (instruction_walk_next(&walk, &one)) {
        const unsigned does = instruction_does[one.opcode];
        const uint64_t *const operands = batch->operands + one.operand_at;
        /* Not a valid index if the object is allocated in between; it is only prefetched. */
        const uint64_t ahead = instruction_walk_ahead(&walk, PREFETCH_AHEAD);
        __builtin_prefetch(
            (const void *)((uintptr_t)tally->objects + ahead * sizeof *tally->objects), 1);
        if (does != INSTRUCTION_OTHER) {
            call(tally, does, &one, operands);
        } else if (one.opcode == INSTRUCTION_TICK) {
            if (!tick_of(tally, batch, from, ticks++)) return false;
            from = walk.at;
        } else {
            other(tally, one.opcode, operands);
        }
    }
    kinds_count(tally, batch->opcodes + from, count - from);
    return true;
}

void tally_end(struct tally *tally, const struct instruction_totals *totals)
{
    tally->totals = *totals;
    if (tally->rises_count > 0) tally->at_rss = tally->rises[tally->rises_first];
    tally->ended = tally->made + tally->base_live - tally->live;
    turn_end(tally);
    if (tally->calls > tally->at_tick.calls) piece_end(tally, 0, 0);
    timeline_end(&tally->timeline);
    tally->zero_sizes = tally->sizes.entries[0].count;
    for (uint64_t i = 0; i < tally->live; i++)
        if (tally->objects[i].chain != 0) chain_end(tally, &tally->objects[i]);
    for (uint32_t i = 0; i < tally->sizes.count; i++)
        live_settle(&tally->sizes.entries[i].live, tally->epoch);
    for (unsigned i = 0; i < AGES_MAX; i++)
        live_settle(&tally->ages.pieces[i], tally->epoch);
    for (uint32_t i = 0; i < INSTRUCTION_LANES_MAX; i++)
        if (tally->lanes.lanes[i].live.objects > 0 || tally->lanes.lanes[i].made > 0)
            live_settle(&tally->lanes.lanes[i].live, tally->epoch);
}
