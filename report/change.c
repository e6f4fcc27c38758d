#include "report/change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "report/words.h"

/* Sizes that the text shows. */
enum { SIZES_SHOWN = 20 };

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
    const long double a = by_how_much(&((const struct change_size *)one)->made);
    const long double b = by_how_much(&((const struct change_size *)other)->made);
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

static size_t take_sizes(struct change_size *to, const struct sizes *sizes, bool after)
{
    size_t count = 0;
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        if (one->count == 0) continue;
        to[count] = (struct change_size){.size = one->size, .highest = sizes_highest(sizes, i)};
        *(after ? &to[count].made.after : &to[count].made.before) = one->count;
        *(after ? &to[count].bytes.after : &to[count].bytes.before) = one->bytes;
        count++;
    }
    return count;
}

/* Joins entries of the same size and keeps those that differ. */
static size_t join_sizes(struct change_size *sizes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct change_size one = sizes[i];
        if (i + 1 < count && by_size(&one, &sizes[i + 1]) == 0) {
            one.made.before += sizes[i + 1].made.before;
            one.made.after += sizes[i + 1].made.after;
            one.bytes.before += sizes[i + 1].bytes.before;
            one.bytes.after += sizes[i + 1].bytes.after;
            i++;
        }
        if (by_how_much(&one.made) != 0 || by_how_much(&one.bytes) != 0) sizes[kept++] = one;
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

/* The size that makes the most of the difference; NULL if as many of each were made. (Of a class,
 * the bytes may differ.) */
static const struct change_size *most_changed(const struct change *change)
{
    const struct change_size *most = change->sizes;
    if (change->sizes_count == 0) return NULL;
    for (size_t i = 0; i < change->sizes_count; i++)
        if (fabsl(by_how_much(&change->sizes[i].made)) > fabsl(by_how_much(&most->made)))
            most = &change->sizes[i];
    return by_how_much(&most->made) != 0 ? most : NULL;
}

static void print_first(const struct change *change, FILE *to)
{
    const struct change_size *most = most_changed(change);
    long double all = 0;
    if (most == NULL) {
        fprintf(to, "As many objects of each size were made%s.\n\n",
                change->differing > 0 ? "; other numbers differ" : ", and no number differs");
        return;
    }
    const long double made = by_how_much(&most->made), bytes = by_how_much(&most->bytes);
    for (size_t i = 0; i < change->sizes_count; i++)
        if ((by_how_much(&change->sizes[i].made) > 0) == (made > 0))
            all += fabsl(by_how_much(&change->sizes[i].made));
    fprintf(to, "%s %s objects of %s were made (%s instead of %s): %s of all that %s, %s.\n\n",
            words_count((uint64_t)fabsl(made)), made > 0 ? "more" : "fewer",
            words_sizes(most->size, most->highest), words_number(UNIT_COUNT, most->made.after),
            words_number(UNIT_COUNT, most->made.before),
            words_share((uint64_t)fabsl(made), (uint64_t)all), made > 0 ? "came" : "went",
            words_bytes((uint64_t)fabsl(bytes)));
}

static void print_pair(const char *of, enum number_unit unit, const struct change_pair *pair,
                       FILE *to)
{
    fprintf(to, "%26s %15s %15s %17s %10s", of, words_number(unit, pair->before),
            words_number(unit, pair->after), words_signed(unit, by_how_much(pair)),
            words_growth(growth(pair)));
}

static void print_size(const struct change_size *size, FILE *to)
{
    char of[64];
    snprintf(of, sizeof of, "%s%s", words_count(size->size),
             size->highest > size->size ? ".." : "");
    print_pair(of, UNIT_COUNT, &size->made, to);
    fprintf(to, " %13s\n", words_signed(UNIT_BYTES, by_how_much(&size->bytes)));
}

void change_print(const struct change *change, FILE *to)
{
    static const char head[] = "%-26s          before           after        difference %10s%s";
    const size_t count = change->sizes_count;
    print_first(change, to);
    fprintf(to, "before  %s\nafter   %s\n\n", change->before->path, change->after->path);
    if (change->differing > 0) fprintf(to, head, "what grew most", "", "\n");
    for (size_t i = 0; i < change->differing; i++) {
        const struct change_number *number = &change->numbers[i];
        print_pair(number->key, number->unit, &number->value, to);
        fputc('\n', to);
    }
    if (count == 0) return;
    fputc('\n', to);
    fprintf(to, head, "objects by size in bytes", "", "     asked for\n");
    for (size_t i = 0; i < count; i++) {
        if (i == SIZES_SHOWN / 2 && count > SIZES_SHOWN) {
            fprintf(to, "%26s\n", "...");
            i = count - SIZES_SHOWN / 2;
        }
        print_size(&change->sizes[i], to);
    }
}

/* ---- JSON ---- */

static void put_known(json_t *object, const char *key, long double value, bool known)
{
    json_object_set_new(object, key, known ? json_integer((json_int_t)value) : json_null());
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
        put_pair(one, "made", &size->made);
        put_pair(one, "bytes", &size->bytes);
        json_array_append_new(sizes, one);
    }
    return object;
}
