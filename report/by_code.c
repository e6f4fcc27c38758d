#include "report/by_code.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"
#include "report/words.h"

#define NO_SAMPLE "(no sample)"

const struct by_code_number by_code_numbers[BY_CODE_NUMBERS] = {
    {"bytes", "by bytes asked for", STACK_MADE, true},
    {"objects", "by objects made", STACK_MADE, false},
    {"peak_live", "alive at the peak", STACK_AT_PEAK, true},
    {"end_live", "alive at the end", STACK_AT_END, true},
    {"end_objects", NULL, STACK_AT_END, false},
    {"short_lived", "gone within 100 calls", STACK_SHORT_LIVED, false},
    {"grown", "grown by realloc or copy", STACK_GROWN, true},
    {"remote_frees", "ended by another thread", STACK_REMOTE, false},
    {"freed", "that free", STACK_FREED, false},
    {"freed_remote", "that free remote objects", STACK_FREED_REMOTE, false},
    {"mapped", "resident, mapped", STACK_MAPPED, true},
};
_Static_assert(STACK_SHORT_CALLS == 100, "the words say so");

const char *const by_code_kinds[] = {[CODE_BY_FUNCTION] = "function",
                                     [CODE_BY_LINE] = "line",
                                     [CODE_BY_FILE] = "file",
                                     [CODE_BY_MODULE] = "module",
                                     [CODE_BY_STACK] = "stack"};

void by_code_add(struct stack_sums *to, const struct stack_sums *one)
{
    for (unsigned i = 0; i < STACK_MEASURES; i++) {
        to->objects[i].value += one->objects[i].value;
        to->bytes[i].value += one->bytes[i].value;
    }
}

void by_code_close(struct by_code *code)
{
    stack_tally_close(&code->tally);
    stack_scales_free(&code->scales);
    code_names_close(&code->names);
    code_groups_free(&code->groups);
    stacks_free(&code->stacks);
    free(code->self);
    free(code->total);
    code_groups_free(&code->lines);
    free(code->in_lines);
    free(code->lines_of);
    free(code->next_line);
    free(code->oldest);
    free(code->ages);
    free(code->freed);
    free(code->suppressed);
    free(code->span_of);
    free(code->span_with);
    *code = (struct by_code){.is_known = false};
}

/* ---- one row ---- */

const char *by_code_name(const struct by_code *code, uint32_t row)
{
    const struct code_group *group = &code->groups.groups[row];
    const struct code_names *names = &code->names;
    if (group->frame.code == 0 && group->frame.function == 0)
        return stack_tally_is_sampled(&code->tally) ? NO_SAMPLE : BY_CODE_NO_STACK;
    switch (code->groups.by) {
    case CODE_BY_FILE:
        return code_names_text(names,
                               group->frame.file != 0 ? group->frame.file : group->frame.module);
    case CODE_BY_MODULE: return code_names_text(names, group->frame.module);
    default: return code_names_text(names, group->frame.function);
    }
}

const char *by_code_rows(const struct by_code *code)
{
    static const char *const names[] = {[CODE_BY_FUNCTION] = "functions",
                                        [CODE_BY_LINE] = "lines",
                                        [CODE_BY_FILE] = "files",
                                        [CODE_BY_MODULE] = "modules",
                                        [CODE_BY_STACK] = "call stacks"};
    return names[code->groups.by];
}

const struct stack_sum *by_code_sum_of(const struct stack_sums *sums,
                                       const struct by_code_number *number)
{
    return (number->is_bytes ? sums->bytes : sums->objects) + number->measure;
}

double by_code_value(const struct by_code *code, uint32_t row, const struct by_code_number *number)
{
    return row != CODE_GROUP_NONE ? by_code_sum_of(&code->total[row], number)->value : 0;
}

double by_code_itself(const struct by_code *code, uint32_t row, const struct by_code_number *number)
{
    return by_code_sum_of(&code->self[row], number)->value;
}

uint32_t by_code_find(const struct by_code *code, const char *name, size_t bytes)
{
    uint32_t found = CODE_GROUP_NONE;
    for (uint32_t i = 0; i < code->groups.count; i++) {
        const char *one = by_code_name(code, i);
        const size_t length = strlen(one);
        if (length < bytes || memcmp(one + length - bytes, name, bytes) != 0) continue;
        if (length == bytes) return i;
        const bool has_dots = code->groups.groups[i].frame.language != 0;
        if (strchr(has_dots ? ":/." : ":/", one[length - bytes - 1]) != NULL) found = i;
    }
    return found;
}

uint32_t *by_code_rows_of(const struct by_code *code, const struct stack_tally *tally)
{
    uint32_t *rows = calloc(tally->live + 1, sizeof *rows);
    for (uint64_t i = 0; rows != NULL && i < tally->live; i++) {
        const uint32_t stack =
            stack_cells_number_of(&code->tally.cells, stack_tally_node(tally, i));
        rows[i] = stack != 0 || stack_tally_node(tally, i) == 0
                      ? code_groups_itself(&code->groups, stack)
                      : CODE_GROUP_NONE;
    }
    return rows;
}

bool by_code_is_sampled(const struct by_code *code, const struct by_code_number *number)
{
    if (number->measure == STACK_MAPPED) return false;
    return number->measure < STACK_FREED ? stack_tally_is_sampled(&code->tally)
                                         : stack_tally_frees_are_sampled(&code->tally);
}

/* ---- what may leak ---- */

enum { LEAK_OBJECTS_LEAST = 16 };

static bool has_name(const struct by_code *code, uint32_t row)
{
    const struct code_frame *frame = &code->groups.groups[row].frame;
    return frame->code != 0 || frame->function != 0;
}

static bool may_leak(const struct by_code *code, uint32_t row)
{
    const struct stack_ages *ages = &code->ages[row];
    return code->suppressed[row] == 0 && stack_ages_all(ages) >= LEAK_OBJECTS_LEAST &&
           has_name(code, row) && stack_ages_are_spread(ages);
}

unsigned by_code_leaks(const struct by_code *code, uint32_t *rows, unsigned most)
{
    uint64_t *bytes = calloc(code->groups.count + 1, sizeof *bytes);
    if (bytes == NULL) return 0;
    for (uint32_t i = 0; i < code->groups.count; i++)
        if (may_leak(code, i)) bytes[i] = (uint64_t)code->self[i].bytes[STACK_AT_END].value;
    const unsigned found =
        report_top(bytes, (uint32_t)code->groups.count, sizeof *bytes, rows, most);
    free(bytes);
    return found;
}

unsigned by_code_leaks_need(const struct by_code *code)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < code->groups.count; i++) {
        const uint64_t all = stack_ages_all(&code->ages[i]);
        if (code->suppressed[i] == 0 && has_name(code, i) && all > most) most = all;
    }
    const bool is_few = most > 0 && most < LEAK_OBJECTS_LEAST;
    return is_few && stack_tally_is_sampled(&code->tally) ? LEAK_OBJECTS_LEAST : 0;
}

const char *by_code_leaks_when(const struct by_code *code)
{
    return code->tally.ages_by_time ? "quarter of the time since recording began"
                                    : "quarter of the calls";
}

double by_code_leaks_of(const struct by_code *code, uint32_t row)
{
    const struct stack_sum *objects = code->self[row].objects;
    return fmax(objects[STACK_MADE].value, objects[STACK_AT_END].value);
}

/* ---- in order ---- */

static int by_value(const void *one, const void *other, void *of)
{
    const struct by_code_order *order = of;
    const struct stack_sums *by[] = {order->code->total, order->code->self};
    for (unsigned i = !by_code_sorts_total(order->code); i < 2; i++) {
        const double a = by_code_sum_of(&by[i][*(const uint32_t *)one], order->number)->value;
        const double b = by_code_sum_of(&by[i][*(const uint32_t *)other], order->number)->value;
        if (a != b) return a > b ? -1 : 1;
    }
    return strcmp(by_code_name(order->code, *(const uint32_t *)one),
                  by_code_name(order->code, *(const uint32_t *)other));
}

bool by_code_order_rows(struct by_code_order *order)
{
    const struct by_code *code = order->code;
    order->rows = calloc(code->groups.count + 1, sizeof *order->rows);
    if (order->rows == NULL) return false;
    for (uint32_t i = 0; i < code->groups.count; i++)
        if (by_code_sum_of(&code->self[i], order->number)->value >= 0.5 ||
            ((order->is_all || by_code_sorts_total(code)) &&
             by_code_sum_of(&code->total[i], order->number)->value >= 0.5) ||
            (order->is_all && (code->self[i].objects[STACK_FREED].value >= 0.5 ||
                               code->total[i].objects[STACK_MAPPED].value >= 0.5)))
            order->rows[order->count++] = i;
    qsort_r(order->rows, order->count, sizeof *order->rows, by_value, order);
    return true;
}
