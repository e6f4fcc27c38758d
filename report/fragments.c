#include "report/fragments.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json_file.h"
#include "common/snapshot_file.h"
#include "launch/process.h"
#include "report/by_code_place.h"
#include "report/words.h"

const double fragments_oldest[FRAGMENTS_OLDEST] = {0.01, 0.1, 0.5};

const struct fragments_time_name fragments_time_names[FRAGMENTS_TIMES] = {
    [FRAGMENTS_PEAK_RSS] = {"peak_rss", "where RSS was largest"},
    [FRAGMENTS_PEAK_LIVE] = {"peak_live", "where most was alive"},
    [FRAGMENTS_END] = {"end", "at the end"}};

#define FRAGMENTS_ERROR_LIST(X) \
    X(FRAGMENTS_SNAPSHOT, "fragments_snapshot", "the snapshot of replay does not fit the trace")
enum fragments_error { FRAGMENTS_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind fragments_errors[] = {FRAGMENTS_ERROR_LIST(ERROR_LIST_KIND)};

struct placed {
    uint64_t address, size, call;
    uint64_t lane, code;
    uint64_t kept; /* its share of the bytes that are not live on sparse pages */
    bool on_sparse;
};

struct page_use {
    uint64_t live, objects, youngest; /* the latest call that made one of them */
};

/* Working memory of fragments_find(). */
struct finding {
    struct fragments *result;
    uint64_t *words; /* the snapshot */
    size_t words_bytes;
    const uint64_t *pages;
    struct placed *objects;
    uint64_t objects_count;
    struct page_use *uses; /* by page */
};

/* ---- the snapshot ---- */

static bool snapshot_map(struct finding *finding, const char *path, uint64_t objects_count,
                         struct error *error)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        return error_set_system(error, "cannot read the snapshot of replay");
    finding->words_bytes = (size_t)status.st_size;
    if (finding->words_bytes >= SNAPSHOT_HEADER_WORDS * sizeof(uint64_t))
        finding->words = mmap(NULL, finding->words_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (finding->words == NULL || finding->words == MAP_FAILED) {
        finding->words = NULL;
        return error_set(error, &fragments_errors[FRAGMENTS_SNAPSHOT], ERROR_NO_OFFSET,
                         "too short");
    }
    const uint64_t *header = finding->words;
    const uint64_t words = finding->words_bytes / sizeof(uint64_t) - SNAPSHOT_HEADER_WORDS;
    if (header[SNAPSHOT_HEADER_MAGIC] != SNAPSHOT_MAGIC ||
        header[SNAPSHOT_HEADER_OBJECTS] != objects_count ||
        header[SNAPSHOT_HEADER_OBJECTS] + header[SNAPSHOT_HEADER_PAGES] != words)
        return error_set(error, &fragments_errors[FRAGMENTS_SNAPSHOT], ERROR_NO_OFFSET,
                         "%llu objects instead of %llu",
                         (unsigned long long)header[SNAPSHOT_HEADER_OBJECTS],
                         (unsigned long long)objects_count);
    finding->result->page_bytes = header[SNAPSHOT_HEADER_PAGE_BYTES];
    finding->result->pages = header[SNAPSHOT_HEADER_PAGES];
    finding->pages = header + SNAPSHOT_HEADER_WORDS + objects_count;
    return true;
}

/* The member of a struct placed at an offset in bytes. */
static uint64_t fragments_member(const struct placed *object, const size_t *offset)
{
    uint64_t value;
    memcpy(&value, (const char *)object + *offset, sizeof value);
    return value;
}

static int by_member(const void *one, const void *other, void *offset)
{
    const uint64_t a = fragments_member(one, offset), b = fragments_member(other, offset);
    return (a > b) - (a < b);
}

static void objects_sort(struct finding *finding, size_t offset)
{
    qsort_r(finding->objects, finding->objects_count, sizeof *finding->objects, by_member, &offset);
}

static bool objects_place(struct finding *finding, const struct tally_object *objects,
                          const uint32_t *codes, uint64_t count)
{
    const uint64_t *addresses = finding->words + SNAPSHOT_HEADER_WORDS;
    finding->objects = calloc(count + 1, sizeof *finding->objects);
    finding->uses = calloc(finding->result->pages + 1, sizeof *finding->uses);
    if (finding->objects == NULL || finding->uses == NULL) return false;
    for (uint64_t i = 0; i < count; i++)
        if (addresses[i] != 0)
            finding->objects[finding->objects_count++] =
                (struct placed){.address = addresses[i],
                                .size = objects[i].size,
                                .call = objects[i].call,
                                .lane = objects[i].lane,
                                .code = codes != NULL ? codes[i] : 0};
    finding->result->objects = finding->objects_count;
    objects_sort(finding, offsetof(struct placed, address));
    return true;
}

/* ---- walking ---- */

/* The bytes of an object that are on a page. An object of no bytes is on one page, too. */
static uint64_t overlap(const struct placed *object, uint64_t page, uint64_t page_bytes)
{
    const uint64_t begin = object->address > page ? object->address : page;
    const uint64_t object_end = object->address + object->size, page_end = page + page_bytes;
    const uint64_t end = object_end < page_end ? object_end : page_end;
    return end > begin ? end - begin : 0;
}

/* Calls `visit` for each pair of an object and a resident page that it lies on. */
static void fragments_walk(struct finding *finding,
                           void (*visit)(struct finding *finding, uint64_t object, uint64_t page))
{
    const uint64_t page_bytes = finding->result->page_bytes, pages = finding->result->pages;
    uint64_t first = 0;
    for (uint64_t i = 0; i < finding->objects_count; i++) {
        const struct placed *object = &finding->objects[i];
        const uint64_t length = object->size > 0 ? object->size : 1;
        while (first < pages && finding->pages[first] + page_bytes <= object->address)
            first++;
        for (uint64_t page = first; page < pages && finding->pages[page] < object->address + length;
             page++)
            visit(finding, i, page);
    }
}

static void use_add(struct finding *finding, uint64_t at, uint64_t page)
{
    const struct placed *object = &finding->objects[at];
    struct page_use *use = &finding->uses[page];
    use->live += overlap(object, finding->pages[page], finding->result->page_bytes);
    use->objects++;
    if (object->call > use->youngest) use->youngest = object->call;
}

static unsigned fullness(const struct finding *finding, const struct page_use *use)
{
    const uint64_t step = finding->result->page_bytes / (FRAGMENTS_FULLNESS - 1);
    if (use->objects == 0) return 0;
    const uint64_t steps = (use->live + step - 1) / step;
    return steps == 0                        ? 1
           : steps >= FRAGMENTS_FULLNESS - 1 ? FRAGMENTS_FULLNESS - 1
                                             : (unsigned)steps;
}

static bool is_sparse(const struct finding *finding, const struct page_use *use)
{
    const unsigned full = fullness(finding, use);
    return full >= 1 && full <= FRAGMENTS_SPARSE;
}

static void kept_add(struct finding *finding, uint64_t at, uint64_t page)
{
    struct placed *object = &finding->objects[at];
    const struct page_use *use = &finding->uses[page];
    if (!is_sparse(finding, use)) return;
    object->kept += (finding->result->page_bytes - use->live) / use->objects;
    object->on_sparse = true;
}

/* ---- the result ---- */

static void pages_count(struct finding *finding)
{
    struct fragments *result = finding->result;
    for (uint64_t i = 0; i < result->pages; i++) {
        const struct page_use *use = &finding->uses[i];
        result->by_fullness[fullness(finding, use)]++;
        result->live_bytes += use->live;
        result->sparse.what += is_sparse(finding, use);
    }
}

static void cells_make(struct finding *finding)
{
    struct fragments *result = finding->result;
    result->pages_per_cell = result->pages / FRAGMENTS_CELLS + 1;
    for (uint64_t at = 0; at < result->pages; at += result->pages_per_cell) {
        uint64_t live = 0, count = 0;
        for (; count < result->pages_per_cell && at + count < result->pages; count++)
            live += finding->uses[at + count].live;
        result->cells[result->cells_count++] =
            (uint16_t)(1000 * live / (count * result->page_bytes));
    }
}

/* ---- of objects on sparse pages ---- */

/* Drops the objects that are not on sparse pages. */
static void objects_drop(struct finding *finding)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < finding->objects_count; i++)
        if (finding->objects[i].on_sparse) finding->objects[kept++] = finding->objects[i];
    finding->objects_count = kept;
}

static void blame_add(struct fragments_blame *to, const struct placed *one)
{
    if (to->objects == 0 || one->call < to->first_call) to->first_call = one->call;
    if (one->call > to->last_call) to->last_call = one->call;
    to->objects++;
    to->bytes += one->size;
    to->kept_bytes += one->kept;
}

/* Inserts `one` into the `count` that keep most, in order; returns the new count. */
static unsigned blame_show(struct fragments_blame *shown, unsigned count,
                           const struct fragments_blame *one)
{
    unsigned at = count;
    while (at > 0 && shown[at - 1].kept_bytes < one->kept_bytes)
        at--;
    if (at == FRAGMENTS_SHOWN) return count;
    if (count < FRAGMENTS_SHOWN) count++;
    memmove(shown + at + 1, shown + at, (count - 1 - at) * sizeof *shown);
    shown[at] = *one;
    return count;
}

/* Sums up objects with the same value of the member at `offset`, and puts those that keep most into
 * `shown`. Returns how many. */
static unsigned blames_find(struct finding *finding, size_t offset, struct fragments_blame *shown)
{
    unsigned count = 0;
    objects_sort(finding, offset);
    for (uint64_t i = 0; i < finding->objects_count;) {
        struct fragments_blame of = {.what = fragments_member(&finding->objects[i], &offset)};
        for (; i < finding->objects_count &&
               fragments_member(&finding->objects[i], &offset) == of.what;
             i++)
            blame_add(&of, &finding->objects[i]);
        count = blame_show(shown, count, &of);
    }
    return count;
}

static void ages_take(struct finding *finding)
{
    struct fragments *result = finding->result;
    for (uint64_t i = 0; i < finding->objects_count; i++) {
        const struct placed *one = &finding->objects[i];
        const uint64_t at = one->call * FRAGMENTS_AGES / (result->call + 1);
        blame_add(&result->sparse, one);
        result->by_age[at < FRAGMENTS_AGES ? at : FRAGMENTS_AGES - 1] += one->kept;
    }
}

static void oldest_count(struct finding *finding)
{
    struct fragments *result = finding->result;
    objects_sort(finding, offsetof(struct placed, call));
    for (unsigned part = 0; part < FRAGMENTS_OLDEST; part++) {
        const double taken = fragments_oldest[part] * (double)finding->objects_count;
        if (taken < 1) continue;
        const uint64_t until = finding->objects[(uint64_t)taken - 1].call;
        for (uint64_t i = 0; i < result->pages; i++)
            if (is_sparse(finding, &finding->uses[i]) && finding->uses[i].youngest <= until)
                result->without_oldest[part] += result->page_bytes;
    }
}

static void finding_free(struct finding *finding)
{
    if (finding->words != NULL) munmap(finding->words, finding->words_bytes);
    free(finding->objects);
    free(finding->uses);
}

bool fragments_find(struct fragments *fragments, const struct tally_object *objects,
                    const uint32_t *codes, uint64_t objects_count, const char *path,
                    struct error *error)
{
    struct finding finding = {.result = fragments};
    bool good = snapshot_map(&finding, path, objects_count, error);
    if (good && !objects_place(&finding, objects, codes, objects_count))
        good = error_set_system(error, "no memory for objects and pages");
    if (good && !process_interrupted()) {
        fragments_walk(&finding, use_add);
        pages_count(&finding);
        cells_make(&finding);
    }
    if (good && !process_interrupted()) {
        fragments_walk(&finding, kept_add);
        objects_drop(&finding);
        ages_take(&finding);
        oldest_count(&finding);
        fragments->sizes_count =
            blames_find(&finding, offsetof(struct placed, size), fragments->by_size);
        fragments->lanes_count =
            blames_find(&finding, offsetof(struct placed, lane), fragments->by_lane);
        if (codes != NULL)
            fragments->codes_count =
                blames_find(&finding, offsetof(struct placed, code), fragments->by_code);
    }
    finding_free(&finding);
    return good;
}

/* ---- output ---- */

static uint64_t pages_between(const struct fragments *fragments, unsigned from, unsigned to)
{
    uint64_t sum = 0;
    for (unsigned i = from; i <= to; i++)
        sum += fragments->by_fullness[i];
    return sum;
}

/* Lines for sizes, for lanes, and for code. */
enum { BLAMES_PRINTED = 5 };

static void print_blames(const struct fragments_blame *blames, unsigned count, bool of_lanes,
                         uint64_t kept, FILE *to)
{
    for (unsigned i = 0; i < count && i < BLAMES_PRINTED; i++) {
        const struct fragments_blame *one = &blames[i];
        char what[40], calls[64] = "";
        snprintf(what, sizeof what, "%s%s", of_lanes ? "lane " : "",
                 of_lanes ? words_count(one->what) : words_bytes_exact(one->what));
        if (one->last_call != one->first_call)
            snprintf(calls, sizeof calls, " to %s", words_count(one->last_call));
        fprintf(to, "    %15s %12s object%s %11s %8s   made by call%s %s%s\n", what,
                words_count(one->objects), one->objects == 1 ? " keeps" : "s keep",
                words_bytes(one->kept_bytes), words_share(one->kept_bytes, kept),
                *calls != '\0' ? "s" : "", words_count(one->first_call), calls);
    }
}

static const char *code_name(const struct by_code *code, uint64_t row)
{
    return row < code->groups.count ? by_code_name(code, (uint32_t)row) : "(not in focus)";
}

/* Names are long, so they come last in the line. */
static void print_codes(const struct fragments *fragments, const struct by_code *code, FILE *to)
{
    for (unsigned i = 0; i < fragments->codes_count && i < BLAMES_PRINTED; i++) {
        const struct fragments_blame *one = &fragments->by_code[i];
        fprintf(to, "    %15s %12s object%s %11s %8s   made by %s", "", words_count(one->objects),
                one->objects == 1 ? " keeps" : "s keep", words_bytes(one->kept_bytes),
                words_share(one->kept_bytes, fragments->sparse.kept_bytes),
                words_name(code_name(code, one->what)));
        if (one->what < code->groups.count)
            by_code_print_place(code, (uint32_t)one->what, &by_code_numbers[0], to);
        fputc('\n', to);
    }
}

void fragments_print(const struct fragments *fragments, const struct by_code *code, FILE *to)
{
    const uint64_t resident = fragments->pages * fragments->page_bytes;
    const unsigned most = FRAGMENTS_FULLNESS - 1;
    fprintf(to, "  %s resident in pages of the heap, %s of it not live (%s)\n",
            words_bytes(resident), words_bytes(resident - fragments->live_bytes),
            words_share(resident - fragments->live_bytes, resident));
    fprintf(to,
            "  of its pages, %s have no object, %s are at most a quarter full, %s at most half, "
            "%s more\n",
            words_share(fragments->by_fullness[0], fragments->pages),
            words_share(pages_between(fragments, 1, FRAGMENTS_SPARSE), fragments->pages),
            words_share(pages_between(fragments, FRAGMENTS_SPARSE + 1, most / 2), fragments->pages),
            words_share(pages_between(fragments, most / 2 + 1, most), fragments->pages));
    if (fragments->sparse.objects == 0) return;
    fprintf(to,
            "  %s are unused in %s pages that are at most a quarter full, kept by %s objects, %s "
            "in all:\n",
            words_bytes(fragments->sparse.kept_bytes), words_count(fragments->sparse.what),
            words_count(fragments->sparse.objects), words_bytes(fragments->sparse.bytes));
    const uint64_t kept = fragments->sparse.kept_bytes;
    print_blames(fragments->by_size, fragments->sizes_count, false, kept, to);
    if (fragments->lanes_count > 1)
        print_blames(fragments->by_lane, fragments->lanes_count, true, kept, to);
    print_codes(fragments, code, to);
    fprintf(to, "  without the oldest 1 %% of these objects: %s less; 10 %%: %s; half: %s\n",
            words_bytes(fragments->without_oldest[0]), words_bytes(fragments->without_oldest[1]),
            words_bytes(fragments->without_oldest[2]));
}

#define BLAME_KEYS "objects bytes kept_bytes first_call last_call"
#define BLAME_OF(blame) \
    blame.objects, blame.bytes, blame.kept_bytes, blame.first_call, blame.last_call

static void put_blames(json_t *object, const char *key, const char *columns,
                       const struct fragments_blame *blames, unsigned count)
{
    json_t *table = json_put_table(object, key, columns);
    for (unsigned i = 0; i < count; i++)
        json_put_row(table, columns, blames[i].what, BLAME_OF(blames[i]));
}

static void fragments_put_codes(json_t *object, const struct fragments *fragments,
                                const struct by_code *code)
{
    json_t *names = json_array();
    put_blames(object, "by_code", "row " BLAME_KEYS, fragments->by_code, fragments->codes_count);
    for (unsigned i = 0; i < fragments->codes_count; i++)
        json_array_append_new(names, json_text(code_name(code, fragments->by_code[i].what)));
    json_t *table = json_object_get(object, "by_code");
    json_object_del(table, "row");
    json_object_set_new(table, "name", names);
}

json_t *fragments_json(const struct fragments *fragments, const struct by_code *code)
{
    json_t *object = json_object(), *at = json_array();
    json_object_set_new(object, "at", at);
    for (unsigned i = 0; i < FRAGMENTS_TIMES; i++)
        if (fragments->is[i]) json_array_append_new(at, json_string(fragments_time_names[i].key));
    json_put_numbers(object, "call page_bytes pages objects live_bytes", fragments->call,
                     fragments->page_bytes, fragments->pages, fragments->objects,
                     fragments->live_bytes);
    json_put_array(object, "pages_by_fullness", fragments->by_fullness, FRAGMENTS_FULLNESS);
    json_t *sparse = json_put_object(object, "sparse");
    json_put_numbers(sparse, "pages " BLAME_KEYS, fragments->sparse.what,
                     BLAME_OF(fragments->sparse));
    put_blames(sparse, "by_size", "size " BLAME_KEYS, fragments->by_size, fragments->sizes_count);
    put_blames(sparse, "by_lane", "lane " BLAME_KEYS, fragments->by_lane, fragments->lanes_count);
    if (code->is_known) fragments_put_codes(sparse, fragments, code);
    json_put_array(sparse, "by_age", fragments->by_age, FRAGMENTS_AGES);
    json_put_array(sparse, "without_oldest", fragments->without_oldest, FRAGMENTS_OLDEST);
    json_t *map = json_put_table(object, "map", "live_per_mille");
    json_put_number(map, "pages_per_cell", fragments->pages_per_cell);
    for (uint32_t i = 0; i < fragments->cells_count; i++)
        json_put_row(map, "live_per_mille", fragments->cells[i]);
    return object;
}
