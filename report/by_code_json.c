#include "report/by_code_json.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "common/json_file.h"
#include "report/by_code_cells.h"
#include "report/by_code_first.h"
#include "report/by_code_place.h"
#include "report/by_code_tree.h"

enum { ROWS_IN_JSON = 5000, LEAKS_IN_JSON = 64 };

/* Half the confidence interval of a sum; NAN, which becomes null, if it is exact. */
static double margin(const struct by_code *code, const struct stack_sum *sum)
{
    return stack_tally_is_sampled(&code->tally) ? ceil(stack_sum_margin(sum)) : NAN;
}

/* Two cells: the name of a row, or null, and a share. */
#define FREER(key, share_key, of)                                                       \
    {(key), .value = NAN,                                                               \
     .text = (of).row != CODE_GROUP_NONE ? by_code_name(code, (of).row) : NULL},        \
    {                                                                                   \
        (share_key), (of).row != CODE_GROUP_NONE ? (of).share : NAN, .unit = UNIT_TIMES \
    }

static bool code_row(const void *of, size_t at, struct table_row *row)
{
    static const struct stack_sums none;
    static const struct code_frame nowhere;
    const struct by_code *code = of;
    const bool there = at < code->groups.count;
    const struct stack_sums *self = there ? &code->self[at] : &none;
    const struct stack_sums *total = there ? &code->total[at] : &none;
    const struct by_code_place most =
        by_code_place_of(code, there ? (uint32_t)at : 0, &by_code_numbers[0]);
    const struct code_frame *place = there && most.most != NULL ? most.most : &nowhere;
    const struct by_code_freed *freed = &code->freed[there ? at : code->groups.count];
    const struct cell cells[] = {
        {"name", .text = there ? by_code_name(code, (uint32_t)at) : ""},
        {"file", .text = code_names_text(&code->names, place->file)},
        {"line", .value = place->line},
        {"module", .text = code_names_text(&code->names, place->module)},
        BY_CODE_CELLS(self),
        {"made_margin", .value = margin(code, &self->objects[STACK_MADE])},
        {"bytes_margin", .value = margin(code, &self->bytes[STACK_MADE])},
        {"peak_margin", .value = margin(code, &self->bytes[STACK_AT_PEAK])},
        {"end_margin", .value = margin(code, &self->bytes[STACK_AT_END])},
        {"oldest_call", .value = there ? code->oldest[at] : 0},
        FREER("short_lived_freed_by", "short_lived_freed_share", freed->short_lived),
        FREER("remote_freed_by", "remote_freed_share", freed->remote),
        {"freed_margin", .value = stack_tally_frees_are_sampled(&code->tally)
                                      ? ceil(stack_sum_margin(&self->objects[STACK_FREED]))
                                      : NAN},
        {"total_made", .value = round(total->objects[STACK_MADE].value)},
        {"total_bytes", .value = round(total->bytes[STACK_MADE].value)},
        {"total_peak_bytes", .value = round(total->bytes[STACK_AT_PEAK].value)},
        {"total_end_bytes", .value = round(total->bytes[STACK_AT_END].value)},
        {"total_mapped", .value = round(total->bytes[STACK_MAPPED].value)},
    };
    TABLE_ROW(row, cells);
    return there;
}

/* Where most of each number of a row is made: the same order as code_row(). */
static bool where_row(const void *of, size_t at, struct table_row *row)
{
    static const char *const keys[BY_CODE_NUMBERS] = {
        "bytes",       "made",         "peak_bytes", "end_bytes",    "end_objects", "short_lived",
        "grown_bytes", "remote_frees", "freed",      "freed_remote", "mapped"};
    static char texts[BY_CODE_NUMBERS][PATH_MAX + 64];
    const struct by_code *code = of;
    row->count = BY_CODE_NUMBERS;
    for (unsigned i = 0; i < BY_CODE_NUMBERS; i++) {
        texts[i][0] = '\0';
        const bool there = at < code->groups.count &&
                           by_code_itself(code, (uint32_t)at, &by_code_numbers[i]) >= 0.5;
        FILE *to = there ? fmemopen(texts[i], sizeof texts[i], "w") : NULL;
        if (to != NULL) {
            by_code_print_whole_place(code, (uint32_t)at, &by_code_numbers[i], true, to);
            fclose(to);
        }
        row->cells[i] = (struct cell){keys[i], .text = texts[i]};
    }
    return at < code->groups.count;
}

static bool leak_row(const void *of, size_t at, struct table_row *row)
{
    static const struct stack_sums none;
    static char place[PATH_MAX + 64];
    const struct by_code *code = of;
    const bool there = at < code->groups.count;
    const struct stack_sums *self = there ? &code->self[at] : &none;
    place[0] = '\0';
    FILE *to = there ? fmemopen(place, sizeof place, "w") : NULL;
    if (to != NULL) {
        by_code_print_whole_place(code, (uint32_t)at, &by_code_numbers[BY_CODE_END], true, to);
        fclose(to);
    }
    const struct cell cells[] = {{"name", .text = there ? by_code_name(code, (uint32_t)at) : ""},
                                 {"where", .text = place},
                                 {"made", .value = there ? round(by_code_leaks_of(code, (uint32_t)at)) : 0},
                                 {"end_objects", .value = round(self->objects[STACK_AT_END].value)},
                                 {"end_bytes", .value = round(self->bytes[STACK_AT_END].value)}};
    TABLE_ROW(row, cells);
    return there;
}

static bool all_row(const void *of, size_t at, struct table_row *row)
{
    const struct by_code *code = of;
    const struct cell cells[] = {BY_CODE_CELLS(&code->all)};
    TABLE_ROW(row, cells);
    return at == 0;
}

static void put_range(json_t *object, const struct by_code_options *options)
{
    if (!options->has_range) {
        json_object_set_new(object, "range", json_null());
        return;
    }
    json_t *range = json_put_object(object, "range");
    json_put_number(range, "from_ns", options->from_ns);
    if (options->to_ns == UINT64_MAX)
        json_object_set_new(range, "to_ns", json_null());
    else
        json_put_number(range, "to_ns", options->to_ns);
}

json_t *by_code_json(const struct by_code *code)
{
    json_t *object = json_object();
    struct by_code_order order = {.code = code, .number = &by_code_numbers[1], .is_all = true};
    if (code->tally.chance.bytes > 0)
        json_put_number(object, "sample_bytes", code->tally.chance.bytes);
    else
        json_object_set_new(object, "sample_bytes", json_null());
    json_put_text(object, "by", by_code_kinds[code->groups.by]);
    json_put_text(object, "focus", code->options->focus);
    json_put_text(object, "ignore", code->options->ignore);
    put_range(object, code->options);
    json_t *suppressed = json_put_object(object, "suppressed");
    json_put_number(suppressed, "objects",
                    (uint64_t)llround(code->suppressions.objects[STACK_AT_END].value));
    json_put_number(suppressed, "bytes",
                    (uint64_t)llround(code->suppressions.bytes[STACK_AT_END].value));
    json_put_text(object, "sort", by_code_sorts_total(code) ? "total" : "own");
    json_object_set_new(object, "all", table_row_json(all_row, code, 0));
    if (by_code_order_rows(&order)) {
        const size_t count = order.count < ROWS_IN_JSON ? order.count : ROWS_IN_JSON;
        table_put(object, "rows", &(struct table){code_row, code, count, .order = order.rows});
        table_put(object, "where", &(struct table){where_row, code, count, .order = order.rows});
        by_code_tree_put(object, code, order.rows, count);
    }
    free(order.rows);
    uint32_t leaks[LEAKS_IN_JSON];
    const unsigned leaking = by_code_leaks(code, leaks, LEAKS_IN_JSON);
    by_code_put_first(object, code);
    table_put(object, "may_leak", &(struct table){leak_row, code, leaking, .order = leaks});
    return object;
}
