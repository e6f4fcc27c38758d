#include "report/first.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "launch/allocators.h"
#include "report/by_code_place.h"
#include "report/owners_output.h"
#include "report/table.h"
#include "report/under.h"
#include "report/words.h"

/* The width of the words before numbers; how many items a line or list shows. */
enum { WIDTH = 15, SUSPECTS_MAX = 64, SUSPECTS_SHOWN = 5, KINDS_SHOWN = 4, SIZES_SHOWN = 4 };

/* ---- where RSS is ---- */

struct parts {
    uint64_t rss; /* the sum; 0: not known */
    uint64_t live, rounding;
    bool has_pages, has_older;
    uint64_t partly, empty; /* of the heap's pages; without a replay `partly` is the sum of both, */
    bool has_heap;          /* and if the heap's size is unknown, of `others`, too */
    uint64_t shared;        /* of files or shared memory; 0: it is not known, and in `others` */
    uint64_t others;        /* not the heap's */
};

/* What the recorded allocator adds to `live` bytes by rounding; 0: its rules are not known. */
static uint64_t rounding_of(const struct report_trace *trace, uint64_t live)
{
    return owners_rounding(trace->rounded, trace->allocator, live);
}

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* The snapshot of a replay under the recorded allocator at that time; NULL: there is none. */
static const struct fragments *pages_at(const struct report_trace *trace, enum fragments_time time)
{
    const struct under *under = trace->under;
    const char *recorded = allocators_name_recorded(trace->allocator);
    if (under == NULL || recorded == NULL || strcmp(under->allocator, recorded) != 0) return NULL;
    for (unsigned i = 0; i < under->snapshots_count; i++)
        if (under->snapshots[i].is[time]) return &under->snapshots[i];
    return NULL;
}

static void first_take_pages(struct parts *parts, const struct fragments *at)
{
    const uint64_t heap = at->pages * at->page_bytes;
    parts->has_pages = parts->has_heap = true;
    if (parts->rss < heap) parts->rss = heap;
    parts->live = at->live_bytes;
    parts->empty = at->by_fullness[0] * at->page_bytes;
    parts->partly = heap - parts->empty - parts->live;
    parts->others = parts->rss - heap;
}

static struct parts parts_find(const struct report_trace *trace)
{
    const struct tally_rss *at = &trace->tally.at_rss;
    const struct fragments *pages = pages_at(trace, FRAGMENTS_PEAK_RSS);
    struct parts parts = {.rss = at->bytes,
                          .live = least(at->live_bytes, at->bytes),
                          .has_older = trace->tally.has_older};
    if (at->bytes == 0) return parts;
    if (pages != NULL) {
        first_take_pages(&parts, pages);
    } else {
        const uint64_t heap = at->heap_bytes;
        parts.has_heap = heap >= parts.live && heap <= at->bytes;
        parts.partly = (parts.has_heap ? heap : at->bytes) - parts.live;
        parts.others = parts.has_heap ? at->bytes - heap : 0;
    }
    parts.shared = least(at->shared_bytes, parts.has_heap ? parts.others : parts.partly);
    *(parts.has_heap ? &parts.others : &parts.partly) -= parts.shared;
    parts.rounding = least(rounding_of(trace, parts.live), parts.partly);
    parts.partly -= parts.rounding;
    return parts;
}

/* Calls `use` for the parts that are not 0. */
static void parts_list(const struct parts *parts,
                       void (*use)(const struct parts *parts, uint64_t bytes, const char *what,
                                   FILE *to),
                       FILE *to)
{
    const struct {
        uint64_t bytes;
        const char *what;
    } list[] = {{parts->live, "alive, as asked for"},
                {parts->rounding, "rounded up"},
                {parts->partly, parts->has_pages ? "free in pages that are partly full"
                                : parts->has_older && parts->has_heap
                                    ? "the rest of the heap: older objects, or free"
                                : parts->has_heap ? "free in the heap (--under: in which pages)"
                                                  : "the rest of the process"},
                {parts->empty, "empty pages of the heap"},
                {parts->shared, "can be shared: code, files, shared memory"},
                {parts->others, parts->shared > 0 ? "outside the heap: stacks, mappings"
                                                  : "outside the heap: code, stacks, mappings"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].bytes > 0) use(parts, list[i].bytes, list[i].what, to);
}

static void print_part(const struct parts *parts, uint64_t bytes, const char *what, FILE *to)
{
    fprintf(to, "%*s %11s %8s  %s\n", WIDTH, "", words_bytes(bytes), words_share(bytes, parts->rss),
            what);
}

static void print_parts(const struct report_trace *trace, FILE *to)
{
    const struct parts parts = parts_find(trace);
    const struct tally_rss *at = &trace->tally.at_rss;
    if (parts.rss == 0) return;
    const char *peak = words_bytes(trace->tally.peak_rss_bytes), *there = words_bytes(parts.rss);
    fprintf(to, "%-*s peak %s", WIDTH, "RSS", peak);
    if (strcmp(there, peak) != 0) fprintf(to, "; %s of it", there);
    fprintf(to, ", at %s, after call %s:\n", words_ms(at->ms), words_count(at->call));
    parts_list(&parts, print_part, to);
}

static void say_part(const struct parts *parts, uint64_t bytes, const char *what, FILE *to)
{
    fprintf(to, "; %s (%s) %s", words_bytes(bytes), words_share(bytes, parts->rss), what);
}

/* ---- what may leak ---- */

/* Of the live objects of a size. */
struct suspect_lives {
    uint64_t since;         /* made by a call, not in a base */
    struct stack_ages ages; /* by the time since recording began */
};

/* By entry; NULL: no memory. */
static struct suspect_lives *suspects_look(const struct tally *tally)
{
    struct suspect_lives *lives = calloc(tally->sizes.count + 1, sizeof *lives);
    for (uint64_t i = 0; lives != NULL && i < tally->live; i++) {
        const struct tally_object *object = &tally->objects[i];
        struct suspect_lives *one = &lives[object->entry];
        one->since += object->call > 0;
        one->ages.quarters[stack_ages_quarter(object->ms, tally->ms)]++;
    }
    return lives;
}

static bool is_suspect(const struct tally *tally, const struct size_entry *one,
                       const struct suspect_lives *lives)
{
    enum { OBJECTS_LEAST = 16 };
    return one->live.objects >= OBJECTS_LEAST && lives->since >= one->count - one->count / 10 &&
           one->latest_call > tally->calls - tally->calls / 4 &&
           (tally->base_live == 0 || stack_ages_are_spread(&lives->ages));
}

/* With those of a base, not less than are alive. */
static uint64_t suspect_made(const struct size_entry *one)
{
    return one->count > one->live.objects ? one->count : one->live.objects;
}

/* Finds the sizes of which nine in ten objects that were made are alive at the end, and of which some
 * are made in the last quarter of the calls, and with a base in each of the time; those with most live
 * bytes first. */
static unsigned suspects_find(const struct report_trace *trace, uint32_t suspects[SUSPECTS_MAX])
{
    const struct tally *tally = &trace->tally;
    const struct sizes *sizes = &tally->sizes;
    uint64_t *bytes = calloc(sizes->count + 1, sizeof *bytes);
    struct suspect_lives *lives = suspects_look(tally);
    unsigned found = 0;
    for (uint32_t i = 0; bytes != NULL && lives != NULL && i < sizes->count; i++)
        if (is_suspect(tally, &sizes->entries[i], &lives[i]))
            bytes[i] = sizes->entries[i].live.bytes;
    if (bytes != NULL && lives != NULL)
        found = report_top(bytes, sizes->count, sizeof *bytes, suspects, SUSPECTS_MAX);
    free(lives);
    free(bytes);
    return found;
}

/* With call stacks, by code. */
static void print_leaking_code(const struct by_code *code, FILE *to)
{
    uint32_t rows[SUSPECTS_SHOWN];
    const unsigned count = by_code_leaks(code, rows, SUSPECTS_SHOWN);
    for (unsigned i = 0; i < count; i++) {
        const struct stack_sums *self = &code->self[rows[i]];
        fprintf(to, "%-*s %s in %s of %s objects of %s", WIDTH, i == 0 ? "may leak" : "",
                words_bytes((uint64_t)llround(self->bytes[STACK_AT_END].value)),
                words_count((uint64_t)llround(self->objects[STACK_AT_END].value)),
                words_count((uint64_t)llround(by_code_leaks_of(code, rows[i]))),
                words_name(by_code_name(code, rows[i])));
        by_code_print_place(code, rows[i], &by_code_numbers[BY_CODE_END], to);
        fprintf(to, ", more in each %s\n", by_code_leaks_when(code));
    }
    const unsigned needed = count == 0 ? by_code_leaks_need(code) : 0;
    if (needed > 0)
        fprintf(to,
                "%-*s not known: no %s has %u samples that are alive at the end (--stacks=all)\n",
                WIDTH, "may leak", words_name(by_code_kinds[code->groups.by]), needed);
}

static void print_suspects(const struct report_trace *trace, FILE *to)
{
    uint32_t suspects[SUSPECTS_MAX];
    const struct sizes *sizes = &trace->tally.sizes;
    const unsigned count = suspects_find(trace, suspects);
    for (unsigned i = 0; i < count && i < SUSPECTS_SHOWN; i++) {
        const struct size_entry *one = &sizes->entries[suspects[i]];
        fprintf(to, "%-*s %s of %s, %s of %s made are never freed\n", WIDTH,
                i == 0 ? "may leak" : "", words_bytes(one->live.bytes),
                words_sizes(one->size, sizes_highest(sizes, suspects[i])),
                words_count(one->live.objects), words_count(suspect_made(one)));
    }
    if (count > SUSPECTS_SHOWN)
        fprintf(to, "%*s and %u more sizes\n", WIDTH, "", count - SUSPECTS_SHOWN);
}

/* ---- what makes the calls ---- */

static void first_print_calls(const struct tally *tally, FILE *to)
{
    uint32_t top[KINDS_SHOWN];
    const struct sizes *sizes = &tally->sizes;
    const uint64_t *calls = tally->totals.by_kind;
    unsigned count = report_top(calls, CALL_KINDS, sizeof *calls, top, KINDS_SHOWN);
    for (unsigned i = 0; i < count; i++)
        fprintf(to, "%-*s%s %s", i == 0 ? WIDTH + 1 : 0, i == 0 ? "calls" : ", ",
                call_names[top[i]], words_share(calls[top[i]], tally->calls));
    count = REPORT_TOP(sizes->entries, sizes->count, count, top, SIZES_SHOWN);
    for (unsigned i = 0; i < count; i++)
        fprintf(to, "%s%s of %s", i == 0 ? "\n                made " : ", ",
                words_share(sizes->entries[top[i]].count, tally->made),
                words_sizes(sizes->entries[top[i]].size, sizes_highest(sizes, top[i])));
    fputc('\n', to);
}

static void say_leaking_code(const struct by_code *code, FILE *to)
{
    uint32_t rows[SUSPECTS_SHOWN];
    const unsigned count = by_code_leaks(code, rows, SUSPECTS_SHOWN);
    for (unsigned i = 0; i < count; i++) {
        const struct stack_sums *self = &code->self[rows[i]];
        if (i == 0)
            fprintf(to, "May leak, as more is alive in each %s: ", by_code_leaks_when(code));
        fprintf(to, "%s%s (%s in %s objects)", i == 0 ? "" : ", ",
                words_name(by_code_name(code, rows[i])),
                words_bytes((uint64_t)llround(self->bytes[STACK_AT_END].value)),
                words_count((uint64_t)llround(self->objects[STACK_AT_END].value)));
    }
    if (count > 0) fputs(".\n", to);
}

static void say_suspects(const struct report_trace *trace, FILE *to)
{
    uint32_t suspects[SUSPECTS_MAX];
    const struct sizes *sizes = &trace->tally.sizes;
    const unsigned count = suspects_find(trace, suspects);
    for (unsigned i = 0; i < count && i < SUSPECTS_SHOWN; i++)
        fprintf(to, "%s%s (%s objects)",
                i == 0 ? "May leak, as hardly any object of these sizes is freed: " : ", ",
                words_sizes(sizes->entries[suspects[i]].size, sizes_highest(sizes, suspects[i])),
                words_count(sizes->entries[suspects[i]].live.objects));
    if (count > 0) fputs(".\n", to);
}

void first_print_notice(const struct report_trace *trace, FILE *to)
{
    const struct parts parts = parts_find(trace);
    if (trace->owners.is_known) {
        owners_say(trace, to);
    } else if (parts.rss > 0) {
        fprintf(to, "Peak RSS was %s", words_bytes(trace->tally.peak_rss_bytes));
        parts_list(&parts, say_part, to);
        fputs(".\n", to);
    }
    if (trace->code.is_known)
        say_leaking_code(&trace->code, to);
    else
        say_suspects(trace, to);
}

void first_print(const struct report_trace *trace, FILE *to)
{
    const struct fragments *const pages[] = {pages_at(trace, FRAGMENTS_PEAK_RSS),
                                             pages_at(trace, FRAGMENTS_END)};
    if (trace->owners.is_known)
        owners_print(trace, pages, to);
    else
        print_parts(trace, to);
    if (trace->code.is_known)
        print_leaking_code(&trace->code, to);
    else
        print_suspects(trace, to);
    first_print_calls(&trace->tally, to);
    fputc('\n', to);
}

/* ---- JSON ---- */

static json_t *json_parts(const struct report_trace *trace)
{
    const struct parts parts = parts_find(trace);
    if (parts.rss == 0) return json_null();
    json_t *object = json_object();
    json_put_numbers(object, "peak rss live rounding partly empty shared others call ms",
                     trace->tally.peak_rss_bytes, parts.rss, parts.live, parts.rounding,
                     parts.partly, parts.empty, parts.shared, parts.others,
                     trace->tally.at_rss.call, trace->tally.at_rss.ms);
    json_object_set_new(object, "has_pages", json_boolean(parts.has_pages));
    json_object_set_new(object, "has_heap", json_boolean(parts.has_heap));
    return object;
}

json_t *first_json(const struct report_trace *trace)
{
    static const char columns[] = "size highest made alive bytes";
    const struct sizes *sizes = &trace->tally.sizes;
    uint32_t suspects[SUSPECTS_MAX];
    const unsigned count = suspects_find(trace, suspects);
    json_t *object = json_object();
    json_object_set_new(object, "rss", json_parts(trace));
    json_t *table = json_put_table(object, "may_leak", columns);
    for (unsigned i = 0; i < count; i++) {
        const struct size_entry *one = &sizes->entries[suspects[i]];
        json_put_row(table, columns, one->size, sizes_highest(sizes, suspects[i]), one->count,
                     one->live.objects, one->live.bytes);
    }
    return object;
}
