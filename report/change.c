#include "report/change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "report/words.h"

/* Sizes that the text shows. */
enum { SIZES_SHOWN = 20 };

/* ---- finding ---- */

static int by_size(const void *one, const void *other)
{
    const struct change_size *a = one, *b = other;
    if (a->size != b->size) return a->size > b->size ? 1 : -1;
    return (a->highest > b->highest) - (a->highest < b->highest);
}

/* What grew most first; of equal growth, the smaller size first. */
static int by_growth(const void *one, const void *other)
{
    const double a = change_made(one), b = change_made(other);
    return a != b ? (a < b ? 1 : -1) : by_size(one, other);
}

static const struct change *sorted; /* qsort() has no room for it */

static double growth_of(const struct report_number *number)
{
    return report_growth(number->of(&sorted->before->tally), number->of(&sorted->after->tally));
}

static int by_per_cent(const void *one, const void *other)
{
    const struct report_number *a = *(const struct report_number *const *)one;
    const struct report_number *b = *(const struct report_number *const *)other;
    const double first = growth_of(a), second = growth_of(b);
    return first != second ? (first < second ? 1 : -1) : (a > b) - (a < b);
}

static size_t take_sizes(struct change_size *to, const struct sizes *sizes, bool after)
{
    size_t count = 0;
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        if (one->count == 0) continue;
        to[count] = (struct change_size){.size = one->size, .highest = sizes_highest(sizes, i)};
        *(after ? &to[count].made_after : &to[count].made_before) = one->count;
        *(after ? &to[count].bytes_after : &to[count].bytes_before) = one->bytes;
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
            one.made_before += sizes[i + 1].made_before;
            one.made_after += sizes[i + 1].made_after;
            one.bytes_before += sizes[i + 1].bytes_before;
            one.bytes_after += sizes[i + 1].bytes_after;
            i++;
        }
        if (one.made_before != one.made_after || one.bytes_before != one.bytes_after)
            sizes[kept++] = one;
    }
    return kept;
}

bool change_open(struct change *change, const struct report_trace *before,
                 const struct report_trace *after)
{
    const struct sizes *old = &before->tally.sizes, *new = &after->tally.sizes;
    size_t numbers = 0;
    *change = (struct change){.before = before, .after = after};
    while (report_numbers[numbers].key != NULL)
        numbers++;
    change->numbers = calloc(numbers, sizeof(struct report_number *));
    change->sizes = calloc((size_t)old->count + new->count, sizeof *change->sizes);
    if (change->numbers == NULL || change->sizes == NULL) return false;
    for (size_t i = 0; i < numbers; i++)
        if (report_numbers[i].of(&before->tally) != report_numbers[i].of(&after->tally))
            change->numbers[change->numbers_count++] = &report_numbers[i];
    sorted = change;
    qsort(change->numbers, change->numbers_count, sizeof(struct report_number *), by_per_cent);
    size_t count = take_sizes(change->sizes, old, false);
    count += take_sizes(change->sizes + count, new, true);
    qsort(change->sizes, count, sizeof *change->sizes, by_size);
    change->sizes_count = join_sizes(change->sizes, count);
    qsort(change->sizes, change->sizes_count, sizeof *change->sizes, by_growth);
    return true;
}

void change_close(struct change *change)
{
    free(change->numbers);
    free(change->sizes);
}

/* ---- text ---- */

/* "+ 12" of a text without sign. */
static const char *with_sign(bool less, const char *text, char *to, size_t bytes)
{
    snprintf(to, bytes, "%c %s", less ? '-' : '+', text);
    return to;
}

static const char *per_cent(double growth, char *to, size_t bytes)
{
    if (isinf(growth))
        snprintf(to, bytes, "new");
    else if (growth <= -100)
        snprintf(to, bytes, "gone");
    else if (growth >= 900)
        snprintf(to, bytes, "%.0f times", growth / 100 + 1);
    else
        snprintf(to, bytes, "%c %.*f %%", growth < 0 ? '-' : '+',
                 fabs(growth) < 10 || growth < -99 ? 1 : 0, fabs(growth));
    return to;
}

/* The size that makes the most of the difference; NULL if as many of each were made. (Of a class,
 * the bytes may differ.) */
static const struct change_size *most_changed(const struct change *change)
{
    const struct change_size *most = change->sizes;
    if (change->sizes_count == 0) return NULL;
    for (size_t i = 0; i < change->sizes_count; i++)
        if (fabs(change_made(&change->sizes[i])) > fabs(change_made(most)))
            most = &change->sizes[i];
    return change_made(most) != 0 ? most : NULL;
}

static void print_first(const struct change *change, FILE *to)
{
    const struct change_size *most = most_changed(change);
    double all = 0;
    if (most == NULL) {
        fprintf(to, "As many objects of each size were made%s.\n\n",
                change->numbers_count > 0 ? "; other numbers differ" : ", and no number differs");
        return;
    }
    const double made = change_made(most), bytes = change_bytes(most);
    for (size_t i = 0; i < change->sizes_count; i++)
        if ((change_made(&change->sizes[i]) > 0) == (made > 0))
            all += fabs(change_made(&change->sizes[i]));
    fprintf(to, "%s %s objects of %s were made (%s instead of %s): %s of all that %s, %s.\n\n",
            words_count((uint64_t)fabs(made)), made > 0 ? "more" : "fewer",
            words_sizes(most->size, most->highest), words_count(most->made_after),
            words_count(most->made_before), words_share((uint64_t)fabs(made), (uint64_t)all),
            made > 0 ? "came" : "went", words_bytes((uint64_t)fabs(bytes)));
}

static void print_numbers(const struct change *change, FILE *to)
{
    char difference[64], share[32];
    fprintf(to, "%-26s %15s %15s %17s %10s\n", "what grew most", "before", "after", "difference",
            "");
    for (size_t i = 0; i < change->numbers_count; i++) {
        const struct report_number *number = change->numbers[i];
        const uint64_t before = number->of(&change->before->tally);
        const uint64_t after = number->of(&change->after->tally);
        const uint64_t apart = after > before ? after - before : before - after;
        fprintf(to, "%-26s %15s %15s %17s %10s\n", number->name, report_number_text(number, before),
                report_number_text(number, after),
                with_sign(after < before, report_number_text(number, apart), difference,
                          sizeof difference),
                per_cent(report_growth(before, after), share, sizeof share));
    }
}

static void print_size(const struct change_size *size, FILE *to)
{
    char made[64], bytes[64], share[32], of[64];
    snprintf(of, sizeof of, "%s%s", words_count(size->size),
             size->highest > size->size ? ".." : "");
    fprintf(to, "%26s %15s %15s %17s %10s %13s\n", of, words_count(size->made_before),
            words_count(size->made_after),
            with_sign(change_made(size) < 0, words_count((uint64_t)fabs(change_made(size))), made,
                      sizeof made),
            per_cent(report_growth(size->made_before, size->made_after), share, sizeof share),
            with_sign(change_bytes(size) < 0, words_bytes((uint64_t)fabs(change_bytes(size))),
                      bytes, sizeof bytes));
}

void change_print(const struct change *change, FILE *to)
{
    const size_t count = change->sizes_count;
    print_first(change, to);
    fprintf(to, "before  %s\nafter   %s\n\n", change->before->path, change->after->path);
    if (change->numbers_count > 0) print_numbers(change, to);
    if (count == 0) return;
    fprintf(to, "\n%-26s %15s %15s %17s %10s %13s\n", "objects by size in bytes", "before", "after",
            "difference", "", "asked for");
    for (size_t i = 0; i < count; i++) {
        if (i == SIZES_SHOWN / 2 && count > SIZES_SHOWN) {
            fprintf(to, "%26s\n", "...");
            i = count - SIZES_SHOWN / 2;
        }
        print_size(&change->sizes[i], to);
    }
}

/* ---- JSON ---- */

static void put_difference(json_t *object, const char *key, uint64_t before, uint64_t after)
{
    json_t *one = json_object();
    const double growth = report_growth(before, after);
    json_put_number(one, "before", before);
    json_put_number(one, "after", after);
    json_object_set_new(one, "difference", json_integer((json_int_t)(after - before)));
    json_object_set_new(one, "per_cent", isfinite(growth) ? json_real(growth) : json_null());
    json_object_set_new(object, key, one);
}

json_t *change_json(const struct change *change)
{
    json_t *object = json_object(), *numbers = json_object(), *sizes = json_array();
    json_object_set_new(object, "before", report_json(change->before));
    json_object_set_new(object, "after", report_json(change->after));
    json_object_set_new(object, "numbers", numbers);
    json_object_set_new(object, "sizes", sizes);
    for (const struct report_number *number = report_numbers; number->key != NULL; number++) {
        static const char *const units[] = {"count", "bytes", "ms"};
        put_difference(numbers, number->key, number->of(&change->before->tally),
                       number->of(&change->after->tally));
        json_put_text(json_object_get(numbers, number->key), "unit", units[number->unit]);
    }
    for (size_t i = 0; i < change->sizes_count; i++) {
        const struct change_size *size = &change->sizes[i];
        json_t *one = json_object();
        json_put_number(one, "size", size->size);
        json_put_number(one, "highest", size->highest);
        put_difference(one, "made", size->made_before, size->made_after);
        put_difference(one, "bytes", size->bytes_before, size->bytes_after);
        json_array_append_new(sizes, one);
    }
    return object;
}
