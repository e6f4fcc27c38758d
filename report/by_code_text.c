#include "report/by_code_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/printable.h"
#include "report/by_code_first.h"
#include "report/by_code_lives.h"
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
    else if (number->measure == STACK_AT_END && stack_ages_all(&code->ages[row]) > 0)
        fputs(", since before call 1", to); /* of a base */
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
    const bool at_end = number->measure == STACK_AT_END;
    for (size_t i = 0, printed = 0; i < order.count && printed < shown; i++) {
        if (at_end && code->suppressed[order.rows[i]]) continue;
        by_code_print_row(code, number, order.rows[i], to);
        printed++;
    }
    free(order.rows);
    const double kept = code->suppressions.bytes[STACK_AT_END].value;
    if (at_end && kept >= 0.5)
        fprintf(to, "  %12s that are known to stay are left out (--suppressions)\n",
                words_bytes((uint64_t)llround(kept)));
}

/* ---- a range of time ---- */

struct span_order {
    const struct by_code *code;
    bool by_growth;
};

static double span_value(const struct by_code_span *span, bool by_growth)
{
    return by_growth ? span->bytes - span->ended_bytes : span->bytes;
}

static int by_span(const void *one, const void *other, void *of)
{
    const struct span_order *order = of;
    const struct by_code *code = order->code;
    const struct by_code_span *spans = by_code_sorts_total(code) ? code->span_with : code->span_of;
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    const double x = span_value(&spans[a], order->by_growth);
    const double y = span_value(&spans[b], order->by_growth);
    if (x != y) return x > y ? -1 : 1;
    return strcmp(by_code_name(code, a), by_code_name(code, b));
}

static void print_span_row(const struct by_code *code, uint32_t row, bool by_growth, FILE *to)
{
    const struct by_code_span *own = &code->span_of[row], *with = &code->span_with[row];
    fprintf(to, "  %12s", words_signed(UNIT_BYTES, own->bytes - own->ended_bytes));
    fprintf(to, " %12s", words_bytes((uint64_t)llround(own->bytes)));
    fprintf(to, " %12s", words_bytes((uint64_t)llround(own->ended_bytes)));
    if (code->groups.by < CODE_BY_STACK)
        fprintf(to, " %12s",
                by_growth ? words_signed(UNIT_BYTES, with->bytes - with->ended_bytes)
                          : words_bytes((uint64_t)llround(with->bytes)));
    fprintf(to, "  %s", words_name(by_code_name(code, row)));
    by_code_print_place(code, row, &by_code_numbers[0], to);
    fputc('\n', to);
}

static void print_spans(const struct by_code *code, bool by_growth, FILE *to)
{
    struct span_order order = {code, by_growth};
    uint32_t *rows = calloc(code->groups.count + 1, sizeof *rows);
    size_t count = 0;
    for (uint32_t i = 0; rows != NULL && i < code->groups.count; i++)
        if (code->span_of[i].made >= 0.5 || code->span_of[i].ended >= 0.5) rows[count++] = i;
    if (rows != NULL && count > 0) {
        qsort_r(rows, count, sizeof *rows, by_span, &order);
        fprintf(to, "\n%s, in this time, by %s\n  %12s %12s %12s%s\n", by_code_rows(code),
                by_growth ? "what grew" : "bytes asked for", "grown", "allocated", "freed",
                code->groups.by < CODE_BY_STACK ? "  with calls" : "");
    }
    const size_t shown = code->options->top > 0 ? code->options->top : ROWS_SHOWN_IF_ASKED;
    for (size_t i = 0; rows != NULL && i < count && i < shown; i++)
        print_span_row(code, rows[i], by_growth, to);
    free(rows);
}

static void print_range(const struct by_code *code, FILE *to)
{
    const struct by_code_options *options = code->options;
    const struct stack_times *times = &code->tally.times;
    const uint64_t end = times->end_ns[times->buckets - 1];
    fprintf(to, "\nFrom %s", words_ms(options->from_ns / 1000000));
    fprintf(to, " to %s: what was made and freed in this time, as far as ticks tell.\n",
            words_ms((options->to_ns < end ? options->to_ns : end) / 1000000));
    print_spans(code, true, to);
    print_spans(code, false, to);
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
    if (code->options->has_range) {
        print_range(code, to);
        return;
    }
    by_code_print_first(code, to);
    /* What grows and what holds memory comes before how much is asked for. */
    static const unsigned char growing[] = {BY_CODE_END, BY_CODE_GROWN};
    uint32_t leak;
    bool printed[BY_CODE_NUMBERS] = {false};
    grows = grows || by_code_leaks(code, &leak, 1) > 0;
    for (unsigned i = 0; i < sizeof growing && grows; i++) {
        print_rows(code, &by_code_numbers[growing[i]], to);
        printed[growing[i]] = true;
    }
    for (unsigned i = 0; i < BY_CODE_NUMBERS; i++)
        if (by_code_numbers[i].words != NULL && !printed[i])
            print_rows(code, &by_code_numbers[i], to);
    by_code_print_lives(code, to);
}
