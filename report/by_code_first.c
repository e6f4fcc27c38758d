#include "report/by_code_first.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/by_code_place.h"
#include "report/table.h"
#include "report/words.h"

enum { FIRST_ROWS = 10, FIRST_OF_EACH = 6, FIRST_CALLERS = 3 };
#define FIRST_SHARE 0.02 /* what has less of a number does not stand out */
#define FIRST_PART  0.1  /* of mappings: of these and what was alive at the peak, together */

struct first_number {
    const struct by_code_number *number;
    const char *key; /* in JSON */
};

/* In this order: what is mapped, what stays, what stayed until then in a program that tidies up, what
 * is copied as it grows, what is made for nothing, what is large. */
static const struct first_number first_numbers[] = {
    {&by_code_numbers[BY_CODE_MAPPED], "mapped"},
    {&by_code_numbers[BY_CODE_END], "end_bytes"},
    {&by_code_numbers[BY_CODE_PEAK], "peak_bytes"},
    {&by_code_numbers[BY_CODE_GROWN], "grown_bytes"},
    {&by_code_numbers[BY_CODE_SHORT_LIVED], "short_lived"},
    {&by_code_numbers[0], "bytes"}};
enum { FIRST_END = 1, FIRST_NUMBERS = sizeof first_numbers / sizeof *first_numbers };

/* A stack that counts for the function that called a library, which has no source here. */
struct for_caller {
    uint32_t stack, row, frame; /* row CODE_GROUP_NONE: it counts for itself */
};

struct standing_out {
    uint32_t row;
    unsigned number;
};

struct choosing {
    const struct by_code *code;
    struct for_caller *callers;    /* by stack; NULL: each counts for itself */
    double *values[FIRST_NUMBERS]; /* by row */
    uint32_t *order;               /* rows, by a number */
    struct standing_out found[FIRST_ROWS];
    unsigned count;
};

/* ---- numbers ---- */

static bool has_sources(const struct by_code *code)
{
    for (size_t i = CODE_FRAME_FIRST; i < code->names.count; i++)
        if (code->names.frames[i].file != 0) return code->groups.by < CODE_BY_STACK;
    return false;
}

/* False: no memory. */
static bool find_callers(struct choosing *choosing)
{
    const struct by_code *code = choosing->code;
    uint32_t at[CODE_FRAMES_MAX];
    if (!has_sources(code)) return true;
    choosing->callers = calloc(code->tally.stacks_count + 1, sizeof *choosing->callers);
    for (uint32_t i = 0; choosing->callers != NULL && i < code->tally.stacks_count; i++) {
        struct for_caller *one = &choosing->callers[i];
        *one = (struct for_caller){.row = CODE_GROUP_NONE};
        const uint32_t self = code_groups_itself(&code->groups, i);
        const unsigned count =
            self != CODE_GROUP_NONE ? code_names_walk(&code->names, code->tally.stacks[i], at) : 0;
        if (count == 0) continue;
        one->frame = at[code_groups_with_source(&code->names, at, count)];
        const uint32_t row = code_groups_of_frame(&code->groups, one->frame);
        if (row != self && !code->suppressed[self]) one->row = row;
    }
    return choosing->callers != NULL;
}

/* What a cell has of a number; 0: nothing. */
static double cell_value(const struct by_code *code, const struct stack_cell *cell, unsigned number)
{
    const struct by_code_number *of = first_numbers[number].number;
    double objects, bytes;
    if (!stack_cell_value(&code->scales, cell, of->measure, &objects, &bytes)) return 0;
    return of->is_bytes ? bytes : objects;
}

/* False: no memory. */
static bool take_values(struct choosing *choosing)
{
    const struct by_code *code = choosing->code;
    const size_t count = code->groups.count;
    choosing->order = calloc(count + 1, sizeof *choosing->order);
    bool good = choosing->order != NULL;
    for (unsigned k = 0; good && k < FIRST_NUMBERS; k++) {
        choosing->values[k] = calloc(count + 1, sizeof *choosing->values[k]);
        good = choosing->values[k] != NULL;
        for (uint32_t i = 0; good && i < count; i++)
            choosing->values[k][i] = by_code_itself(code, i, first_numbers[k].number);
    }
    for (size_t i = 0; good && choosing->callers != NULL && i < code->tally.cells.count; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        const uint32_t row = choosing->callers[cell->stack].row;
        for (unsigned k = 0; row != CODE_GROUP_NONE && k < FIRST_NUMBERS; k++) {
            const double value = cell_value(code, cell, k);
            choosing->values[k][row] += value;
            choosing->values[k][code_groups_itself(&code->groups, cell->stack)] -= value;
        }
    }
    return good;
}

/* ---- the rows ---- */

/* Whether most of what was alive at the peak has ended: what is alive at the end does not say what
 * grew. */
static bool frees_its_peak(const struct by_code *code)
{
    return code->all.bytes[STACK_AT_END].value < 0.5 * code->all.bytes[STACK_AT_PEAK].value;
}

static bool is_much(const struct choosing *choosing, uint32_t row, unsigned number, double value)
{
    const struct by_code *code = choosing->code;
    const struct by_code_number *of = first_numbers[number].number;
    if (of->measure == STACK_AT_END && code->suppressed[row]) return false;
    if (of->measure == STACK_AT_PEAK &&
        (!frees_its_peak(code) ||
         is_much(choosing, row, FIRST_END, choosing->values[FIRST_END][row])))
        return false;
    if (of->measure == STACK_MAPPED)
        return value >= 0.5 && value >= FIRST_PART * (code->all.bytes[STACK_MAPPED].value +
                                                      code->all.bytes[STACK_AT_PEAK].value);
    return value >= 0.5 && value >= FIRST_SHARE * by_code_sum_of(&code->all, of)->value;
}

/* Whether a row itself, without libraries, has much of a number. */
static bool has_much(const struct choosing *choosing, uint32_t row, unsigned number)
{
    const struct by_code_number *of = first_numbers[number].number;
    return is_much(choosing, row, number, by_code_itself(choosing->code, row, of));
}

/* A row that has much only by libraries stands out by what it has itself, if there is such. */
static bool stands_out(const struct choosing *choosing, uint32_t row, unsigned number)
{
    const struct code_frame *frame = &choosing->code->groups.groups[row].frame;
    if (!is_much(choosing, row, number, choosing->values[number][row])) return false;
    if (frame->code == 0 && frame->function == 0) return false; /* has no stack */
    for (unsigned i = 0; i < choosing->count; i++)
        if (choosing->found[i].row == row) return false;
    for (unsigned i = 0; i < FIRST_NUMBERS && !has_much(choosing, row, number); i++)
        if (has_much(choosing, row, i)) return false;
    return true;
}

struct first_order {
    const struct by_code *code;
    const double *values;
};

static int by_first_value(const void *one, const void *other, void *of)
{
    const struct first_order *order = of;
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    if (order->values[a] != order->values[b]) return order->values[a] > order->values[b] ? -1 : 1;
    return strcmp(by_code_name(order->code, a), by_code_name(order->code, b));
}

/* The rows that may be shown of a number, those with most first. */
static void take_most_of(struct choosing *choosing, unsigned number, uint32_t most[FIRST_OF_EACH])
{
    const struct by_code *code = choosing->code;
    struct first_order order = {code, choosing->values[number]};
    size_t count = 0;
    for (uint32_t i = 0; i < code->groups.count; i++)
        if (stands_out(choosing, i, number)) choosing->order[count++] = i;
    if (count > 1) qsort_r(choosing->order, count, sizeof *choosing->order, by_first_value, &order);
    for (size_t i = 0; i < FIRST_OF_EACH; i++)
        most[i] = i < count ? choosing->order[i] : CODE_GROUP_NONE;
}

/* False: no memory. */
static bool choose_first(struct choosing *choosing, const struct by_code *code)
{
    uint32_t most[FIRST_NUMBERS][FIRST_OF_EACH];
    *choosing = (struct choosing){.code = code};
    if (!find_callers(choosing) || !take_values(choosing)) return false;
    for (unsigned i = 0; i < FIRST_NUMBERS; i++)
        take_most_of(choosing, i, most[i]);
    for (size_t at = 0; at < FIRST_OF_EACH; at++)
        for (unsigned i = 0; i < FIRST_NUMBERS; i++)
            if (most[i][at] != CODE_GROUP_NONE && choosing->count < FIRST_ROWS &&
                stands_out(choosing, most[i][at], i))
                choosing->found[choosing->count++] = (struct standing_out){most[i][at], i};
    return true;
}

static void choosing_free(struct choosing *choosing)
{
    free(choosing->callers);
    free(choosing->order);
    for (unsigned i = 0; i < FIRST_NUMBERS; i++)
        free(choosing->values[i]);
}

/* ---- where they are ---- */

/* A line of a row, and what it has of a number. */
struct first_line {
    const struct code_frame *frame;
    double value;
};

enum { FIRST_LINES = 256 }; /* of a row; others are not counted */

static unsigned first_line_add(struct first_line *lines, unsigned count,
                               const struct code_frame *frame, double value)
{
    unsigned i = 0;
    while (i < count &&
           (lines[i].frame->line != frame->line || lines[i].frame->file != frame->file))
        i++;
    if (i == count && count < FIRST_LINES) lines[count++] = (struct first_line){.frame = frame};
    if (i < FIRST_LINES) lines[i].value += value;
    return count;
}

/* Where a row makes most of a number, by libraries included. */
static struct by_code_place first_place(const struct choosing *choosing,
                                        const struct standing_out *one)
{
    const struct by_code *code = choosing->code;
    const struct by_code_number *number = first_numbers[one->number].number;
    struct by_code_place place = by_code_place_of(code, one->row, number);
    struct first_line lines[FIRST_LINES];
    unsigned count = 0, calls = 0;
    if (choosing->callers == NULL || code->groups.by != CODE_BY_FUNCTION) return place;
    for (size_t i = 0; i < code->tally.cells.count; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        const struct for_caller *caller = &choosing->callers[cell->stack];
        const bool is_called = caller->row == one->row;
        const double value =
            is_called || (caller->row == CODE_GROUP_NONE &&
                          code_groups_itself(&code->groups, cell->stack) == one->row)
                ? cell_value(code, cell, one->number)
                : 0;
        if (value <= 0) continue;
        count = first_line_add(lines, count, &code->names.frames[caller->frame], value);
        calls += is_called;
    }
    if (calls == 0) return place;
    place = (struct by_code_place){lines[0].frame, count - 1};
    for (unsigned i = 1, most = 0; i < count; i++)
        if (lines[i].value > lines[most].value) place.most = lines[most = i].frame;
    return place;
}

/* The next callers of a call stack, which tell it from others. */
static void print_callers_of(const struct by_code *code, uint32_t row, FILE *to)
{
    static struct code_frame frames[CODE_FRAMES_MAX];
    const uint32_t stack = code->tally.stacks[code->groups.groups[row].stack];
    const unsigned count = code_names_of(&code->names, stack, frames);
    const unsigned first = count > 0 ? code_groups_own(frames, count) + 1 : 0;
    for (unsigned i = first; i < count && i < first + FIRST_CALLERS; i++)
        fprintf(to, " < %s", words_name(code_names_text(&code->names, frames[i].function)));
}

static void print_found(const struct choosing *choosing, const struct standing_out *one, FILE *to)
{
    const struct by_code *code = choosing->code;
    const struct by_code_number *number = first_numbers[one->number].number;
    const double value = choosing->values[one->number][one->row];
    const uint64_t whole = (uint64_t)llround(value);
    fprintf(to, "  %12s %8s  %-25s %s", number->is_bytes ? words_bytes(whole) : words_count(whole),
            words_number(UNIT_SHARE, value / by_code_sum_of(&code->all, number)->value),
            number->words, words_name(by_code_name(code, one->row)));
    const struct by_code_place place = first_place(choosing, one);
    if (by_code_has_place(code) && place.most != NULL) {
        fputs("  ", to);
        by_code_print_one_place(code, &place, false, to);
    }
    if (code->groups.by == CODE_BY_STACK) print_callers_of(code, one->row, to);
    fputc('\n', to);
}

/* Whether it is shown as FILE+0x1234. */
static bool has_number_for_name(const struct by_code *code, uint32_t row)
{
    const char *number =
        code->groups.by == CODE_BY_FUNCTION ? strrchr(by_code_name(code, row), '+') : NULL;
    return number != NULL && strncmp(number, "+0x", 3) == 0 &&
           number[3 + strspn(number + 3, "0123456789abcdef")] == '\0';
}

void by_code_print_first(const struct by_code *code, FILE *to)
{
    struct choosing choosing;
    unsigned nameless = 0;
    const bool good = choose_first(&choosing, code);
    if (good && choosing.count > 0) fprintf(to, "\n%s to look at first\n", by_code_rows(code));
    for (unsigned i = 0; good && i < choosing.count; i++) {
        print_found(&choosing, &choosing.found[i], to);
        nameless += has_number_for_name(code, choosing.found[i].row);
    }
    choosing_free(&choosing);
    if (nameless > 0)
        fputs("  FILE+0x...: has no name without debug information (a package, DEBUGINFOD_URLS)\n",
              to);
}

static bool first_row(const void *of, size_t at, struct table_row *row)
{
    static char text[PATH_MAX + 64];
    const struct choosing *choosing = of;
    const bool there = at < choosing->count;
    const struct standing_out *one = there ? &choosing->found[at] : NULL;
    text[0] = '\0';
    FILE *to = there ? fmemopen(text, sizeof text, "w") : NULL;
    if (to != NULL) {
        const struct by_code_place place = first_place(choosing, one);
        by_code_print_one_place(choosing->code, &place, true, to);
        fclose(to);
    }
    const struct cell cells[] = {
        {"name", .text = there ? by_code_name(choosing->code, one->row) : ""},
        {"number", .text = there ? first_numbers[one->number].key : ""},
        {"value", .value = there ? round(choosing->values[one->number][one->row]) : 0},
        {"where", .text = text}};
    TABLE_ROW(row, cells);
    return there;
}

void by_code_put_first(json_t *object, const struct by_code *code)
{
    struct choosing choosing;
    if (!choose_first(&choosing, code)) choosing.count = 0;
    table_put(object, "first",
              &(struct table){first_row, &choosing, .rows = choosing.count, .order = NULL});
    choosing_free(&choosing);
}
