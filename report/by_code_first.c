#include "report/by_code_first.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/by_code_place.h"
#include "report/table.h"
#include "report/words.h"

enum { FIRST_ROWS = 10, FIRST_OF_EACH = 6 };
#define FIRST_SHARE 0.02 /* what has less of a number does not stand out */

struct first_number {
    const struct by_code_number *number;
    const char *key; /* in JSON */
};

/* In this order: what stays, what is copied as it grows, what is made for nothing, what is large. */
static const struct first_number first_numbers[] = {
    {&by_code_numbers[BY_CODE_END], "end_bytes"},
    {&by_code_numbers[BY_CODE_GROWN], "grown_bytes"},
    {&by_code_numbers[BY_CODE_SHORT_LIVED], "short_lived"},
    {&by_code_numbers[0], "bytes"}};
enum { FIRST_NUMBERS = sizeof first_numbers / sizeof *first_numbers };

struct standing_out {
    uint32_t row;
    const struct by_code_number *number;
    const char *key;
};

struct choosing {
    const struct by_code *code;
    struct by_code_order orders[FIRST_NUMBERS];
    struct standing_out found[FIRST_ROWS];
    unsigned count;
};

static bool stands_out(const struct choosing *choosing, uint32_t row,
                       const struct by_code_number *number)
{
    const struct by_code *code = choosing->code;
    const double all = by_code_sum_of(&code->all, number)->value;
    const struct code_frame *frame = &code->groups.groups[row].frame;
    if (by_code_itself(code, row, number) < FIRST_SHARE * all) return false;
    if (frame->code == 0 && frame->function == 0) return false; /* has no stack */
    if (number->measure == STACK_AT_END && code->suppressed[row]) return false;
    for (unsigned i = 0; i < choosing->count; i++)
        if (choosing->found[i].row == row) return false;
    return true;
}

/* Takes the row of a number that comes `at` in its table. */
static void take_one(struct choosing *choosing, unsigned number, size_t at)
{
    const struct by_code_order *order = &choosing->orders[number];
    if (at >= order->count || choosing->count == FIRST_ROWS ||
        !stands_out(choosing, order->rows[at], first_numbers[number].number))
        return;
    choosing->found[choosing->count++] = (struct standing_out){
        order->rows[at], first_numbers[number].number, first_numbers[number].key};
}

static void choose_first(struct choosing *choosing, const struct by_code *code)
{
    bool good = true;
    *choosing = (struct choosing){.code = code};
    for (unsigned i = 0; good && i < FIRST_NUMBERS; i++) {
        choosing->orders[i] =
            (struct by_code_order){.code = code, .number = first_numbers[i].number};
        good = by_code_order_rows(&choosing->orders[i]);
    }
    for (size_t at = 0; good && at < FIRST_OF_EACH; at++)
        for (unsigned i = 0; i < FIRST_NUMBERS; i++)
            take_one(choosing, i, at);
    for (unsigned i = 0; i < FIRST_NUMBERS; i++)
        free(choosing->orders[i].rows);
}

static void print_found(const struct by_code *code, const struct standing_out *one, FILE *to)
{
    const double value = by_code_itself(code, one->row, one->number);
    const uint64_t whole = (uint64_t)llround(value);
    fprintf(to, "  %12s %8s  %-25s %s",
            one->number->is_bytes ? words_bytes(whole) : words_count(whole),
            words_number(UNIT_SHARE, value / by_code_sum_of(&code->all, one->number)->value),
            one->number->words, words_name(by_code_name(code, one->row)));
    by_code_print_place(code, one->row, one->number, to);
    fputc('\n', to);
}

void by_code_print_first(const struct by_code *code, FILE *to)
{
    struct choosing choosing;
    choose_first(&choosing, code);
    if (choosing.count > 0) fprintf(to, "\n%s to look at first\n", by_code_rows(code));
    for (unsigned i = 0; i < choosing.count; i++)
        print_found(code, &choosing.found[i], to);
}

static bool first_row(const void *of, size_t at, struct table_row *row)
{
    static char place[PATH_MAX + 64];
    const struct choosing *choosing = of;
    const struct by_code *code = choosing->code;
    const bool there = at < choosing->count;
    const struct standing_out *one = there ? &choosing->found[at] : NULL;
    place[0] = '\0';
    FILE *to = there ? fmemopen(place, sizeof place, "w") : NULL;
    if (to != NULL) {
        by_code_print_whole_place(code, one->row, one->number, true, to);
        fclose(to);
    }
    const struct cell cells[] = {
        {"name", .text = there ? by_code_name(code, one->row) : ""},
        {"number", .text = there ? one->key : ""},
        {"value", .value = there ? round(by_code_itself(code, one->row, one->number)) : 0},
        {"where", .text = place}};
    TABLE_ROW(row, cells);
    return there;
}

void by_code_put_first(json_t *object, const struct by_code *code)
{
    struct choosing choosing;
    choose_first(&choosing, code);
    table_put(object, "first",
              &(struct table){first_row, &choosing, .rows = choosing.count, .order = NULL});
}
