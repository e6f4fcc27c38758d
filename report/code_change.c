#include "report/code_change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "report/report_numbers.h"
#include "report/words.h"

enum { ROWS_SHOWN = 10 };

static int by_name(const void *one, const void *other)
{
    const struct code_change_row *a = one, *b = other;
    return strcmp(a->name, b->name);
}

static size_t take_rows(struct code_change_row *rows, const struct by_code *code, bool after)
{
    for (uint32_t i = 0; i < code->groups.count; i++) {
        rows[i].name = by_code_name(code, i);
        for (unsigned k = 0; k < BY_CODE_NUMBERS; k++)
            (after ? rows[i].after : rows[i].before)[k] =
                by_code_itself(code, i, &by_code_numbers[k]);
    }
    return code->groups.count;
}

static bool code_change_differs(const struct code_change_row *row)
{
    for (unsigned i = 0; i < BY_CODE_NUMBERS; i++)
        if (fabs(row->after[i] - row->before[i]) >= 0.5) return true;
    return false;
}

/* Merges rows of the same name and keeps those that differ. */
static size_t join_rows(struct code_change_row *rows, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0, end; i < count; i = end) {
        struct code_change_row one = rows[i];
        for (end = i + 1; end < count && by_name(&one, &rows[end]) == 0; end++)
            for (unsigned k = 0; k < BY_CODE_NUMBERS; k++) {
                one.before[k] += rows[end].before[k];
                one.after[k] += rows[end].after[k];
            }
        if (code_change_differs(&one)) rows[kept++] = one;
    }
    return kept;
}

bool code_change_open(struct code_change *change, const struct by_code *before,
                      const struct by_code *after)
{
    *change = (struct code_change){.code = NULL};
    if (!before->is_known || !after->is_known) return true;
    change->code = after;
    change->rows = calloc(before->groups.count + after->groups.count + 1, sizeof *change->rows);
    if (change->rows == NULL) return false;
    size_t count = take_rows(change->rows, before, false);
    count += take_rows(change->rows + count, after, true);
    qsort(change->rows, count, sizeof *change->rows, by_name);
    change->count = join_rows(change->rows, count);
    return true;
}

void code_change_close(struct code_change *change)
{
    free(change->rows);
}

/* ---- output ---- */

static int by_difference(const void *one, const void *other, void *of)
{
    const struct code_change_row *a = one, *b = other;
    const unsigned number = *(const unsigned *)of;
    const double first = fabs(a->after[number] - a->before[number]);
    const double second = fabs(b->after[number] - b->before[number]);
    return first != second ? (first < second ? 1 : -1) : by_name(one, other);
}

static void print_number(const struct code_change *change, unsigned number, FILE *to)
{
    const struct by_code_number *what = &by_code_numbers[number];
    const enum number_unit unit = what->is_bytes ? UNIT_BYTES : UNIT_COUNT;
    if (change->count > 1)
        qsort_r(change->rows, change->count, sizeof *change->rows, by_difference, &number);
    for (size_t i = 0; i < change->count && i < ROWS_SHOWN; i++) {
        const struct code_change_row *row = &change->rows[i];
        const double before = row->before[number], after = row->after[number];
        if (fabs(after - before) < 0.5) break;
        char title[80];
        snprintf(title, sizeof title, "%s, %s", by_code_rows(change->code), what->words);
        if (i == 0) fprintf(to, "\n%-32s %6s %14s %16s\n", title, "before", "after", "difference");
        fprintf(to, "  %37s %14s %16s %10s", words_number(unit, roundl(before)),
                words_number(unit, roundl(after)), words_signed(unit, roundl(after - before)),
                words_growth(report_growth(before, after)));
        fprintf(to, "  %s\n", words_name(row->name));
    }
}

void code_change_print(const struct code_change *change, FILE *to)
{
    if (change->code == NULL) return;
    for (unsigned i = 0; i < BY_CODE_NUMBERS; i++)
        if (by_code_numbers[i].words != NULL) print_number(change, i, to);
}

json_t *code_change_json(const struct code_change *change)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < change->count; i++) {
        const struct code_change_row *row = &change->rows[i];
        json_t *one = json_object();
        json_put_text(one, "name", row->name);
        for (unsigned k = 0; k < BY_CODE_NUMBERS; k++) {
            json_t *pair = json_put_object(one, by_code_numbers[k].key);
            json_object_set_new(pair, "before", json_whole(roundl(row->before[k])));
            json_object_set_new(pair, "after", json_whole(roundl(row->after[k])));
            json_object_set_new(pair, "difference",
                                json_whole(roundl(row->after[k] - row->before[k])));
            json_put_real(pair, "per_cent", report_growth(row->before[k], row->after[k]));
        }
        json_array_append_new(rows, one);
    }
    return rows;
}
