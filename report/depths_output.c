/* The counts of depths.h as text and as JSON (docs/report.md). */
#include "common/call_table.h"
#include "common/json_file.h"
#include "report/depths.h"
#include "report/table.h"
#include "report/words.h"

/* Lines of each part of the text. */
enum { CLASSES_SHOWN = 8, WAITS_SHOWN = 8, TIMES_SHOWN = 10 };

/* What happened inside calls. Index 0: the first RAW_INSIDE_... */
static const struct {
    const char *object, *key, *text;
} inside_names[RAW_INSIDE_KINDS] = {
    {"system", "sbrk", "from the system, by sbrk"},
    {"system", "mmap", "from the system, by mmap"},
    {"system", "madvise", "given back, by madvise"},
    {"system", "reuse", "given back and used again"},
    {"spans", "split", "remainders of spans that were split"},
    {"spans", "merge", "merged with a span beside it"},
};

/* ---- calls by how far they went ---- */

struct sum {
    uint64_t calls, depths[DEPTHS], waited;
};

static void add_paths(struct sum *sum, const uint64_t *paths)
{
    for (unsigned path = 0; path < PATHS; path++) {
        sum->calls += paths[path];
        sum->depths[path_depth(path)] += paths[path];
        if (path & PATH_WAITED) sum->waited += paths[path];
    }
}

/* Row numbers of the table: two rows over all classes, then one for each class. */
enum { ALLOCATIONS, FREES, CLASSES };

static struct sum depths_output_sum_of(const struct depths *depths, size_t at)
{
    struct sum sum = {0};
    for (size_t i = 0; i < RAW_STRUCTURES; i++) {
        const struct depths_class *class = &depths->classes[i];
        if (at == ALLOCATIONS || at == CLASSES + i) add_paths(&sum, class->allocations);
        if (at == FREES || at == CLASSES + i) add_paths(&sum, class->frees);
    }
    return sum;
}

static const char *sum_text(const struct depths *depths, size_t at)
{
    if (at < CLASSES) return at == FREES ? "  frees" : "  allocations";
    const uint64_t bytes = depths->classes[at - CLASSES].bytes;
    return bytes > 0 ? words_format("  %s", words_bytes_exact(bytes)) : "  larger";
}

static bool sum_row(const void *of, size_t at, struct table_row *row)
{
    const struct sum sum = depths_output_sum_of(of, at);
    const uint64_t calls = sum.calls;
    const struct cell cells[] = {
        {NULL, 0, "served by", -16, .text = sum_text(of, at)},
        {NULL, calls, "calls", .width = 13},
        {"cache", sum.depths[DEPTH_CACHE], "cache", 8, UNIT_SHARE, .of = calls},
        {"central", sum.depths[DEPTH_CENTRAL], "central list", 12, UNIT_SHARE, .of = calls},
        {"page_heap", sum.depths[DEPTH_PAGE_HEAP], "page heap", 9, UNIT_SHARE, .of = calls},
        {"system", sum.depths[DEPTH_SYSTEM], "system", 8, UNIT_SHARE, .of = calls},
        {"waited", sum.waited, "waited", 8, UNIT_SHARE, .of = calls},
    };
    TABLE_ROW(row, cells);
    return true;
}

/* Prints the classes with most calls that went further than the cache. */
static void print_sums(const struct depths *depths, FILE *to)
{
    uint64_t beyond[RAW_STRUCTURES];
    uint32_t shown[CLASSES + CLASSES_SHOWN] = {ALLOCATIONS, FREES};
    for (unsigned i = 0; i < RAW_STRUCTURES; i++) {
        const struct sum sum = depths_output_sum_of(depths, CLASSES + i);
        beyond[i] = sum.calls - sum.depths[DEPTH_CACHE];
    }
    const unsigned classes =
        report_top(beyond, RAW_STRUCTURES, sizeof *beyond, shown + CLASSES, CLASSES_SHOWN);
    for (unsigned i = 0; i < classes; i++)
        shown[CLASSES + i] += CLASSES;
    table_print(&(struct table){sum_row, depths, CLASSES + classes, .order = shown}, to);
}

static void put_paths_of(json_t *table, unsigned class, uint64_t bytes, const char *call,
                         const uint64_t *paths)
{
    for (unsigned path = 0; path < PATHS; path++) {
        char letters[PATH_LETTERS];
        if (paths[path] == 0) continue;
        path_letters(letters, path);
        json_put_row(table, "class bytes calls", class, bytes, paths[path]);
        json_array_append_new(json_object_get(table, "call"), json_string(call));
        json_array_append_new(json_object_get(table, "path"), json_string(letters));
    }
}

static void put_paths(json_t *object, const struct depths *depths)
{
    json_t *table = json_put_table(object, "paths", "class bytes call path calls");
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++) {
        const struct depths_class *class = &depths->classes[i];
        put_paths_of(table, i, class->bytes, "allocation", class->allocations);
        put_paths_of(table, i, class->bytes, "free", class->frees);
    }
}

/* ---- waits ---- */

static const char *milliseconds(uint64_t ns)
{
    return words_format("%.3f ms", (double)ns / 1e6);
}

/* The cells that both tables of waits have. */
#define WAITS(of, name)                                                                        \
    {NULL, 0, "waited for the lock of", -28, .text = (name)},                                  \
        {"waits", (of)->waits, "waits", .width = 13}, {"waited_ns", .value = (of)->waited_ns}, \
        {NULL, 0, "in all", 16, .text = milliseconds((of)->waited_ns)},                        \
    {                                                                                          \
        NULL, 0, "mean", 16,                                                                   \
            .text = milliseconds((of)->waits > 0 ? (of)->waited_ns / (of)->waits : 0)          \
    }

static bool class_row(const void *of, size_t at, struct table_row *row)
{
    const struct depths_class *class = (const struct depths_class *)of + at;
    const char *name = at == RAW_STRUCTURE_PAGE_HEAP
                           ? "  the page heap"
                           : words_format("  objects of %s", words_bytes_exact(class->bytes));
    const struct cell cells[] = {
        {"class", .value = at},
        {"bytes", .value = class->bytes},
        {"entries", .value = class->entries},
        WAITS(&class->waits, name),
    };
    TABLE_ROW(row, cells);
    return class->entries > 0 || class->waits.waits > 0;
}

static bool lane_row(const void *of, size_t at, struct table_row *row)
{
    const struct depths_of_lane *lane = (const struct depths_of_lane *)of + at;
    const struct cell cells[] = {
        {"lane", .value = at},
        WAITS(&lane->waits, words_format("  by thread of lane %zu", at)),
        {"taken_bytes", .value = lane->taken_bytes},
        {"released_bytes", .value = lane->released_bytes},
    };
    TABLE_ROW(row, cells);
    return lane->waits.waits + lane->taken_bytes + lane->released_bytes > 0;
}

/* Prints which locks were waited for longest, and which lanes waited longest. */
static void print_waits(const struct depths *depths, FILE *to)
{
    uint32_t classes[WAITS_SHOWN], lanes[WAITS_SHOWN];
    unsigned count =
        REPORT_TOP(depths->classes, RAW_STRUCTURES, waits.waited_ns, classes, WAITS_SHOWN);
    if (count == 0) return;
    table_print(&(struct table){class_row, depths->classes, count, .order = classes}, to);
    count = REPORT_TOP(depths->lanes, RAW_LANES_MAX, waits.waited_ns, lanes, WAITS_SHOWN);
    table_print(&(struct table){lane_row, depths->lanes, count, .order = lanes, .goes_on = true},
                to);
}

/* ---- over time ---- */

/* `of`: rows of a timeline. */
static bool time_row(const void *of, size_t at, struct table_row *row)
{
    const struct timeline_row *one = (const struct timeline_row *)of + at;
    const uint64_t *reached = one->reached, calls = one->calls;
    const struct cell cells[] = {
        {"end_ns", .value = one->end_ns},
        {NULL, 0, "over time", -13,
         .text = words_format("  to %s", words_ms(one->end_ns / 1000000))},
        {"calls", calls, "calls", .width = 13},
        {"beyond_cache", reached[TIMELINE_BEYOND_CACHE], "past cache", 10, UNIT_SHARE, .of = calls},
        {"central", .value = reached[TIMELINE_CENTRAL]},
        {"page_heap", reached[TIMELINE_PAGE_HEAP], "page heap", 9, UNIT_SHARE, .of = calls},
        {"system", reached[TIMELINE_SYSTEM], "system", 8, UNIT_SHARE, .of = calls},
        {"waited", .value = reached[TIMELINE_WAITED]},
        {"waits", one->waits, "waits", .width = 10, .wide = true},
        {"waited_ns", .value = one->waited_ns},
        {NULL, 0, "in all", 12, .text = milliseconds(one->waited_ns), .wide = true},
        {"taken_bytes", one->taken_bytes, "taken", 9, .unit = UNIT_BYTES},
        {"released_bytes", one->released_bytes, "given back", 10, .unit = UNIT_BYTES},
    };
    TABLE_ROW(row, cells);
    return true;
}

static void depths_output_print_times(const struct depths *depths, FILE *to)
{
    struct timeline_row parts[TIMES_SHOWN];
    const unsigned count = timeline_parts(&depths->timeline, parts, TIMES_SHOWN);
    table_print(&(struct table){time_row, parts, .rows = count}, to);
}

/* ---- inside calls ---- */

static bool inside_row(const void *of, size_t at, struct table_row *row)
{
    const struct depths *depths = of;
    const struct cell cells[] = {
        {NULL, 0, "memory", -30, .text = words_format("  %s", inside_names[at].text)},
        {"times", depths->inside[at].times, "times", .width = 15},
        {"bytes", depths->inside[at].bytes, "bytes", 18, .unit = UNIT_BYTES},
    };
    TABLE_ROW(row, cells);
    return depths->inside[at].times > 0;
}

/* `of`: the bytes taken from the system, by kind of call. */
static bool taken_row(const void *of, size_t at, struct table_row *row)
{
    const uint64_t bytes = ((const uint64_t *)of)[at];
    const struct cell cells[] = {
        {NULL, 0, "", -46, .text = words_format("  taken for %s", call_names[at])},
        {call_names[at], bytes, "", 18, .unit = UNIT_BYTES},
    };
    TABLE_ROW(row, cells);
    return bytes > 0;
}

static void put_inside(json_t *object, const struct depths *depths)
{
    json_put_object(object, "system");
    json_put_object(object, "spans");
    for (unsigned i = 0; i < RAW_INSIDE_KINDS; i++) {
        json_object_set_new(json_object_get(object, inside_names[i].object), inside_names[i].key,
                            table_row_json(inside_row, depths, i));
    }
    json_put_kinds(object, "taken_for", depths->taken_for);
}

/* ---- all ---- */

void depths_print(const struct depths *depths, FILE *to)
{
    if (!depths->known) {
        fputs("\nhow far calls went: only recordings made on malloctape's tcmalloc have that\n",
              to);
        return;
    }
    print_sums(depths, to);
    print_waits(depths, to);
    depths_output_print_times(depths, to);
    table_print(&(struct table){inside_row, depths, .rows = RAW_INSIDE_KINDS}, to);
    table_print(&(struct table){taken_row, depths->taken_for, CALL_KINDS, .goes_on = true}, to);
}

json_t *depths_json(const struct depths *depths)
{
    const struct depths_class *heap = &depths->classes[RAW_STRUCTURE_PAGE_HEAP];
    const struct timeline *timeline = &depths->timeline;
    if (!depths->known) return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "allocations", table_row_json(sum_row, depths, ALLOCATIONS));
    json_object_set_new(object, "frees", table_row_json(sum_row, depths, FREES));
    json_put_numbers(json_put_object(object, "page_heap"), "entries waits waited_ns", heap->entries,
                     heap->waits.waits, heap->waits.waited_ns);
    table_put(object, "central_lists",
              &(struct table){class_row, depths->classes, .rows = RAW_SIZE_CLASSES_MAX});
    put_paths(object, depths);
    put_inside(object, depths);
    table_put(object, "lanes", &(struct table){lane_row, depths->lanes, .rows = RAW_LANES_MAX});
    table_put(object, "timeline",
              &(struct table){time_row, timeline->rows, .rows = timeline->count});
    return object;
}
