#include "report/owners_change.h"

#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "report/owners_output.h"
#include "report/report_numbers.h"
#include "report/words.h"

enum { OWNERS_CHANGES_SHOWN = 10 };

/* ---- finding ---- */

static int owners_change_by_owner(const void *one, const void *other)
{
    const struct owners_change_row *a = one, *b = other;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return strcmp(a->name, b->name);
}

static uint64_t owners_change_size(const uint64_t pair[2])
{
    return pair[0] < pair[1] ? pair[1] - pair[0] : pair[0] - pair[1];
}

/* The greatest changes at the peak come first, of equal ones those at the end. */
static int owners_change_by_size(const void *one, const void *other)
{
    const struct owners_change_row *a = one, *b = other;
    const uint64_t peak = owners_change_size(a->peak), other_peak = owners_change_size(b->peak);
    const uint64_t end = owners_change_size(a->end), other_end = owners_change_size(b->end);
    if (peak != other_peak) return peak < other_peak ? 1 : -1;
    if (end != other_end) return end < other_end ? 1 : -1;
    return owners_change_by_owner(one, other);
}

static size_t owners_change_take(struct owners_change_row *rows, const struct owners *owners,
                                 unsigned which)
{
    for (size_t i = 0; i < owners->rows_count; i++) {
        const struct owners_row *row = &owners->rows[i];
        rows[i] = (struct owners_change_row){.kind = row->kind, .name = row->name};
        rows[i].peak[which] = row->at_peak.resident;
        rows[i].end[which] = row->at_end.resident;
    }
    return owners->rows_count;
}

static size_t owners_change_join(struct owners_change_row *rows, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && owners_change_by_owner(&rows[kept - 1], &rows[i]) == 0) {
            for (unsigned which = 0; which < 2; which++) {
                rows[kept - 1].peak[which] += rows[i].peak[which];
                rows[kept - 1].end[which] += rows[i].end[which];
            }
        } else {
            rows[kept++] = rows[i];
        }
    }
    return kept;
}

bool owners_change_open(struct owners_change *change, const struct owners *before,
                        const struct owners *after)
{
    *change = (struct owners_change){.is_known = before->is_known && after->is_known};
    if (!change->is_known) return true;
    change->rows = calloc(before->rows_count + after->rows_count + 1, sizeof *change->rows);
    if (change->rows == NULL) return false;
    size_t count = owners_change_take(change->rows, before, 0);
    count += owners_change_take(change->rows + count, after, 1);
    qsort(change->rows, count, sizeof *change->rows, owners_change_by_owner);
    change->count = owners_change_join(change->rows, count);
    qsort(change->rows, change->count, sizeof *change->rows, owners_change_by_size);
    change->peak[0] = before->looks[before->peak].resident;
    change->peak[1] = after->looks[after->peak].resident;
    return true;
}

void owners_change_close(struct owners_change *change)
{
    free(change->rows);
    change->rows = NULL;
}

/* ---- output ---- */

static void owners_change_print_row(const uint64_t pair[2], const char *words, FILE *to)
{
    const long double before = pair[0], after = pair[1];
    fprintf(to, "  %37s %14s %16s %10s", words_number(UNIT_BYTES, before),
            words_number(UNIT_BYTES, after), words_signed(UNIT_BYTES, after - before),
            words_growth(report_growth(before, after)));
    fprintf(to, "  %s\n", printable_text(words));
}

void owners_change_print(const struct owners_change *change, FILE *to)
{
    if (!change->is_known) return;
    fprintf(to, "\n%-32s %6s %14s %16s\n", "who has RSS, at the peak", "before", "after",
            "difference");
    for (size_t i = 0; i < change->count && i < OWNERS_CHANGES_SHOWN; i++) {
        const struct owners_change_row *row = &change->rows[i];
        const struct owners_row as_row = {.kind = row->kind, .name = row->name};
        if (owners_change_size(row->peak) == 0) break;
        owners_change_print_row(row->peak, owners_words(NULL, &as_row), to);
    }
    owners_change_print_row(change->peak, "= RSS", to);
}

static void owners_change_put(json_t *object, const char *key, const uint64_t pair[2])
{
    json_t *to = json_put_object(object, key);
    const long double before = pair[0], after = pair[1];
    json_put_numbers(to, "before after", pair[0], pair[1]);
    json_object_set_new(to, "difference", json_whole(after - before));
    json_put_real(to, "per_cent", report_growth(before, after));
}

json_t *owners_change_json(const struct owners_change *change)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < change->count; i++) {
        const struct owners_change_row *row = &change->rows[i];
        const struct owners_row as_row = {.kind = row->kind, .name = row->name};
        json_t *one = json_object();
        json_put_text(one, "owner", *row->name != '\0' ? row->name : owners_words(NULL, &as_row));
        json_put_text(one, "kind", owners_kinds[row->kind]);
        owners_change_put(one, "peak", row->peak);
        owners_change_put(one, "end", row->end);
        json_array_append_new(rows, one);
    }
    return rows;
}
