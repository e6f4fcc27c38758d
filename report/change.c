#include "report/change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "report/words.h"

/* Sizes that the text shows, by what was made and by what was alive. */
enum { SIZES_SHOWN = 20, ALIVE_SHOWN = 10 };

/* The most RSS of two runs of one program differs by so much for no reason: looks at it are 10 to
 * 100 ms apart. */
#define NOISE_PER_CENT 2

/* ---- finding ---- */

static bool is_known(const struct change_pair *pair)
{
    return pair->before >= 0 && pair->after >= 0;
}

/* NAN: not known. */
static long double by_how_much(const struct change_pair *pair)
{
    return is_known(pair) ? pair->after - pair->before : NAN;
}

static double growth(const struct change_pair *pair)
{
    return report_growth(pair->before, pair->after);
}

static int by_size(const void *one, const void *other)
{
    const struct change_size *a = one, *b = other;
    if (a->size != b->size) return a->size > b->size ? 1 : -1;
    return (a->highest > b->highest) - (a->highest < b->highest);
}

/* What grew most first; of equal growth, the smaller size first. */
static int by_growth(const void *one, const void *other)
{
    const long double a = by_how_much(&((const struct change_size *)one)->of->objects);
    const long double b = by_how_much(&((const struct change_size *)other)->of->objects);
    return a != b ? (a < b ? 1 : -1) : by_size(one, other);
}

/* Behind what is gone (-100 %) stands what is known of one trace only, and then what is equal. */
static double rank(const struct change_pair *pair)
{
    if (pair->before == pair->after) return -INFINITY;
    return is_known(pair) ? growth(pair) : -200;
}

static int by_per_cent(const void *one, const void *other)
{
    const struct change_number *a = one, *b = other;
    const double first = rank(&a->value), second = rank(&b->value);
    return first != second ? (first < second ? 1 : -1) : strcmp(a->key, b->key);
}

static void take_numbers(struct change *change)
{
    struct report_numbers before, after;
    report_numbers_list(&before, &change->before->tally);
    report_numbers_list(&after, &change->after->tally);
    for (size_t i = 0; i < before.count; i++) {
        const struct number *old = &before.at[i], *new = &after.at[i];
        change->numbers[i] = (struct change_number){old->key, old->unit, {old->value, new->value}};
        change->differing += old->value != new->value;
    }
    change->numbers_count = before.count;
    qsort(change->numbers, before.count, sizeof *change->numbers, by_per_cent);
}

static void take(struct change_counts *to, uint64_t objects, uint64_t bytes, bool after)
{
    *(after ? &to->objects.after : &to->objects.before) = objects;
    *(after ? &to->bytes.after : &to->bytes.before) = bytes;
}

static size_t take_sizes(struct change_size *to, const struct sizes *sizes, bool after)
{
    size_t count = 0;
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        const struct live *live = &one->live;
        struct change_counts *of = to[count].of;
        if (one->count == 0) continue;
        to[count].size = one->size;
        to[count].highest = sizes_highest(sizes, i);
        take(&of[CHANGE_MADE], one->count, one->bytes, after);
        take(&of[CHANGE_PEAK], live->peak_objects, live->peak_bytes, after);
        take(&of[CHANGE_END], live->objects, live->bytes, after);
        count++;
    }
    return count;
}

static void join(struct change_counts *to, const struct change_counts *one)
{
    to->objects.before += one->objects.before;
    to->objects.after += one->objects.after;
    to->bytes.before += one->bytes.before;
    to->bytes.after += one->bytes.after;
}

static bool differs(const struct change_size *size)
{
    for (unsigned i = 0; i < CHANGE_WHENS; i++)
        if (by_how_much(&size->of[i].objects) != 0 || by_how_much(&size->of[i].bytes) != 0)
            return true;
    return false;
}

/* Joins entries of the same size and keeps those that differ. */
static size_t join_sizes(struct change_size *sizes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct change_size one = sizes[i];
        if (i + 1 < count && by_size(&one, &sizes[i + 1]) == 0) {
            i++;
            for (unsigned when = 0; when < CHANGE_WHENS; when++)
                join(&one.of[when], &sizes[i].of[when]);
        }
        if (differs(&one)) sizes[kept++] = one;
    }
    return kept;
}

bool change_open(struct change *change, const struct report_trace *before,
                 const struct report_trace *after)
{
    const struct sizes *old = &before->tally.sizes, *new = &after->tally.sizes;
    *change = (struct change){.before = before, .after = after};
    change->sizes = calloc((size_t)old->count + new->count, sizeof *change->sizes);
    if (change->sizes == NULL) return false;
    take_numbers(change);
    size_t count = take_sizes(change->sizes, old, false);
    count += take_sizes(change->sizes + count, new, true);
    qsort(change->sizes, count, sizeof *change->sizes, by_size);
    change->sizes_count = join_sizes(change->sizes, count);
    qsort(change->sizes, change->sizes_count, sizeof *change->sizes, by_growth);
    return true;
}

void change_close(struct change *change)
{
    free(change->sizes);
}

/* ---- text ---- */

/* The size that makes the most of the difference; NULL: there is none. (Of a class, the bytes may
 * differ.) Of what was made, by objects, else by bytes. */
static const struct change_size *most_changed(const struct change *change, enum change_when when)
{
    const struct change_size *most = NULL;
    long double most_of = 0;
    for (size_t i = 0; i < change->sizes_count; i++) {
        const struct change_counts *of = &change->sizes[i].of[when];
        const long double by = fabsl(by_how_much(when == CHANGE_MADE ? &of->objects : &of->bytes));
        if (by <= most_of) continue;
        most = &change->sizes[i];
        most_of = by;
    }
    return most;
}

static void print_first_of(const struct change *change, enum change_when when, FILE *to)
{
    static const char *const words[][2] = {
        [CHANGE_MADE] = {"was made", "were made"},
        [CHANGE_PEAK] = {"was alive at the peak", "were alive at the peak"},
        [CHANGE_END] = {"is alive at the end", "are alive at the end"}};
    const struct change_size *most = most_changed(change, when);
    long double all = 0;
    if (most == NULL) return;
    const struct change_counts *of = &most->of[when];
    const long double objects = by_how_much(&of->objects), bytes = by_how_much(&of->bytes);
    for (size_t i = 0; i < change->sizes_count; i++) {
        const long double one = by_how_much(&change->sizes[i].of[when].objects);
        if ((one > 0) == (objects > 0)) all += fabsl(one);
    }
    fprintf(to, "%s %s object%s of %s %s (%s instead of %s): %s of all that %s, %s.\n",
            words_count((uint64_t)fabsl(objects)), objects > 0 ? "more" : "fewer",
            fabsl(objects) == 1 ? "" : "s", words_sizes(most->size, most->highest),
            words[when][fabsl(objects) != 1], words_number(UNIT_COUNT, of->objects.after),
            words_number(UNIT_COUNT, of->objects.before),
            words_share((uint64_t)fabsl(objects), (uint64_t)all), objects > 0 ? "came" : "went",
            words_bytes((uint64_t)fabsl(bytes)));
}

void change_print_first(const struct change *change, FILE *to)
{
    if (most_changed(change, CHANGE_MADE) == NULL)
        fprintf(to, "As many objects of each size were made%s.\n",
                change->differing > 0 ? "; other numbers differ" : ", and no number differs");
    for (enum change_when when = 0; when < CHANGE_WHENS; when++)
        print_first_of(change, when, to);
}

static void print_pair(const char *of, enum number_unit unit, const struct change_pair *pair,
                       FILE *to)
{
    fprintf(to, "%26s %15s %15s %17s %10s", of, words_number(unit, pair->before),
            words_number(unit, pair->after), words_signed(unit, by_how_much(pair)),
            words_growth(growth(pair)));
}

static void print_size(const struct change_size *size, enum change_when when, FILE *to)
{
    char of[64];
    snprintf(of, sizeof of, "%s%s", words_count(size->size),
             size->highest > size->size ? ".." : "");
    print_pair(of, UNIT_COUNT, &size->of[when].objects, to);
    fprintf(to, " %13s\n", words_signed(UNIT_BYTES, by_how_much(&size->of[when].bytes)));
}

static void print_head(const char *title, const char *more, FILE *to)
{
    fprintf(to, "\n%-26s          before           after        difference%s%s\n", title,
            *more != '\0' ? "           " : "", more);
}

static void print_made(const struct change *change, FILE *to)
{
    size_t count = 0; /* those of which another count was made stand at both ends */
    struct change_size *shown = calloc(change->sizes_count + 1, sizeof *shown);
    for (size_t i = 0; shown != NULL && i < change->sizes_count; i++)
        if (by_how_much(&change->sizes[i].of->objects) != 0 ||
            by_how_much(&change->sizes[i].of->bytes) != 0)
            shown[count++] = change->sizes[i];
    if (count > 0) print_head("objects by size in bytes", "     asked for", to);
    for (size_t i = 0; i < count; i++) {
        if (i == SIZES_SHOWN / 2 && count > SIZES_SHOWN) {
            fprintf(to, "%26s\n", "...");
            i = count - SIZES_SHOWN / 2;
        }
        print_size(&shown[i], CHANGE_MADE, to);
    }
    free(shown);
}

/* Those whose bytes changed most. */
static void print_alive(const struct change *change, enum change_when when, const char *title,
                        FILE *to)
{
    uint64_t *bytes = calloc(change->sizes_count + 1, sizeof *bytes);
    uint32_t top[ALIVE_SHOWN];
    for (size_t i = 0; bytes != NULL && i < change->sizes_count; i++)
        bytes[i] = (uint64_t)fabsl(by_how_much(&change->sizes[i].of[when].bytes));
    const unsigned count = bytes == NULL ? 0
                                         : report_top(bytes, (uint32_t)change->sizes_count,
                                                      sizeof *bytes, top, ALIVE_SHOWN);
    if (count > 0) print_head(title, "         bytes", to);
    for (unsigned i = 0; i < count; i++)
        print_size(&change->sizes[top[i]], when, to);
    free(bytes);
}

static bool is_noise(const struct change_number *number)
{
    return strcmp(number->key, "peak_rss") == 0 && fabs(growth(&number->value)) < NOISE_PER_CENT;
}

void change_print(const struct change *change, FILE *to)
{
    change_print_first(change, to);
    fprintf(to, "\nbefore  %s\nafter   %s\n", change->before->path, change->after->path);
    if (change->differing > 0) print_head("what grew most", "", to);
    for (size_t i = 0; i < change->differing; i++) {
        const struct change_number *number = &change->numbers[i];
        print_pair(number->key, number->unit, &number->value, to);
        fputs(is_noise(number) ? " may be noise\n" : "\n", to);
    }
    print_made(change, to);
    print_alive(change, CHANGE_END, "alive at the end", to);
    print_alive(change, CHANGE_PEAK, "alive at the peak", to);
}

/* ---- JSON ---- */

static void put_known(json_t *object, const char *key, long double value, bool known)
{
    json_object_set_new(object, key, known ? json_whole(value) : json_null());
}

static json_t *put_pair(json_t *object, const char *key, const struct change_pair *pair)
{
    json_t *one = json_put_object(object, key);
    put_known(one, "before", pair->before, pair->before >= 0);
    put_known(one, "after", pair->after, pair->after >= 0);
    put_known(one, "difference", by_how_much(pair), is_known(pair));
    json_put_real(one, "per_cent", growth(pair));
    return one;
}

json_t *change_json(const struct change *change)
{
    json_t *object = json_object(), *sizes = json_array();
    json_object_set_new(object, "before", report_json(change->before));
    json_object_set_new(object, "after", report_json(change->after));
    json_t *numbers = json_put_object(object, "numbers");
    json_object_set_new(object, "sizes", sizes);
    for (size_t i = 0; i < change->numbers_count; i++) {
        static const char *const units[] = {
            [UNIT_COUNT] = "count", [UNIT_BYTES] = "bytes", [UNIT_MS] = "ms"};
        const struct change_number *number = &change->numbers[i];
        json_put_text(put_pair(numbers, number->key, &number->value), "unit", units[number->unit]);
    }
    for (size_t i = 0; i < change->sizes_count; i++) {
        const struct change_size *size = &change->sizes[i];
        json_t *one = json_object();
        json_put_numbers(one, "size highest", size->size, size->highest);
        put_pair(one, "made", &size->of[CHANGE_MADE].objects);
        put_pair(one, "bytes", &size->of[CHANGE_MADE].bytes);
        put_pair(one, "peak_objects", &size->of[CHANGE_PEAK].objects);
        put_pair(one, "peak_bytes", &size->of[CHANGE_PEAK].bytes);
        put_pair(one, "end_objects", &size->of[CHANGE_END].objects);
        put_pair(one, "end_bytes", &size->of[CHANGE_END].bytes);
        json_array_append_new(sizes, one);
    }
    return object;
}
