#include "report/tables.h"

#include "report/rounding.h"
#include "report/words.h"

/* "1 024" or, of a class of sizes, "1 024.." */
static const char *size_text(const struct sizes *sizes, uint32_t entry)
{
    const uint64_t size = sizes->entries[entry].size;
    return words_format("%s%s", words_count(size), sizes_is_class(entry) ? ".." : "");
}

bool tables_size(const void *of, size_t at, struct table_row *row)
{
    const struct tables_sizes *sizes = of;
    const struct tally *tally = sizes->tally;
    const uint32_t entry = (uint32_t)at;
    const struct size_entry *one = &tally->sizes.entries[entry];
    const struct live *live = &one->live;
    const bool counts = sizes->by == TABLES_BY_COUNT, bytes = sizes->by == TABLES_BY_BYTES;
    const bool peak = sizes->by == TABLES_BY_PEAK;
    const struct cell cells[] = {
        {"size", .value = one->size},
        {NULL, 0, "bytes", 12, .text = size_text(&tally->sizes, entry)},
        {"highest", .value = sizes_highest(&tally->sizes, entry)},
        {"made", one->count, counts ? "objects" : NULL, .width = 13},
        {NULL, one->count, counts ? "" : NULL, 8, UNIT_SHARE, .of = tally->made},
        {"bytes", one->bytes, bytes ? "in all" : NULL, 11, .unit = UNIT_BYTES},
        {NULL, one->bytes, bytes ? "" : NULL, 8, UNIT_SHARE, .of = tally->bytes},
        {"lifetime_calls", .value = one->lifetime_calls},
        {"latest_call", .value = one->latest_call},
        {"peak_objects", live->peak_objects, peak ? "objects" : NULL, .width = 13},
        {"peak_bytes", live->peak_bytes, peak ? "in all" : NULL, 11, .unit = UNIT_BYTES},
        {NULL, live->peak_bytes, peak ? "" : NULL, 8, UNIT_SHARE, .of = tally->peak.bytes},
        {"end_objects", .value = live->objects},
        {"end_bytes", .value = live->bytes},
    };
    TABLE_ROW(row, cells);
    return size_entry_is_used(one);
}

/* The class of sizes that adds most at the peak. */
static const char *most_added(const struct rounded *rounded)
{
    const struct rounded_class *most = rounded->classes;
    uint64_t added = 0;
    if (rounded->count == 0) return "";
    for (size_t i = 0; i < rounded->count; i++) {
        const struct rounded_class *one = &rounded->classes[i];
        if (one->peak_taken - one->peak_bytes <= added) continue;
        most = one;
        added = one->peak_taken - one->peak_bytes;
    }
    return words_format("   %s: %s", words_bytes_exact(most->size), words_bytes(added));
}

bool tables_rounding(const void *of, size_t at, struct table_row *row)
{
    const struct rounded *rounded = (const struct rounded *)of + at;
    const struct rounded_class *all = &rounded->all;
    const uint64_t added = all->taken - all->bytes, peak_added = all->peak_taken - all->peak_bytes;
    const struct cell cells[] = {
        {NULL, 0, "what rounding up adds", -22,
         .text = words_format("  %s", allocator_facts[at]->sizes_name)},
        {"taken", .value = all->taken},
        {"peak_taken", .value = all->peak_taken},
        {NULL, peak_added, "", 11, .unit = UNIT_BYTES},
        {NULL, peak_added, "at the peak", 8, UNIT_SHARE, .of = all->peak_bytes},
        {NULL, added, "", 11, .unit = UNIT_BYTES},
        {NULL, added, "to all objects", 8, UNIT_SHARE, .of = all->bytes},
        {NULL, 0, "   at the peak, most in the class of", -1, .text = most_added(rounded),
         .wide = true},
    };
    TABLE_ROW(row, cells);
    return true;
}

bool tables_age(const void *of, size_t at, struct table_row *row)
{
    static const char *const names[] = {"  first  quarter", "  second quarter", "  third  quarter",
                                        "  last   quarter"};
    const struct tables_ages *ages = of;
    const struct live *live = &ages->pieces[at];
    const struct cell cells[] = {
        {"piece", .value = at},
        {NULL, 0, "made in the", -16, .text = ages->quarters ? names[at] : ""},
        {"peak_objects", live->peak_objects, "", .width = 11},
        {NULL, 0, "", 7, .text = "objects"},
        {"peak_bytes", live->peak_bytes, "alive at the peak", 11, .unit = UNIT_BYTES},
        {"end_objects", live->objects, "", .width = 11},
        {NULL, 0, "", 7, .text = "objects"},
        {"end_bytes", live->bytes, "alive at the end", 11, .unit = UNIT_BYTES},
    };
    TABLE_ROW(row, cells);
    return ages->quarters || live->objects > 0 || live->peak_objects > 0;
}

/* "12 345 (3)", the thread and its lane. */
static const char *lane_text(const struct lane_counts *lane, size_t at)
{
    const bool one = lane->threads == 1;
    return words_format("%s%s (%zu)", words_count(one ? lane->thread : lane->threads),
                        one ? "" : " threads", at);
}

bool tables_lane(const void *of, size_t at, struct table_row *row)
{
    const struct tally *tally = of;
    const struct lane_counts *lane = &tally->lanes.lanes[at];
    const struct cell cells[] = {
        {NULL, 0, "thread (lane)", -16, .text = lane_text(lane, at)},
        {"lane", .value = at},
        {"threads", .value = lane->threads},
        {"thread", .value = lane->thread},
        {"calls", lane->calls, "calls", .width = 15},
        {NULL, lane->calls, "", 9, UNIT_SHARE, .of = tally->calls},
        {"made", .value = lane->made},
        {"bytes", lane->bytes, "asked for", 11, .unit = UNIT_BYTES},
        {"ended", .value = lane->ended},
        {"remote_frees", lane->remote_frees, "remote frees", 14, UNIT_SHARE, .of = lane->ended},
        {"turns", .value = lane->turns},
        {"longest_turn", lane->longest, "longest turn", 13, .wide = true},
        {"first_ms", .value = lane->first_ms},
        {"last_ms", .value = lane->last_ms},
        {"peak_objects", .value = lane->live.peak_objects},
        {"peak_bytes", lane->live.peak_bytes, "at the peak", 13, UNIT_BYTES, .wide = true},
        {"end_objects", .value = lane->live.objects},
        {"end_bytes", .value = lane->live.bytes},
    };
    TABLE_ROW(row, cells);
    return lane->calls > 0 || lane->threads > 0;
}

bool tables_time(const void *of, size_t at, struct table_row *row)
{
    const struct tables_times *times = of;
    const struct timeline_row *one = &times->rows[at];
    const bool has_vm_size = times->vm_size < ORIGINAL_STATISTICS_MAX;
    const struct cell cells[] = {
        {"end_ns", .value = one->end_ns},
        {NULL, 0, "over time", -13,
         .text = words_format("  to %s", words_ms(one->end_ns / 1000000))},
        {"calls", one->calls, "calls", .width = 13},
        {"made", one->made, "made", 8, UNIT_SHARE, one->calls, .wide = true},
        {"ended", one->ended, "ended", 8, UNIT_SHARE, one->calls, .wide = true},
        {"reallocs", one->reallocs, "reallocs", 8, UNIT_SHARE, one->calls, .wide = true},
        {"bytes", .value = one->bytes},
        {"live_objects", .value = one->live_objects},
        {"live_bytes", .value = one->live_bytes},
        {"most_live_bytes", one->most_live_bytes, "most alive", 12, .unit = UNIT_BYTES},
        {"rss_bytes", .value = one->rss_bytes},
        {"heap_bytes", .value = one->heap_bytes},
        {NULL, number_known(one->heap_bytes), "heap", 12, .unit = UNIT_BYTES},
        {NULL, number_known(one->rss_bytes), "RSS", 12, .unit = UNIT_BYTES},
        {NULL, has_vm_size ? one->statistics[times->vm_size] : 0, has_vm_size ? "VmSize" : NULL, 12,
         .unit = UNIT_BYTES},
    };
    TABLE_ROW(row, cells);
    return true;
}
