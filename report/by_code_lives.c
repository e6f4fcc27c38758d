#include "report/by_code_lives.h"

#include <math.h>
#include <stdlib.h>

#include "report/by_code_place.h"
#include "report/table.h"
#include "report/words.h"

enum { LIVES_SHOWN = 5, LIVES_SHOWN_IF_ASKED = 20, LIVES_NEVER = 4 };

void by_code_lives_add(const struct by_code *code, struct by_code_lives *to,
                       const struct stack_cell *cell)
{
    double objects, bytes;
    if (stack_cell_value(&code->scales, cell, STACK_MADE, &objects, &bytes)) {
        const double scale = objects / (double)stack_cell_amount(cell, STACK_MADE).objects;
        to->made += objects;
        to->bytes += bytes;
        for (unsigned i = 0; i < STACK_LIFETIMES; i++)
            to->lived[i] += (double)cell->lived[i] * scale;
    }
    if (stack_cell_value(&code->scales, cell, STACK_AT_PEAK, &objects, &bytes))
        to->peak_bytes += bytes;
    if (stack_cell_value(&code->scales, cell, STACK_AT_END, &objects, &bytes)) {
        to->end_objects += objects;
        to->end_bytes += bytes;
    }
    if (stack_cell_value(&code->scales, cell, STACK_SHORT_LIVED, &objects, &bytes))
        to->short_lived += objects;
}

/* ---- the table ---- */

/* A row of the table. */
struct row_lives {
    struct by_code_lives all;
    double by_magnitude[STACK_MAGNITUDES];
};

/* Where 90 % of the objects are smaller. */
static const char *most_below(const struct row_lives *of)
{
    double below = 0;
    unsigned at = 0;
    for (; at < STACK_MAGNITUDES - 1; at++)
        if ((below += of->by_magnitude[at]) >= 0.9 * of->all.made) break;
    return words_bytes(at < 64 ? UINT64_C(1) << at : UINT64_MAX);
}

static void print_lives_part(double part, double all, int width, FILE *to)
{
    fprintf(to, " %*s", width, part >= 0.5 ? words_number(UNIT_SHARE, part / all) : ".");
}

/* The shares that ended within so many calls, and of those never. */
static void print_lives_shares(const struct by_code_lives *all, int width, FILE *to)
{
    double parts[] = {all->short_lived, all->lived[0] + all->lived[1],
                      all->lived[2] + all->lived[3], all->lived[4], 0};
    double known = 0;
    for (unsigned i = 0; i < LIVES_NEVER; i++)
        known += parts[i];
    /* Of those made: others that are alive at the end are of a base. */
    parts[LIVES_NEVER] = fmax(fmin(all->end_objects, all->made - known), 0);
    known += parts[LIVES_NEVER];
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        print_lives_part(parts[i], known, width, to);
}

static void print_lives_row(const struct by_code *code, uint32_t row, const struct row_lives *of,
                            FILE *to)
{
    fprintf(to, "  %12s %10s", words_count((uint64_t)llround(of->all.made)), most_below(of));
    print_lives_shares(&of->all, 8, to);
    fprintf(to, "  %s", words_name(by_code_name(code, row)));
    by_code_print_place(code, row, &by_code_numbers[1], to);
    fputc('\n', to);
}

/* The rows that make most objects; returns how many. */
static unsigned lives_choose(const struct by_code *code, uint32_t *rows, unsigned most)
{
    uint64_t *made = calloc(code->groups.count + 1, sizeof *made);
    for (uint32_t i = 0; made != NULL && i < code->groups.count; i++)
        made[i] = (uint64_t)llround(code->self[i].objects[STACK_MADE].value);
    const unsigned count =
        made != NULL ? report_top(made, (uint32_t)code->groups.count, sizeof *made, rows, most) : 0;
    free(made);
    return count;
}

static void lives_count(const struct by_code *code, const uint32_t *place, struct row_lives *rows)
{
    for (size_t i = 0; i < code->tally.cells.count; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        const uint32_t row = code_groups_itself(&code->groups, cell->stack);
        if (row == CODE_GROUP_NONE || place[row] == 0) continue;
        struct row_lives *of = &rows[place[row] - 1];
        const double before = of->all.made;
        by_code_lives_add(code, &of->all, cell);
        if (of->all.made > before)
            of->by_magnitude[stack_tally_magnitude(&code->tally, cell)] += of->all.made - before;
    }
}

void by_code_print_lives(const struct by_code *code, FILE *to)
{
    const unsigned usual = code->options->is_by_given ? LIVES_SHOWN_IF_ASKED : LIVES_SHOWN;
    const unsigned most = code->options->top > 0 ? code->options->top : usual;
    uint32_t *order = calloc(most, sizeof *order);
    struct row_lives *rows = calloc(most, sizeof *rows);
    uint32_t *place = calloc(code->groups.count + 1, sizeof *place); /* by row: in `rows`, plus 1 */
    const bool good = order != NULL && rows != NULL && place != NULL;
    const unsigned count = good ? lives_choose(code, order, most) : 0;
    for (unsigned i = 0; i < count; i++)
        place[order[i]] = i + 1;
    if (good) lives_count(code, place, rows);
    if (count > 0)
        fprintf(to,
                "\n%s, by objects made: sizes, and after how many calls they end\n"
                "  %12s %10s %8s %8s %8s %8s %8s\n",
                by_code_rows(code), "objects", "90 % below", "100", "10 000", "million", "later",
                "never");
    for (unsigned i = 0; i < count; i++)
        if (rows[i].all.made >= 0.5) print_lives_row(code, order[i], &rows[i], to);
    free(order);
    free(rows);
    free(place);
}

/* ---- one row ---- */

static void print_lives_of(const struct by_code_lives *of, FILE *to)
{
    fprintf(to, " %9s", words_count((uint64_t)llround(of->made)));
    fprintf(to, " %9s", words_bytes((uint64_t)llround(of->peak_bytes)));
    fprintf(to, " %8s", words_bytes((uint64_t)llround(of->end_bytes)));
    print_lives_shares(of, 7, to);
    fputc('\n', to);
}

void by_code_print_lives_of(const struct by_code *code, uint32_t row, FILE *to)
{
    struct by_code_lives sums[STACK_MAGNITUDES] = {{.made = 0}}, all = {.made = 0};
    for (size_t i = 0; i < code->tally.cells.count; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        if (code_groups_itself(&code->groups, cell->stack) != row) continue;
        by_code_lives_add(code, &all, cell);
        by_code_lives_add(code, &sums[stack_tally_magnitude(&code->tally, cell)], cell);
    }
    fprintf(to, "%s itself: sizes, and after how many calls its objects end\n",
            words_name(by_code_name(code, row)));
    fprintf(to, "%10s %9s %9s %8s %7s %7s %7s %7s %7s\n", "size from", "objects", "at peak",
            "at end", "100", "10 000", "million", "later", "never");
    fprintf(to, "%10s", "all");
    print_lives_of(&all, to);
    for (unsigned i = 0; i < STACK_MAGNITUDES; i++) {
        if (sums[i].made < 0.5) continue;
        fprintf(to, "%10s", words_bytes(i > 0 ? UINT64_C(1) << (i - 1) : 0));
        print_lives_of(&sums[i], to);
    }
}
