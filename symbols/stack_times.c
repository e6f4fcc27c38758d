#include "symbols/stack_times.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum { LOG_MOST = 1 << 20, CLASS_BASE = 1 }; /* in the log, before its end: what was there before */
#define SPAN_LEAST_NS    UINT64_C(10000000)
#define SPAN_LIMITED_NS  UINT64_C(1000000)
#define SPAN_LEAST_CALLS UINT64_C(4096)

void stack_times_open(struct stack_times *times)
{
    *times =
        (struct stack_times){.most = STACK_BUCKETS, .span = SPAN_LEAST_CALLS, .to_ns = UINT64_MAX};
}

void stack_times_close(struct stack_times *times)
{
    free(times->log);
    *times = (struct stack_times){.log = NULL};
}

void stack_times_limit(struct stack_times *times, uint64_t from_ns, uint64_t to_ns)
{
    times->is_limited = true;
    times->base = from_ns > 0;
    times->most = STACK_BUCKETS - (to_ns != UINT64_MAX);
    times->from_ns = from_ns;
    times->to_ns = to_ns;
}

/* ---- joining ---- */

static uint16_t joined(const struct stack_times *times, unsigned bucket)
{
    return (uint16_t)(bucket < times->base ? bucket : times->base + (bucket - times->base) / 2);
}

/* Drops what a later entry of the same cell and bucket replaces. False: no memory. */
static bool log_clean(struct stack_times *times, const struct stack_cells *cells)
{
    uint8_t *seen =
        calloc(cells->count + 1, sizeof *seen); /* the bucket of a later entry, plus 1 */
    size_t kept = times->count;
    if (seen == NULL) return false;
    for (size_t i = 0; i < cells->count; i++)
        seen[i] = (uint8_t)(cells->at[i].bucket + 1);
    for (size_t i = times->count; i-- > 0;) {
        const struct stack_time *one = &times->log[i];
        if (seen[one->stack] == one->bucket + 1 && one->size_class != CLASS_BASE) continue;
        seen[one->stack] = (uint8_t)(one->bucket + 1);
        times->log[--kept] = *one;
    }
    memmove(times->log, times->log + kept, (times->count - kept) * sizeof *times->log);
    times->count -= kept;
    free(seen);
    return true;
}

static bool times_halve(struct stack_times *times, struct stack_cells *cells)
{
    for (unsigned i = times->base; i < times->at; i++)
        times->end_call[joined(times, i)] = times->end_call[i];
    for (size_t i = 0; i < cells->count; i++)
        cells->at[i].bucket = joined(times, cells->at[i].bucket);
    for (size_t i = 0; i < times->count; i++)
        times->log[i].bucket = joined(times, times->log[i].bucket);
    times->at = joined(times, times->at);
    times->span *= 2;
    return log_clean(times, cells);
}

/* ---- the present bucket ---- */

static bool go_on_in(struct stack_times *times, struct stack_cells *cells, uint64_t since,
                     uint64_t calls)
{
    while (since / times->span >= times->most - times->base)
        if (!times_halve(times, cells)) return false;
    const unsigned now = times->base + (unsigned)(since / times->span);
    while (times->at < now)
        times->end_call[times->at++] = calls;
    return true;
}

/* With the first tick, all before becomes one bucket. */
static void clock_begins(struct stack_times *times, struct stack_cells *cells)
{
    const uint64_t length = times->to_ns - times->from_ns;
    size_t kept = 0; /* what was there before */
    times->has_clock = true;
    times->at = 0;
    times->span = SPAN_LEAST_NS;
    if (times->is_limited)
        times->span =
            times->to_ns == UINT64_MAX ? SPAN_LIMITED_NS : length / (times->most - times->base) + 1;
    for (size_t i = 0; i < cells->count; i++)
        cells->at[i].bucket = 0;
    for (size_t i = 0; i < times->count; i++) {
        if (times->log[i].size_class != CLASS_BASE) continue;
        times->log[kept] = times->log[i];
        times->log[kept++].bucket = 0;
    }
    times->count = kept;
}

bool stack_times_tick(struct stack_times *times, struct stack_cells *cells, uint64_t ns,
                      uint64_t calls)
{
    times->ns += ns;
    if (times->ns == 0) return true;
    if (!times->has_clock) clock_begins(times, cells);
    if (times->ns < times->from_ns) return true;
    if (times->ns < times->to_ns) return go_on_in(times, cells, times->ns - times->from_ns, calls);
    while (times->at < times->most)
        times->end_call[times->at++] = calls;
    return true;
}

bool stack_times_reserve(struct stack_times *times, struct stack_cells *cells, size_t calls,
                         uint64_t calls_so_far)
{
    if (!times->has_clock && !times->is_limited &&
        !go_on_in(times, cells, calls_so_far, calls_so_far))
        return false;
    while (times->count > LOG_MOST && times->at > times->base)
        if (!times_halve(times, cells)) return false;
    return array_reserve(&times->log, &times->room, times->count + 2 * calls, sizeof *times->log);
}

static struct stack_time time_of(const struct stack_cell *cell, uint32_t index)
{
    const struct stack_amount *made = &cell->amounts[stack_measure_at(STACK_MADE)];
    return (struct stack_time){
        .stack = index,
        .bucket = cell->bucket,
        .made = made->objects,
        .bytes = made->bytes,
        .ended = cell->live.objects,
        .ended_bytes = cell->live.bytes,
    };
}

bool stack_times_base(struct stack_times *times, struct stack_cells *cells)
{
    times->count = 0;
    if (!array_reserve(&times->log, &times->room, cells->count, sizeof *times->log)) return false;
    for (uint32_t i = 0; i < cells->count; i++) {
        struct stack_cell *cell = &cells->at[i];
        cell->bucket = (uint16_t)times->at;
        cell->has_base = cell->live.objects > 0;
        if (!cell->has_base) continue;
        times->log[times->count] = time_of(cell, i);
        times->log[times->count++].size_class = CLASS_BASE;
    }
    return true;
}

void stack_times_note(struct stack_times *times, struct stack_cell *cell, uint32_t index)
{
    if (cell->amounts[stack_measure_at(STACK_MADE)].objects > 0 || cell->has_base)
        times->log[times->count++] = time_of(cell, index);
    cell->bucket = (uint16_t)times->at;
}

/* ---- the end ---- */

static bool note_all(struct stack_times *times, struct stack_cells *cells)
{
    if (!array_reserve(&times->log, &times->room, times->count + cells->count, sizeof *times->log))
        return false;
    for (size_t i = 0; i < cells->count; i++)
        if (stack_cell_calls(&cells->at[i]) < STACK_FREES)
            times->log[times->count++] = time_of(&cells->at[i], (uint32_t)i);
    return true;
}

/* Sorts the log by cell; of each cell it stays in the order of time. False: no memory. */
static bool sort_by_cell(struct stack_times *times, size_t cells_count)
{
    size_t *first = calloc(cells_count + 2, sizeof *first);
    struct stack_time *sorted = calloc(times->count + 1, sizeof *sorted);
    if (first != NULL && sorted != NULL) {
        for (size_t i = 0; i < times->count; i++)
            first[times->log[i].stack + 1]++;
        for (size_t i = 1; i < cells_count + 1; i++)
            first[i] += first[i - 1];
        for (size_t i = 0; i < times->count; i++)
            sorted[first[times->log[i].stack]++] = times->log[i];
        free(times->log);
        times->log = sorted;
        times->room = times->count + 1;
        sorted = NULL;
    }
    const bool good = first != NULL && times->log != NULL && sorted == NULL;
    free(first);
    free(sorted);
    return good;
}

/* Turns what a cell had until then into what happened in a bucket. */
static void take_differences(struct stack_times *times)
{
    struct stack_time before = {.stack = UINT32_MAX};
    for (size_t i = 0; i < times->count; i++) {
        struct stack_time *one = &times->log[i], until = *one;
        if (until.stack != before.stack) before = (struct stack_time){.stack = until.stack};
        one->made = until.made - before.made;
        one->bytes = until.bytes - before.bytes;
        if (until.size_class == CLASS_BASE) before = until; /* nothing happened */
        one->ended = before.ended + one->made - until.ended;
        one->ended_bytes = before.ended_bytes + one->bytes - until.ended_bytes;
        before = until;
    }
}

static void take_ends(struct stack_times *times, uint64_t calls)
{
    times->buckets = times->at + 1;
    times->end_call[times->at] = calls;
    for (unsigned i = 0; i < times->buckets && times->has_clock; i++) {
        const uint64_t end = i < times->base ? times->from_ns
                             : i < times->most
                                 ? times->from_ns + (i + 1 - times->base) * times->span
                                 : times->ns;
        times->end_ns[i] = i + 1 == times->most && end > times->to_ns ? times->to_ns : end;
    }
    if (times->has_clock) times->end_ns[times->at] = times->ns;
    times->from = times->base < times->buckets ? times->base : times->buckets;
    times->until = times->most < times->buckets ? times->most : times->buckets;
}

bool stack_times_end(struct stack_times *times, struct stack_cells *cells, uint64_t calls)
{
    if (!note_all(times, cells) || !sort_by_cell(times, cells->count)) return false;
    take_differences(times);
    take_ends(times, calls);
    for (size_t i = 0; i < times->count; i++) {
        const struct stack_cell *cell = &cells->at[times->log[i].stack];
        times->log[i].stack = cell->stack;
        times->log[i].size_class = cell->size_class;
    }
    return true;
}
