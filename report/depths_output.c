/* What depths.h counts, as text and as JSON (docs/report.md). */
#include <inttypes.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "report/depths.h"
#include "report/report.h"
#include "report/words.h"

/* Lines of each part of the text. */
enum { CLASSES_SHOWN = 8, WAITS_SHOWN = 8, TIMES_SHOWN = 10 };

/* What happened inside calls, by RAW_INSIDE_..., from the first on. */
static const struct {
    const char *object, *key, *text;
} inside_names[RAW_INSIDE_KINDS] = {
    {"system", "sbrk", "from the system, by sbrk"},
    {"system", "mmap", "from the system, by mmap"},
    {"system", "madvise", "given back, by madvise"},
    {"system", "reuse", "given back and used again"},
    {"spans", "split", "left of spans that were split"},
    {"spans", "merge", "merged with a span beside it"},
};

/* ---- sums ---- */

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

static struct sum sum_of_all(const struct depths *depths, bool frees)
{
    struct sum sum = {0};
    for (unsigned i = 0; i < RAW_STRUCTURES; i++)
        add_paths(&sum, frees ? depths->classes[i].frees : depths->classes[i].allocations);
    return sum;
}

static struct sum sum_of_class(const struct depths_class *class)
{
    struct sum sum = {0};
    add_paths(&sum, class->allocations);
    add_paths(&sum, class->frees);
    return sum;
}

/* ---- text ---- */

static void print_sum(const char *what, const struct sum *sum, FILE *to)
{
    fprintf(to, "  %-18s %15s", what, words_count(sum->calls));
    for (unsigned i = 0; i < DEPTHS; i++)
        fprintf(to, " %13s", words_share(sum->depths[i], sum->calls));
    fprintf(to, " %9s\n", words_share(sum->waited, sum->calls));
}

/* Those of which most calls went further than the cache. */
static void print_classes(const struct depths *depths, FILE *to)
{
    struct sum sums[RAW_STRUCTURES];
    uint64_t beyond[RAW_STRUCTURES];
    uint32_t top[CLASSES_SHOWN];
    for (unsigned i = 0; i < RAW_STRUCTURES; i++) {
        sums[i] = sum_of_class(&depths->classes[i]);
        beyond[i] = sums[i].calls - sums[i].depths[DEPTH_CACHE];
    }
    const unsigned count = report_top(beyond, RAW_STRUCTURES, sizeof *beyond, top, CLASSES_SHOWN);
    for (unsigned i = 0; i < count; i++) {
        const uint64_t bytes = depths->classes[top[i]].bytes;
        print_sum(bytes > 0 ? words_bytes_exact(bytes) : "larger", &sums[top[i]], to);
    }
}

static const char *milliseconds(char text[32], uint64_t ns)
{
    snprintf(text, 32, "%.3f ms", (double)ns / 1e6);
    return text;
}

static void print_wait(const char *what, const struct depths_waits *waits, FILE *to)
{
    char all[32], mean[32];
    fprintf(to, "  %-28s %15s %18s %18s\n", what, words_count(waits->waits),
            milliseconds(all, waits->waited_ns),
            milliseconds(mean, waits->waited_ns / waits->waits));
}

/* Where was waited longest, and who did. */
static void print_waits(const struct depths *depths, FILE *to)
{
    uint32_t top[WAITS_SHOWN];
    char name[64];
    unsigned count = REPORT_TOP(depths->classes, RAW_STRUCTURES, waits.waited_ns, top, WAITS_SHOWN);
    if (count == 0) return;
    fprintf(to, "\n%-30s %15s %18s %18s\n", "waited for the lock of", "waits", "in all", "mean");
    for (unsigned i = 0; i < count; i++) {
        const struct depths_class *class = &depths->classes[top[i]];
        snprintf(name, sizeof name, "objects of %s", words_bytes_exact(class->bytes));
        print_wait(top[i] == RAW_STRUCTURE_PAGE_HEAP ? "the page heap" : name, &class->waits, to);
    }
    count = REPORT_TOP(depths->lanes, RAW_LANES_MAX, waits.waited_ns, top, WAITS_SHOWN);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "by thread of lane %" PRIu32, top[i]);
        print_wait(name, &depths->lanes[top[i]].waits, to);
    }
}

static void print_inside(const struct depths *depths, FILE *to)
{
    fprintf(to, "\n%-30s %15s %18s\n", "memory", "times", "bytes");
    for (unsigned i = 0; i < RAW_INSIDE_KINDS; i++) {
        if (depths->inside[i].times == 0) continue;
        fprintf(to, "  %-28s %15s %18s\n", inside_names[i].text,
                words_count(depths->inside[i].times), words_bytes(depths->inside[i].bytes));
    }
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        char name[64];
        if (depths->taken_for[kind] == 0) continue;
        snprintf(name, sizeof name, "taken for %s", call_names[kind]);
        fprintf(to, "  %-28s %15s %18s\n", name, "", words_bytes(depths->taken_for[kind]));
    }
}

static void print_times(const struct depths *depths, FILE *to)
{
    fprintf(to, "\n%-15s %14s %11s %9s %9s %10s %12s %12s %11s\n", "over time", "calls",
            "past cache", "page heap", "system", "waits", "in all", "taken", "given back");
    for (unsigned part = 0; part < TIMES_SHOWN; part++) {
        const struct timeline_row row = timeline_part(&depths->timeline, part, TIMES_SHOWN);
        char all[32];
        if (row.end_ns == 0) continue;
        fprintf(to, "  to %-10s %14s %11s %9s %9s %10s %12s %12s %11s\n",
                words_ms(row.end_ns / 1000000), words_count(row.calls),
                words_share(row.reached[TIMELINE_BEYOND_CACHE], row.calls),
                words_share(row.reached[TIMELINE_PAGE_HEAP], row.calls),
                words_share(row.reached[TIMELINE_SYSTEM], row.calls), words_count(row.waits),
                milliseconds(all, row.waited_ns), words_bytes(row.taken_bytes),
                words_bytes(row.released_bytes));
    }
}

void depths_print(const struct depths *depths, FILE *to)
{
    const struct sum allocations = sum_of_all(depths, false), frees = sum_of_all(depths, true);
    if (!depths->known) {
        fputs("\nhow far calls went: only a recording that was made on our tcmalloc has that\n",
              to);
        return;
    }
    fprintf(to, "\n%-20s %15s %13s %13s %13s %13s %9s\n", "served by", "calls", "thread cache",
            "central list", "page heap", "the system", "waited");
    print_sum("allocations", &allocations, to);
    print_sum("frees", &frees, to);
    print_classes(depths, to);
    print_waits(depths, to);
    print_times(depths, to);
    print_inside(depths, to);
}

/* ---- JSON ---- */

static void put_sum(json_t *object, const char *key, const struct sum *sum)
{
    json_t *one = json_put_object(object, key);
    json_put_numbers(one, "cache central page_heap system waited", sum->depths[DEPTH_CACHE],
                     sum->depths[DEPTH_CENTRAL], sum->depths[DEPTH_PAGE_HEAP],
                     sum->depths[DEPTH_SYSTEM], sum->waited);
}

static void put_paths(json_t *table, unsigned class, uint64_t bytes, const char *call,
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

static void put_classes(json_t *object, const struct depths *depths)
{
    static const char columns[] = "class bytes entries waits waited_ns";
    json_t *lists = json_put_table(object, "central_lists", columns);
    json_t *paths = json_put_table(object, "paths", "class bytes call path calls");
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++) {
        const struct depths_class *class = &depths->classes[i];
        put_paths(paths, i, class->bytes, "allocation", class->allocations);
        put_paths(paths, i, class->bytes, "free", class->frees);
        if (class->entries > 0 || class->waits.waits > 0)
            json_put_row(lists, columns, i, class->bytes, class->entries, class->waits.waits,
                         class->waits.waited_ns);
    }
}

static void put_inside(json_t *object, const struct depths *depths)
{
    json_put_object(object, "system");
    json_put_object(object, "spans");
    for (unsigned i = 0; i < RAW_INSIDE_KINDS; i++)
        json_put_numbers(
            json_put_object(json_object_get(object, inside_names[i].object), inside_names[i].key),
            "times bytes", depths->inside[i].times, depths->inside[i].bytes);
    json_put_kinds(object, "taken_for", depths->taken_for);
}

static void put_lanes(json_t *object, const struct depths *depths)
{
    static const char columns[] = "lane waits waited_ns taken_bytes released_bytes";
    json_t *table = json_put_table(object, "lanes", columns);
    for (uint32_t i = 0; i < RAW_LANES_MAX; i++) {
        const struct depths_of_lane *lane = &depths->lanes[i];
        if (lane->waits.waits + lane->taken_bytes + lane->released_bytes > 0)
            json_put_row(table, columns, i, lane->waits.waits, lane->waits.waited_ns,
                         lane->taken_bytes, lane->released_bytes);
    }
}

static void put_times(json_t *object, const struct timeline *timeline)
{
    static const char columns[] = "end_ns calls beyond_cache central page_heap system waited "
                                  "waits waited_ns taken_bytes released_bytes";
    json_t *table = json_put_table(object, "timeline", columns);
    for (unsigned i = 0; i < timeline->count; i++) {
        const struct timeline_row *row = &timeline->rows[i];
        const uint64_t *reached = row->reached;
        json_put_row(table, columns, row->end_ns, row->calls, reached[TIMELINE_BEYOND_CACHE],
                     reached[TIMELINE_CENTRAL], reached[TIMELINE_PAGE_HEAP],
                     reached[TIMELINE_SYSTEM], reached[TIMELINE_WAITED], row->waits, row->waited_ns,
                     row->taken_bytes, row->released_bytes);
    }
}

json_t *depths_json(const struct depths *depths)
{
    const struct depths_class *heap = &depths->classes[RAW_STRUCTURE_PAGE_HEAP];
    const struct sum allocations = sum_of_all(depths, false), frees = sum_of_all(depths, true);
    if (!depths->known) return json_null();
    json_t *object = json_object();
    put_sum(object, "allocations", &allocations);
    put_sum(object, "frees", &frees);
    json_put_numbers(json_put_object(object, "page_heap"), "entries waits waited_ns", heap->entries,
                     heap->waits.waits, heap->waits.waited_ns);
    put_classes(object, depths);
    put_inside(object, depths);
    put_lanes(object, depths);
    put_times(object, &depths->timeline);
    return object;
}
