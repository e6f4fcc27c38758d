#include "report/timeline.h"

static uint64_t more(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* `second` follows `first`. */
static void row_join(struct timeline_row *first, const struct timeline_row *second)
{
    first->end_ns = second->end_ns;
    first->calls += second->calls;
    first->made += second->made;
    first->ended += second->ended;
    first->reallocs += second->reallocs;
    first->bytes += second->bytes;
    first->live_objects = second->live_objects;
    first->live_bytes = second->live_bytes;
    first->most_live_bytes = more(first->most_live_bytes, second->most_live_bytes);
    first->waits += second->waits;
    first->waited_ns += second->waited_ns;
    first->taken_bytes += second->taken_bytes;
    first->released_bytes += second->released_bytes;
    first->rss_bytes = more(first->rss_bytes, second->rss_bytes);
    first->heap_bytes = more(first->heap_bytes, second->heap_bytes);
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
