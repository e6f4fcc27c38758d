/* What depths.h counts, as text and as JSON (docs/report.md). */
#include <inttypes.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "report/depths.h"
#include "report/words.h"

/* Lines of each part of the text. */
enum { CLASSES_SHOWN = 8, LANES_SHOWN = 8, TIMES_SHOWN = 10 };

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

enum depth { DEPTH_CACHE, DEPTH_CENTRAL, DEPTH_PAGE_HEAP, DEPTH_SYSTEM, DEPTHS };
static const char *const depth_keys[DEPTHS] = {"cache", "central", "page_heap", "system"};

struct sum {
    uint64_t calls, depths[DEPTHS], waited;
};

static void add_paths(struct sum *sum, const uint64_t *paths)
{
    for (unsigned path = 0; path < PATHS; path++) {
        const enum depth depth = path & PATH_SYSTEM      ? DEPTH_SYSTEM
                                 : path & PATH_PAGE_HEAP ? DEPTH_PAGE_HEAP
                                 : path & PATH_CENTRAL   ? DEPTH_CENTRAL
                                                         : DEPTH_CACHE;
        sum->calls += paths[path];
        sum->depths[depth] += paths[path];
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

static uint64_t calls_beyond_cache(const struct depths_class *class)
{
    const struct sum sum = sum_of_class(class);
    return sum.calls - sum.depths[DEPTH_CACHE];
}

/* Those of which most calls went further than the cache. */
static void print_classes(const struct depths *depths, FILE *to)
{
    bool shown[RAW_STRUCTURES] = {false};
    for (unsigned lines = 0; lines < CLASSES_SHOWN; lines++) {
        const struct depths_class *most = NULL;
        for (unsigned i = 0; i < RAW_STRUCTURES; i++)
            if (!shown[i] && calls_beyond_cache(&depths->classes[i]) >
                                 (most != NULL ? calls_beyond_cache(most) : 0))
                most = &depths->classes[i];
        if (most == NULL) return;
        shown[most - depths->classes] = true;
        const struct sum sum = sum_of_class(most);
        print_sum(most->bytes > 0 ? words_bytes_exact(most->bytes) : "larger", &sum, to);
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
    if (waits->waits == 0) return;
    fprintf(to, "  %-28s %15s %18s %18s\n", what, words_count(waits->waits),
            milliseconds(all, waits->waited_ns),
            milliseconds(mean, waits->waited_ns / waits->waits));
}

static void print_lanes(const struct depths *depths, FILE *to)
{
    unsigned shown = 0, more = 0;
    for (uint32_t i = 0; i < RAW_LANES_MAX; i++) {
        char name[32];
        if (depths->lanes[i].waits.waits == 0) continue;
        snprintf(name, sizeof name, "thread of lane %" PRIu32, i);
        if (shown == LANES_SHOWN) {
            more++;
            continue;
        }
        print_wait(name, &depths->lanes[i].waits, to);
        shown++;
    }
    if (more > 0) fprintf(to, "  and %u more lanes\n", more);
}

static void print_waits(const struct depths *depths, FILE *to)
{
    fprintf(to, "\n%-30s %15s %18s %18s\n", "waited for the lock of", "waits", "in all", "mean");
    print_wait("the page heap", &depths->classes[RAW_STRUCTURE_PAGE_HEAP].waits, to);
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++) {
        char name[64];
        snprintf(name, sizeof name, "objects of %s", words_bytes_exact(depths->classes[i].bytes));
        print_wait(name, &depths->classes[i].waits, to);
    }
    print_lanes(depths, to);
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
    const struct timeline *timeline = &depths->timeline;
    const unsigned rows = (timeline->count + TIMES_SHOWN - 1) / TIMES_SHOWN;
    fprintf(to, "  %-28s %15s %18s %18s %12s\n", "over time", "waits", "in all", "from the system",
            "given back");
    for (unsigned i = 0; i < timeline->count;) {
        struct timeline_row sum = {0};
        char name[64], all[32];
        for (unsigned end = i + rows; i < end && i < timeline->count; i++) {
            const struct timeline_row *row = &timeline->rows[i];
            sum.end_ns = row->end_ns;
            sum.waits += row->waits;
            sum.waited_ns += row->waited_ns;
            sum.taken_bytes += row->taken_bytes;
            sum.released_bytes += row->released_bytes;
        }
        snprintf(name, sizeof name, "to %s", words_ms(sum.end_ns / 1000000));
        if (sum.waits + sum.taken_bytes + sum.released_bytes == 0) continue;
        fprintf(to, "  %-28s %15s %18s %18s %12s\n", name, words_count(sum.waits),
                milliseconds(all, sum.waited_ns), words_bytes(sum.taken_bytes),
                words_bytes(sum.released_bytes));
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

static json_t *sum_json(const struct sum *sum)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < DEPTHS; i++)
        json_put_number(object, depth_keys[i], sum->depths[i]);
    json_put_number(object, "waited", sum->waited);
    return object;
}

static json_t *new_list(json_t *object, const char *key)
{
    json_t *list = json_array();
    json_object_set_new(object, key, list);
    return list;
}

static json_t *new_entry(json_t *list, const char *key, uint64_t number)
{
    json_t *entry = json_object();
    json_array_append_new(list, entry);
    json_put_number(entry, key, number);
    return entry;
}

static void put_waits(json_t *object, const struct depths_waits *waits)
{
    json_put_number(object, "waits", waits->waits);
    json_put_number(object, "waited_ns", waits->waited_ns);
}

static void put_paths(json_t *list, unsigned class, uint64_t bytes, const char *call,
                      const uint64_t *paths)
{
    for (unsigned path = 0; path < PATHS; path++) {
        char letters[PATH_LETTERS];
        if (paths[path] == 0) continue;
        json_t *entry = new_entry(list, "class", class);
        json_put_number(entry, "bytes", bytes);
        path_letters(letters, path);
        json_put_text(entry, "call", call);
        json_put_text(entry, "path", letters);
        json_put_number(entry, "calls", paths[path]);
    }
}

static void put_classes(json_t *object, const struct depths *depths)
{
    json_t *lists = new_list(object, "central_lists"), *paths = new_list(object, "paths");
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++) {
        const struct depths_class *class = &depths->classes[i];
        put_paths(paths, i, class->bytes, "allocation", class->allocations);
        put_paths(paths, i, class->bytes, "free", class->frees);
        if (class->entries == 0 && class->waits.waits == 0) continue;
        json_t *list = new_entry(lists, "class", i);
        json_put_number(list, "bytes", class->bytes);
        json_put_number(list, "entries", class->entries);
        put_waits(list, &class->waits);
    }
}

static void put_inside(json_t *object, const struct depths *depths)
{
    json_object_set_new(object, "system", json_object());
    json_object_set_new(object, "spans", json_object());
    for (unsigned i = 0; i < RAW_INSIDE_KINDS; i++) {
        json_t *how = json_object();
        json_object_set_new(json_object_get(object, inside_names[i].object), inside_names[i].key,
                            how);
        json_put_number(how, "times", depths->inside[i].times);
        json_put_number(how, "bytes", depths->inside[i].bytes);
    }
    json_put_kinds(object, "taken_for", depths->taken_for);
}

static void put_lanes(json_t *object, const struct depths *depths)
{
    json_t *lanes = new_list(object, "lanes");
    for (uint32_t i = 0; i < RAW_LANES_MAX; i++) {
        const struct depths_of_lane *lane = &depths->lanes[i];
        if (lane->waits.waits + lane->taken_bytes + lane->released_bytes == 0) continue;
        json_t *entry = new_entry(lanes, "lane", i);
        put_waits(entry, &lane->waits);
        json_put_number(entry, "taken_bytes", lane->taken_bytes);
        json_put_number(entry, "released_bytes", lane->released_bytes);
    }
}

static void put_times(json_t *object, const struct timeline *timeline)
{
    json_t *times = new_list(object, "timeline");
    for (unsigned i = 0; i < timeline->count; i++) {
        const struct timeline_row *row = &timeline->rows[i];
        json_t *entry = new_entry(times, "end_ns", row->end_ns);
        put_waits(entry, &(struct depths_waits){row->waits, row->waited_ns});
        json_put_number(entry, "taken_bytes", row->taken_bytes);
        json_put_number(entry, "released_bytes", row->released_bytes);
    }
}

json_t *depths_json(const struct depths *depths)
{
    const struct depths_class *page_heap = &depths->classes[RAW_STRUCTURE_PAGE_HEAP];
    const struct sum allocations = sum_of_all(depths, false), frees = sum_of_all(depths, true);
    if (!depths->known) return json_null();
    json_t *object = json_object(), *heap = json_object();
    json_object_set_new(object, "allocations", sum_json(&allocations));
    json_object_set_new(object, "frees", sum_json(&frees));
    json_object_set_new(object, "page_heap", heap);
    json_put_number(heap, "entries", page_heap->entries);
    put_waits(heap, &page_heap->waits);
    put_classes(object, depths);
    put_inside(object, depths);
    put_lanes(object, depths);
    put_times(object, &depths->timeline);
    return object;
}
