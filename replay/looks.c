#include "replay/looks.h"

#include "replay/measure.h"

bool looks_open(struct looks *looks, const struct allocator *allocator, const char *program_has,
                struct memory *memory, struct series *series, struct error *error)
{
    *looks = (struct looks){.memory = memory, .series = series, .heap.source = "none"};
    if (allocator != NULL) heap_open(&looks->heap, allocator);
    resident_open(&looks->resident, program_has);
    return series_open(series, error);
}

void looks_close(struct looks *looks)
{
    resident_close(&looks->resident);
}

/* ---- one look ---- */

/* `live_bytes`: how many are live now. */
static void look_at_resident(struct looks *looks, uint64_t live_bytes, bool whole)
{
    struct resident *resident = &looks->resident;
    resident_look(resident, whole);
    const uint64_t all = resident->all_bytes, own = resident_own_bytes(resident);
    const struct memory_look look = {all > own ? all - own : 0, live_bytes};
    memory_add(looks->memory, &look, own);
    looks->seen.rss_bytes = all;
    looks->seen.own_bytes = own;
    looks->seen.vm_size_bytes = resident->vm_size_bytes;
}

/* glibc walks its lists of free chunks for this, so its share of the time is limited, too. */
static void look_at_heap(struct looks *looks, uint64_t now_ns, bool last)
{
    if (looks->heap.allocator == NULL || (now_ns < looks->heap_next_ns && !last)) return;
    uint64_t begin = measure_now_ns();
    looks->seen.heap_bytes = heap_bytes(&looks->heap);
    uint64_t end = measure_now_ns();
    looks->heap_next_ns = end + (end - begin) * LOOK_SHARE;
}

/* Adds a row made of a mark and the latest look. */
static void looks_add_row(struct looks *looks, const struct series_row *mark, bool last)
{
    struct series_row row = *mark;
    row.elapsed_ns = looks->seen.elapsed_ns;
    row.wall_ns = looks->seen.wall_ns;
    row.rss_bytes = looks->seen.rss_bytes;
    row.own_bytes = looks->seen.own_bytes;
    row.vm_size_bytes = looks->seen.vm_size_bytes;
    row.heap_bytes = looks->seen.heap_bytes;
    series_add(looks->series, &row, last);
}

/* ---- marks ---- */

void looks_mark(struct looks *looks, uint64_t slice, const struct series_row *row, bool tick)
{
    looks->marks[looks->end++ % LOOKS_MARKS] = (struct looks_mark){slice, *row, tick};
}

void looks_take(struct looks *looks, uint64_t slices, const struct series_row *now, uint64_t now_ns)
{
    unsigned passed = looks->first;
    while (passed != looks->end && looks->marks[passed % LOOKS_MARKS].slice <= slices)
        passed++;
    if (passed == looks->first) return;
    const struct looks_mark *latest = &looks->marks[(passed - 1) % LOOKS_MARKS];
    const bool look = resident_is_due(&looks->resident, now_ns);
    if (look) look_at_resident(looks, latest->row.live_bytes, false);
    looks->shown_ns = latest->row.shown_ns;
    looks->seen.elapsed_ns = now->elapsed_ns;
    looks->seen.wall_ns = now->wall_ns;
    for (; looks->first != passed; looks->first++) {
        const struct looks_mark *mark = &looks->marks[looks->first % LOOKS_MARKS];
        if (!mark->tick) continue;
        look_at_heap(looks, now_ns, false);
        looks_add_row(looks, &mark->row, false);
    }
    if (look && latest->tick) memory_add_time(looks->memory, latest->row.original_ns);
}

/* ---- begin and end ---- */

uint64_t looks_begin(struct looks *looks)
{
    look_at_resident(looks, 0, true);
    memory_add_time(looks->memory, 0);
    return looks->resident.all_bytes;
}

void looks_restart(struct looks *looks, uint64_t live_bytes)
{
    *looks->memory = (struct memory){.looks = 0};
    look_at_resident(looks, live_bytes, true);
    memory_add_time(looks->memory, 0);
}

void looks_end(struct looks *looks, const struct series_row *last)
{
    look_at_resident(looks, last->live_bytes, true);
    memory_add_time(looks->memory, last->original_ns);
    looks->seen.elapsed_ns = last->elapsed_ns;
    looks->seen.wall_ns = last->wall_ns;
    look_at_heap(looks, 0, true);
    looks_add_row(looks, last, true);
}
