#include "report/change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "report/report_json.h"
#include "report/table.h"
#include "report/words.h"

/* How many sizes the text shows, by what was made and by what was alive. */
enum { SIZES_SHOWN = 20, ALIVE_SHOWN = 10 };

/* Peak RSS of two runs of one program differs by this much without a cause, because it is sampled
 * only every 10 to 100 ms. */
#define NOISE_PER_CENT 2

/* A size that changed by a smaller part of all is not told first. */
#define TOLD_LEAST 0.001L

/* ---- finding ---- */

static bool change_is_known(const struct change_pair *pair)
{
    return pair->before >= 0 && pair->after >= 0;
}

/* NAN: not known. */
static long double by_how_much(const struct change_pair *pair)
{
    return change_is_known(pair) ? pair->after - pair->before : NAN;
}

static double growth(const struct change_pair *pair)
{
    return report_growth(pair->before, pair->after);
}

static int change_by_size(const void *one, const void *other)
{
    const struct change_size *a = one, *b = other;
    if (a->size != b->size) return a->size > b->size ? 1 : -1;
    return (a->highest > b->highest) - (a->highest < b->highest);
}

/* Orders by growth, the greatest first; for equal growth, the smaller size first. */
static int by_growth(const void *one, const void *other)
{
    const long double a = by_how_much(&((const struct change_size *)one)->of->objects);
    const long double b = by_how_much(&((const struct change_size *)other)->of->objects);
    return a != b ? (a < b ? 1 : -1) : change_by_size(one, other);
}

/* Numbers known in one trace only follow those that dropped to 0 (-100 %); equal ones come last. */
static double rank(const struct change_pair *pair)
{
    if (pair->before == pair->after) return -INFINITY;
    return change_is_known(pair) ? growth(pair) : -200;
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

static void change_take(struct change_counts *to, uint64_t objects, uint64_t bytes, bool after)
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
        if (!size_entry_is_used(one)) continue;
        to[count].size = one->size;
        to[count].highest = sizes_highest(sizes, i);
        change_take(&of[CHANGE_MADE], one->count, one->bytes, after);
        change_take(&of[CHANGE_PEAK], live->peak_objects, live->peak_bytes, after);
        change_take(&of[CHANGE_END], live->objects, live->bytes, after);
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

static bool change_differs(const struct change_size *size)
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
        if (i + 1 < count && change_by_size(&one, &sizes[i + 1]) == 0) {
            i++;
            for (unsigned when = 0; when < CHANGE_WHENS; when++)
                join(&one.of[when], &sizes[i].of[when]);
        }
        if (change_differs(&one)) sizes[kept++] = one;
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
    qsort(change->sizes, count, sizeof *change->sizes, change_by_size);
    change->sizes_count = join_sizes(change->sizes, count);
    qsort(change->sizes, change->sizes_count, sizeof *change->sizes, by_growth);
    return owners_change_open(&change->owners, &before->owners, &after->owners) &&
           code_change_open(&change->code, &before->code, &after->code);
}

void change_close(struct change *change)
{
    free(change->sizes);
    owners_change_close(&change->owners);
    code_change_close(&change->code);
}

/* ---- tables ---- */

enum { NAME_WIDTH = 20 };

static long double change_known(long double value)
{
    return value >= 0 ? value : NAN;
}

/* Cells: the count before and after, the difference, and the growth in per cent. */
#define PAIR(of_unit, pair)                                                                    \
    {"before", change_known((pair)->before), "before", 15, .unit = (of_unit)},                 \
        {"after", change_known((pair)->after), "after", 15, .unit = (of_unit)},                \
        {"difference", .value = by_how_much(pair)},                                            \
        {NULL,        0, "difference", 17, .text = words_signed((of_unit), by_how_much(pair)), \
         .wide = true},                                                                        \
        {"per_cent", growth(pair), .unit = UNIT_TIMES},                                        \
    {                                                                                          \
        NULL, 0, "", 10, .text = words_growth(growth(pair))                                    \
    }

static bool pair_row(const void *of, size_t at, struct table_row *row)
{
    const struct change_pair *pair = (const struct change_pair *)of + at;
    const struct cell cells[] = {PAIR(UNIT_COUNT, pair)};
    TABLE_ROW(row, cells);
    return true;
}

static bool is_noise(const struct change_number *number)
{
    return strcmp(number->key, "peak_rss") == 0 && fabs(growth(&number->value)) < NOISE_PER_CENT;
}

/* `of`: a change. */
static bool number_row(const void *of, size_t at, struct table_row *row)
{
    static const char *const units[] = {
        [UNIT_COUNT] = "count", [UNIT_BYTES] = "bytes", [UNIT_MS] = "ms"};
    const struct change_number *number = &((const struct change *)of)->numbers[at];
    const char *title = words_format("%-*s", NAME_WIDTH, "what grew most");
    const struct cell cells[] = {
        {NULL, 0, title, NAME_WIDTH, .text = number->key},
        PAIR(number->unit, &number->value),
        {"unit", .text = units[number->unit]},
        {NULL, 0, "", -1, .text = is_noise(number) ? "may be noise" : ""},
    };
    TABLE_ROW(row, cells);
    return true;
}

struct sizes_when {
    const struct change *change;
    enum change_when when;
};

static bool size_row(const void *of, size_t at, struct table_row *row)
{
    static const char *const titles[] = {"objects by size in bytes", "alive at the peak",
                                         "alive at the end"};
    const struct sizes_when *sizes = of;
    const struct change_size *one = &sizes->change->sizes[at];
    const struct change_counts *counts = &one->of[sizes->when];
    const char *title = words_format("%-*s", NAME_WIDTH, titles[sizes->when]);
    const char *size =
        words_format("%s%s", words_count(one->size), one->highest > one->size ? ".." : "");
    const char *bytes = words_signed(UNIT_BYTES, by_how_much(&counts->bytes));
    const struct cell cells[] = {
        {NULL, 0, title, NAME_WIDTH, .text = size},
        PAIR(UNIT_COUNT, &counts->objects),
        {NULL, 0, sizes->when == CHANGE_MADE ? "asked for" : "bytes", 13, .text = bytes},
    };
    TABLE_ROW(row, cells);
    return true;
}

/* ---- text ---- */

/* The difference of a size: in objects for what was made (in a class, only the bytes may differ),
 * else in bytes. */
static long double size_change(const struct change_size *size, enum change_when when)
{
    const struct change_counts *of = &size->of[when];
    return by_how_much(when == CHANGE_MADE ? &of->objects : &of->bytes);
}

/* The size with the greatest one. NULL: there is none. */
static const struct change_size *most_changed(const struct change *change, enum change_when when)
{
    const struct change_size *most = NULL;
    long double most_of = 0;
    for (size_t i = 0; i < change->sizes_count; i++) {
        const long double by = fabsl(size_change(&change->sizes[i], when));
        if (by <= most_of) continue;
        most = &change->sizes[i];
        most_of = by;
    }
    return most;
}

/* The difference of a size as a part of all objects that were made, or of the bytes alive at the
 * peak, in the trace that has more. */
static long double part_of_all(const struct change *change, const struct change_size *size,
                               enum change_when when)
{
    const struct tally *before = &change->before->tally, *after = &change->after->tally;
    const uint64_t old = when == CHANGE_MADE ? before->made : before->peak.bytes;
    const uint64_t new = when == CHANGE_MADE ? after->made : after->peak.bytes;
    return fabsl(size_change(size, when)) / (long double)(old > new ? old : new);
}

static void print_first_of(const struct change *change, enum change_when when, FILE *to)
{
    static const char *const words[][2] = {
        [CHANGE_MADE] = {"was made", "were made"},
        [CHANGE_PEAK] = {"was alive at the peak", "were alive at the peak"},
        [CHANGE_END] = {"is alive at the end", "are alive at the end"}};
    const struct change_size *most = most_changed(change, when);
    long double all = 0;
    const struct change_counts *of = &most->of[when];
    const long double objects = by_how_much(&of->objects), bytes = by_how_much(&of->bytes);
    const long double part = size_change(most, when);
    for (size_t i = 0; i < change->sizes_count; i++) {
        const long double one = size_change(&change->sizes[i], when);
        if ((one > 0) == (part > 0)) all += fabsl(one);
    }
    fprintf(to, "%s %s object%s of %s %s (%s instead of %s): %s of the %s, %s.\n",
            words_count((uint64_t)fabsl(objects)), objects > 0 ? "more" : "fewer",
            fabsl(objects) == 1 ? "" : "s", words_sizes(most->size, most->highest),
            words[when][fabsl(objects) != 1], words_number(UNIT_COUNT, of->objects.after),
            words_number(UNIT_COUNT, of->objects.before),
            words_share((uint64_t)fabsl(part), (uint64_t)all), part > 0 ? "increase" : "decrease",
            words_bytes((uint64_t)fabsl(bytes)));
}

/* Prints what was made, what was alive at the peak and what is at the end, the greatest change
 * first; none that is too small. Returns how many. */
static unsigned print_greatest(const struct change *change, FILE *to)
{
    long double parts[CHANGE_WHENS];
    unsigned count = 0;
    for (enum change_when when = 0; when < CHANGE_WHENS; when++) {
        const struct change_size *most = most_changed(change, when);
        parts[when] = most != NULL ? part_of_all(change, most, when) : 0;
    }
    for (; count < CHANGE_WHENS; count++) {
        enum change_when greatest = 0;
        for (enum change_when when = 1; when < CHANGE_WHENS; when++)
            if (parts[when] > parts[greatest]) greatest = when;
        if (parts[greatest] < TOLD_LEAST) break;
        print_first_of(change, greatest, to);
        parts[greatest] = 0;
    }
    return count;
}

void change_print_first(const struct change *change, FILE *to)
{
    const unsigned printed = print_greatest(change, to);
    if (most_changed(change, CHANGE_MADE) == NULL)
        fprintf(to, "The number of objects of each size is the same%s.\n",
                change->differing > 0 ? "; other numbers differ" : ", and no number differs");
    else if (printed == 0)
        fputs(
            "No size differs by a thousandth of all objects, or of the bytes alive at the peak.\n",
            to);
}

/* Prints the sizes made more or less often; if there are many, those at both ends. */
static void print_made(const struct change *change, FILE *to)
{
    const struct sizes_when of = {change, CHANGE_MADE};
    uint32_t *shown = calloc(change->sizes_count + 1, sizeof *shown);
    size_t count = 0;
    for (uint32_t i = 0; shown != NULL && i < change->sizes_count; i++)
        if (by_how_much(&change->sizes[i].of->objects) != 0 ||
            by_how_much(&change->sizes[i].of->bytes) != 0)
            shown[count++] = i;
    const size_t half = SIZES_SHOWN / 2;
    const bool all = count <= SIZES_SHOWN;
    table_print(&(struct table){size_row, &of, all ? count : half, .order = shown}, to);
    if (!all) {
        fprintf(to, "%*s\n", NAME_WIDTH, "...");
        table_print(&(struct table){size_row, &of, half, shown + count - half, .goes_on = true},
                    to);
    }
    free(shown);
}

/* Prints the sizes whose bytes changed most. */
static void print_alive(const struct change *change, enum change_when when, FILE *to)
{
    const struct sizes_when of = {change, when};
    uint64_t *bytes = calloc(change->sizes_count + 1, sizeof *bytes);
    uint32_t top[ALIVE_SHOWN];
    for (size_t i = 0; bytes != NULL && i < change->sizes_count; i++)
        bytes[i] = (uint64_t)fabsl(by_how_much(&change->sizes[i].of[when].bytes));
    const unsigned count = bytes == NULL ? 0
                                         : report_top(bytes, (uint32_t)change->sizes_count,
                                                      sizeof *bytes, top, ALIVE_SHOWN);
    table_print(&(struct table){size_row, &of, count, .order = top}, to);
    free(bytes);
}

void change_print(const struct change *change, FILE *to)
{
    change_print_first(change, to);
    fprintf(to, "\nbefore  %s\nafter   %s\n", printable_text(change->before->path),
            printable_text(change->after->path));
    table_print(&(struct table){number_row, change, .rows = change->differing}, to);
    owners_change_print(&change->owners, to);
    code_change_print(&change->code, to);
    print_made(change, to);
    print_alive(change, CHANGE_END, to);
    print_alive(change, CHANGE_PEAK, to);
}

/* ---- JSON ---- */

static json_t *size_json(const struct change_size *size)
{
    static const char *const keys[][2] = {[CHANGE_MADE] = {"made", "bytes"},
                                          [CHANGE_PEAK] = {"peak_objects", "peak_bytes"},
                                          [CHANGE_END] = {"end_objects", "end_bytes"}};
    json_t *one = json_object();
    json_put_numbers(one, "size highest", size->size, size->highest);
    for (unsigned i = 0; i < CHANGE_WHENS; i++) {
        json_object_set_new(one, keys[i][0], table_row_json(pair_row, &size->of[i].objects, 0));
        json_object_set_new(one, keys[i][1], table_row_json(pair_row, &size->of[i].bytes, 0));
    }
    return one;
}

json_t *change_json(const struct change *change)
{
    json_t *object = json_object(), *sizes = json_array();
    json_object_set_new(object, "before", report_json(change->before));
    json_object_set_new(object, "after", report_json(change->after));
    json_t *numbers = json_put_object(object, "numbers");
    json_object_set_new(object, "sizes", sizes);
    for (size_t i = 0; i < change->numbers_count; i++)
        json_object_set_new(numbers, change->numbers[i].key, table_row_json(number_row, change, i));
    for (size_t i = 0; i < change->sizes_count; i++)
        json_array_append_new(sizes, size_json(&change->sizes[i]));
    if (change->owners.is_known)
        json_object_set_new(object, "owners", owners_change_json(&change->owners));
    if (change->code.code != NULL)
        json_object_set_new(object, "code", code_change_json(&change->code));
    return object;
}
