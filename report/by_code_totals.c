#include "report/by_code_totals.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* Cells by stack: of stack s those from order[first[s]] until before order[first[s + 1]]. */
struct cells_of_stacks {
    uint32_t *first, *order;
};

/* The exact numbers of a group; `at` as in struct stack_sums, objects first. */
struct exact {
    double at[2 * STACK_MEASURES];
};

struct totalling {
    const struct by_code *code;
    struct cells_of_stacks cells;
    struct exact *groups;
    size_t room;
    uint8_t *listed;
};

/* ---- cells by stack ---- */

/* False: no memory. */
static bool cells_of_stacks_make(struct cells_of_stacks *of, const struct stack_tally *tally)
{
    const struct stack_cells *cells = &tally->cells;
    of->first = calloc(tally->stacks_count + 2, sizeof *of->first);
    of->order = calloc(cells->count + 1, sizeof *of->order);
    if (of->first == NULL || of->order == NULL) return false;
    for (size_t i = 0; i < cells->count; i++)
        of->first[cells->at[i].stack + 2]++;
    for (size_t i = 2; i < tally->stacks_count + 2; i++)
        of->first[i] += of->first[i - 1];
    for (size_t i = 0; i < cells->count; i++)
        of->order[of->first[cells->at[i].stack + 1]++] = (uint32_t)i;
    return true;
}

/* ---- adding up ---- */

static bool is_exact(const struct by_code *code, unsigned measure)
{
    return code->scales.of[measure] == NULL;
}

/* Adds the exact numbers of a stack to `sums`. */
static void add_stack(const struct totalling *state, uint32_t stack, struct exact *sums)
{
    const struct by_code *code = state->code;
    const uint32_t end = state->cells.first[stack + 1];
    for (uint32_t i = state->cells.first[stack]; i < end; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[state->cells.order[i]];
        double objects, bytes;
        for (unsigned k = 0; k < STACK_MEASURES; k++) {
            if (!is_exact(code, k) ||
                !stack_cell_value(&code->scales, cell, (enum stack_measure)k, &objects, &bytes))
                continue;
            sums->at[k] += objects;
            sums->at[STACK_MEASURES + k] += bytes;
        }
    }
}

/* A code_groups_take: adds a stack to each of its groups, number by number: most are 0. */
static bool add_to_groups(void *of, uint32_t stack, const uint32_t *groups, unsigned count)
{
    struct totalling *state = of;
    struct exact sums = {.at = {0}};
    if (!array_reserve(&state->groups, &state->room, state->code->groups.count + 1,
                       sizeof *state->groups))
        return false;
    add_stack(state, stack, &sums);
    for (unsigned k = 0; k < 2 * STACK_MEASURES; k++)
        for (unsigned i = 0; i < count && sums.at[k] != 0; i++)
            state->groups[groups[i]].at[k] += sums.at[k];
    return true;
}

/* Which stacks have estimates. False: no memory. */
static bool list_sampled(struct totalling *state)
{
    const struct stack_tally *tally = &state->code->tally;
    state->listed = calloc(tally->stacks_count + 1, 1);
    if (state->listed == NULL) return false;
    for (size_t i = 0; i < tally->cells.count; i++) {
        const struct stack_cell *cell = &tally->cells.at[i];
        const enum stack_calls calls = stack_cell_calls(cell);
        state->listed[cell->stack] |= calls < STACK_FREES ? stack_tally_is_sampled(tally)
                                      : calls < STACK_MAPPINGS
                                          ? stack_tally_frees_are_sampled(tally)
                                          : false;
    }
    return true;
}

static void take_exact(struct by_code *code, const struct totalling *state)
{
    for (size_t i = 0; i < code->groups.count; i++)
        for (unsigned k = 0; k < STACK_MEASURES; k++) {
            if (!is_exact(code, k)) continue;
            const double *at =
                i < state->room ? state->groups[i].at : (double[2 * STACK_MEASURES]){0};
            code->total[i].objects[k] = (struct stack_sum){.value = at[k]};
            code->total[i].bytes[k] = (struct stack_sum){.value = at[STACK_MEASURES + k]};
        }
}

bool by_code_totals_make(struct by_code *code)
{
    struct totalling state = {.code = code};
    bool good = cells_of_stacks_make(&state.cells, &code->tally) && list_sampled(&state);
    code->groups.take = add_to_groups;
    code->groups.take_of = &state;
    code->groups.listed = state.listed;
    good = good && code_groups_make(&code->groups, &code->tally, &code->names);
    code->total = calloc(code->groups.count + 1, sizeof *code->total);
    good = good && code->total != NULL &&
           stack_tally_sum(&code->tally, &code->groups.total, code->total);
    if (good && code->groups.by < CODE_BY_STACK) take_exact(code, &state);
    code->groups.take = NULL;
    code->groups.listed = NULL;
    free(state.cells.first);
    free(state.cells.order);
    free(state.groups);
    free(state.listed);
    return good;
}

/* ---- a stretch of time ---- */

struct by_code_span *by_code_spans(const struct by_code *code, unsigned from, unsigned until)
{
    const struct stack_times *times = &code->tally.times;
    struct by_code_span *spans = calloc(code->tally.stacks_count + 1, sizeof *spans);
    for (size_t i = 0; i < times->count && spans != NULL; i++) {
        const struct stack_time *one = &times->log[i];
        struct by_code_span *to = &spans[one->stack];
        if (one->bucket < from || one->bucket >= until) continue;
        const struct stack_scale scale =
            stack_scale_of(&code->scales, STACK_MADE, one->stack, one->size_class);
        to->made += (double)one->made * scale.objects;
        to->bytes += (double)one->bytes * scale.bytes;
        to->ended += (double)one->ended * scale.objects;
        to->ended_bytes += (double)one->ended_bytes * scale.bytes;
    }
    return spans;
}

static void span_add(struct by_code_span *to, const struct by_code_span *one)
{
    to->made += one->made;
    to->bytes += one->bytes;
    to->ended += one->ended;
    to->ended_bytes += one->ended_bytes;
}

struct spanning {
    const struct by_code_span *spans;
    struct by_code_span *total;
};

static bool span_to_groups(void *of, uint32_t stack, const uint32_t *groups, unsigned count)
{
    const struct spanning *state = of;
    for (unsigned i = 0; i < count; i++)
        span_add(&state->total[groups[i]], &state->spans[stack]);
    return true;
}

bool by_code_spans_of_rows(struct by_code *code, const struct by_code_span *spans,
                           struct by_code_span **self, struct by_code_span **total)
{
    const size_t count = code->groups.count;
    *self = calloc(count + 1, sizeof **self);
    *total = calloc(count + 1, sizeof **total);
    if (*self == NULL || *total == NULL) return false;
    for (uint32_t i = 0; i < code->tally.stacks_count; i++) {
        const uint32_t row = code_groups_itself(&code->groups, i);
        if (row != CODE_GROUP_NONE) span_add(&(*self)[row], &spans[i]);
    }
    if (code->groups.by >= CODE_BY_STACK) return true;
    struct spanning state = {spans, *total};
    return code_groups_walk(&code->groups, &code->tally, &code->names, span_to_groups, &state);
}
