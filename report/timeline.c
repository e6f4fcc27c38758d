#include "report/timeline.h"

#include <stddef.h>
#include <string.h>

static uint64_t more(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

#define INDEX_OF(member) (offsetof(struct timeline_row, member) / sizeof(uint64_t))

/* `second` follows `first`. */
static void row_join(struct timeline_row *first, const struct timeline_row *second)
{
    uint64_t *to = (uint64_t *)first;
    const uint64_t *from = (const uint64_t *)second;
    memcpy(to, from, offsetof(struct timeline_row, most_live_bytes));
    for (size_t i = INDEX_OF(most_live_bytes); i < INDEX_OF(calls); i++)
        to[i] = more(to[i], from[i]);
    for (size_t i = INDEX_OF(calls); i < sizeof *first / sizeof *to; i++)
        to[i] += from[i];
}

static void timeline_keep(struct timeline *timeline)
{
    timeline->rows[timeline->count++] = timeline->present;
    timeline->present = (struct timeline_row){.end_ns = timeline->present.end_ns};
    timeline->ticks = 0;
}

static void timeline_halve(struct timeline *timeline)
{
    for (unsigned i = 0; i < TIMELINE_MAX / 2; i++) {
        timeline->rows[i] = timeline->rows[2 * i];
        row_join(&timeline->rows[i], &timeline->rows[2 * i + 1]);
    }
    timeline->count = TIMELINE_MAX / 2;
    timeline->ticks_per_row *= 2;
}

void timeline_add(struct timeline *timeline, const struct timeline_row *piece)
{
    if (timeline->ticks_per_row == 0) timeline->ticks_per_row = 1;
    row_join(&timeline->present, piece);
    timeline->ticks++;
    if (timeline->count == TIMELINE_MAX) timeline_halve(timeline);
    if (timeline->ticks >= timeline->ticks_per_row) timeline_keep(timeline);
}

void timeline_end(struct timeline *timeline)
{
    if (timeline->ticks > 0) timeline_keep(timeline); /* there is room: timeline_add() */
}

/* ---- to be asked at the end ---- */

unsigned timeline_parts(const struct timeline *timeline, struct timeline_row *parts, unsigned most)
{
    unsigned count = 0;
    for (unsigned part = 0; part < most; part++) {
        struct timeline_row sum = {0};
        for (unsigned i = timeline->count * part / most; i < timeline->count * (part + 1) / most;
             i++)
            row_join(&sum, &timeline->rows[i]);
        if (sum.end_ns > 0) parts[count++] = sum;
    }
    return count;
}

uint64_t timeline_second_peak(const struct timeline *timeline, uint64_t *end_ns)
{
    const struct timeline_row *rows = timeline->rows;
    int first = 0, second = -1;
    for (unsigned i = 1; i < timeline->count; i++)
        if (rows[i].most_live_bytes > rows[first].most_live_bytes) first = (int)i;
    for (int step = -1; step <= 1; step += 2) {
        uint64_t least = UINT64_MAX;
        for (int i = first + step; i >= 0 && i < (int)timeline->count; i += step) {
            const uint64_t most = rows[i].most_live_bytes;
            const uint64_t between = rows[step > 0 ? i - 1 : i].live_bytes;
            if (between < least) least = between;
            if (least < most / 4 * 3 && (second < 0 || most > rows[second].most_live_bytes))
                second = i;
        }
    }
    if (second < 0 || rows[second].most_live_bytes < rows[first].most_live_bytes / 5 * 4) return 0;
    if (end_ns != NULL) *end_ns = rows[second].end_ns;
    return rows[second].most_live_bytes;
}

/* Rows that are too short do not count: the last window may have been closed early, after a handful
 * of calls, which is not a burst. */
const struct timeline_row *timeline_busiest(const struct timeline *timeline, uint64_t *begin_ns)
{
    const struct timeline_row *busiest = NULL;
    double most = 0;
    uint64_t begin = timeline->begin_ns;
    if (timeline->count < 2) return NULL;
    const uint64_t all = timeline->rows[timeline->count - 1].end_ns - begin;
    const uint64_t half = all / timeline->count / 2;
    for (unsigned i = 0; i < timeline->count; i++) {
        const struct timeline_row *row = &timeline->rows[i];
        const uint64_t ns = row->end_ns - begin;
        const double rate = ns > 0 ? (double)row->calls / (double)ns : 0;
        if (rate > most && ns >= more(half, 1000000)) {
            most = rate;
            busiest = row;
            *begin_ns = begin;
        }
        begin = row->end_ns;
    }
    return busiest;
}
