#include "report/by_code_text.h"

#include <math.h>
#include <stdlib.h>

#include "common/printable.h"
#include "report/by_code_place.h"
#include "report/words.h"

enum { ROWS_SHOWN = 5, ROWS_SHOWN_IF_ASKED = 20, DEPTH_SHOWN = 8 };

static const char *value_text(const struct by_code_number *number, double value)
{
    return number->is_bytes ? words_bytes((uint64_t)llround(value))
                            : words_count((uint64_t)llround(value));
}

static void print_callers(const struct by_code *code, uint32_t row, FILE *to)
{
    static struct code_frame frames[CODE_FRAMES_MAX];
    const unsigned depth = code->options->depth > 0 ? code->options->depth : DEPTH_SHOWN;
    const uint32_t stack = code->tally.stacks[code->groups.groups[row].stack];
    const unsigned count = code_names_of(&code->names, stack, frames);
    if (count == 0) return;
    const unsigned own = code_groups_own(frames, count);
    for (unsigned i = own + 1; i < count && i < own + depth; i++) {
        fprintf(to, "%26s %s", "called by",
                words_name(code_names_text(&code->names, frames[i].function)));
        fputs("  ", to);
        by_code_print_frame(code, &frames[i], false, to);
        fputc('\n', to);
    }
    if (count > own + depth) fprintf(to, "%26s %u more\n", "and", count - own - depth);
}

static void print_freer(const struct by_code *code, const struct by_code_number *number,
                        uint32_t row, FILE *to)
{
    const struct by_code_freer *freer = number->measure == STACK_SHORT_LIVED
                                            ? &code->freed[row].short_lived
                                            : &code->freed[row].remote;
    if ((number->measure != STACK_SHORT_LIVED && number->measure != STACK_REMOTE) ||
        freer->row == CODE_GROUP_NONE)
        return;
    fprintf(to, ", %s freed by %s", words_number(UNIT_SHARE, freer->share),
            freer->row == row ? "itself" : words_name(by_code_name(code, freer->row)));
}

static void by_code_print_row(const struct by_code *code, const struct by_code_number *number,
                              uint32_t row, FILE *to)
{
    const struct stack_sum *self = by_code_sum_of(&code->self[row], number);
    const double all = by_code_sum_of(&code->all, number)->value;
    const enum code_by by = code->groups.by;
    fprintf(to, "  %12s %8s", value_text(number, self->value),
            words_number(UNIT_SHARE, self->value / all));
    if (by_code_is_sampled(code, number))
        fprintf(to, " +- %-9s", value_text(number, stack_sum_margin(self)));
    if (by < CODE_BY_STACK)
        fprintf(to, " %12s", value_text(number, by_code_sum_of(&code->total[row], number)->value));
    fprintf(to, "  %s", words_name(by_code_name(code, row)));
    by_code_print_place(code, row, number, to);
    if (number->measure == STACK_AT_END && code->oldest[row] != 0)
        fprintf(to, ", since call %s", words_count(code->oldest[row]));
    print_freer(code, number, row, to);
    fputc('\n', to);
    if (by == CODE_BY_STACK) print_callers(code, row, to);
}

static void print_rows(const struct by_code *code, const struct by_code_number *number, FILE *to)
{
    struct by_code_order order = {.code = code, .number = number};
    const size_t usual = code->options->is_by_given ? ROWS_SHOWN_IF_ASKED : ROWS_SHOWN;
    const size_t shown = code->options->top > 0 ? code->options->top : usual;
    if (by_code_sum_of(&code->all, number)->value < 0.5 || !by_code_order_rows(&order)) return;
    char title[80];
    snprintf(title, sizeof title, "%s, %s", by_code_rows(code), number->words);
    fprintf(to, code->groups.by < CODE_BY_STACK ? "\n%-36swith what it calls\n" : "\n%s\n", title);
    for (size_t i = 0; i < order.count && i < shown; i++)
        by_code_print_row(code, number, order.rows[i], to);
    free(order.rows);
}

static void by_code_print_notices(const struct by_code *code, FILE *to)
{
    const bool some_frees = stack_tally_frees_are_sampled(&code->tally);
    code_names_print_missing(&code->names, "! ", to);
    if (stacks_modules_ran_out(&code->stacks))
        fprintf(to,
                "! More files were loaded than can be numbered: for %s addresses the file is not "
                "known.\n",
                words_count(code->stacks.codes_of_none));
    if (stacks_nodes_ran_out(&code->stacks))
        fputs("! There were more stacks than can be numbered: calls with later ones have none.\n",
              to);
    if (stack_tally_is_sampled(&code->tally))
        fprintf(
            to,
            "Call stacks are sampled, one per %s allocated: numbers by code are estimates (+-: 95 %% "
            "interval).\n"
            "What grows by copying, as containers of C++ do, is seen with --stacks=all only.\n",
            words_bytes(code->tally.chance.bytes));
    else if (some_frees)
        fputs(
            "Call stacks of frees are sampled: what code frees is an estimate (+-: 95 % interval).\n",
            to);
    if (code->options->focus != NULL)
        fprintf(to, "Only call stacks that match %s.\n", printable_text(code->options->focus));
    if (code->options->ignore != NULL)
        fprintf(to, "Without call stacks that match %s.\n", printable_text(code->options->ignore));
}

void by_code_print(const struct by_code *code, bool grows, FILE *to)
{
    char *notices = NULL;
    size_t bytes = 0;
    FILE *room = code->is_known ? open_memstream(&notices, &bytes) : NULL;
    if (room == NULL) return;
    by_code_print_notices(code, room);
    fclose(room);
    if (bytes > 0) fprintf(to, "\n%s", notices);
    free(notices);
    uint32_t leak;
    grows = grows || by_code_leaks(code, &leak, 1) > 0;
    for (int first = grows; first >= 0; first--)
        for (unsigned i = 0; i < BY_CODE_NUMBERS; i++) {
            const struct by_code_number *number = &by_code_numbers[i];
            const bool is_first = grows && number->measure == STACK_AT_END;
            if (number->words != NULL && is_first == first) print_rows(code, number, to);
        }
}
