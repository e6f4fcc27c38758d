#include "symbols/stack_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES_LEAST = 16 };
#define DEGREES_LEAST 2.0

/* Calls whose classes may be estimated together: those that differ in size only. */
static enum stack_calls alike(enum stack_calls calls)
{
    return calls < STACK_FREES ? (enum stack_calls)(calls & ~1u) : calls;
}

static enum stack_calls calls_of_cell(const struct stack_tally *tally, size_t cell)
{
    return stack_cell_calls(&tally->cells.at[cell]);
}

/* ---- sums of groups ---- */

/* Whether only some of the calls of the cell's class have stacks. */
static bool cell_is_sampled(const struct stack_tally *tally, size_t cell)
{
    const enum stack_calls calls = calls_of_cell(tally, cell);
    return calls == STACK_FREES || calls == STACK_REMOTE_FREES
               ? stack_tally_frees_are_sampled(tally)
               : stack_tally_is_sampled(tally);
}

/* How many calls one of the cell stands for, if it has its stack. */
static double stands_for(const struct stack_tally *tally, size_t cell)
{
    const struct stack_chance *chance = &tally->chance;
    const struct stack_amount made = stack_cell_amount(&tally->cells.at[cell], STACK_MADE);
    const enum stack_calls calls = calls_of_cell(tally, cell);
    double chosen = 1 / (double)chance->calls; /* how often, on average */
    if (!cell_is_sampled(tally, cell)) return 1;
    if (calls == STACK_LARGE_ALLOCATIONS || calls == STACK_LARGE_REALLOCS) {
        const double size =
            made.objects > 0 ? (double)made.bytes / (double)made.objects : (double)chance->small;
        if (size >= (double)chance->all) return 1;
        chosen += size / (double)chance->bytes;
    }
    return -1 / expm1(-chosen);
}

/* Sums over samples that stand for all objects, or over all objects. */
struct moments {
    double sum;
    /* The variance of the sum: over samples that stand for w objects of a size, w (w - 1) size^2;
     * over all objects what that is on average, (w - 1) size^2. And over samples the square. */
    double squares, fourths;
};

struct weight {
    double samples;
    struct moments objects, bytes;
};

/* Samples of the same size; each stands for `each` objects. */
static void add_moments(struct moments *to, double samples, double each, double size)
{
    const double square = each * (each - 1) * size * size;
    to->sum += samples * each * size;
    to->squares += samples * square;
    to->fourths += samples * square * square;
}

/* The objects of a cell count as equally large. */
static void add_samples(struct weight *to, const struct stack_amount *amount, double each)
{
    const double count = (double)amount->objects;
    to->samples += count;
    add_moments(&to->objects, count, each, 1);
    add_moments(&to->bytes, count, each, (double)amount->bytes / count);
}

/* All objects of a cell, whether it has its stack or not. */
static void add_all(struct weight *to, const struct stack_amount *amount, double each)
{
    const double count = (double)amount->objects, size = (double)amount->bytes / count;
    to->objects.sum += count;
    to->objects.squares += count * (each - 1);
    to->bytes.sum += count * size;
    to->bytes.squares += count * (each - 1) * size * size;
}

static void add_weight(struct weight *to, const struct weight *one)
{
    to->objects.sum += one->objects.sum;
    to->objects.squares += one->objects.squares;
    to->bytes.sum += one->bytes.sum;
    to->bytes.squares += one->bytes.squares;
}

static void add_variance(struct stack_sum *to, double variance, double degrees)
{
    to->variance += variance;
    to->doubt += variance * variance / degrees;
}

/* Adds the share of `all` that a group has of the samples, and the variance of that. */
static void add_part(struct stack_sum *to, const struct moments *group, double all,
                     const struct moments *sampled)
{
    if (sampled->sum <= 0) return;
    to->value += all * group->sum / sampled->sum;
    if (sampled->squares <= 0) return; /* every object was sampled */
    /* The effective number of samples, and the weight of each of so many equal ones: the two samples
     * that are added have it. */
    const double more = sampled->squares / sampled->sum, alike = sampled->sum / more;
    const double whole = sampled->sum + 2 * more, part = (group->sum + more) / whole;
    const double squares = (1 - part) * (1 - part) * (group->squares + more * more) +
                           part * part * (sampled->squares - group->squares + more * more);
    /* The share depends on each sample, so its distance from the share is too small: by this. */
    const double variance = (1 + 2 / alike) * all * all * squares / (whole * whole);
    if (variance > 0)
        add_variance(to, variance, sampled->squares * sampled->squares / sampled->fourths);
}

/* Of these objects no sample is of the group: as if there were one, but not of more than all. */
static void add_unseen(struct stack_sum *to, const struct moments *all, const struct moments *seen)
{
    const double sum = all->sum - seen->sum, squares = all->squares - seen->squares;
    if (sum < 0.5 || squares <= 0) return;
    const double one = fmin(squares / sum, sum / 2);
    add_variance(to, one * one, 1);
}

struct group_here {
    bool is_touched;
    struct weight weight;
};

/* What a group has of a measure. */
struct group_seen {
    bool is_there;
    struct weight all; /* of the ranges of classes in which there are samples of the group */
};

struct summing {
    const struct stack_tally *tally;
    const struct stack_groups *groups;
    struct stack_sums *sums;
    double *stands_for;        /* by cell */
    struct stack_scale *scale; /* by class, instead of sums of groups */
    struct group_here *here;   /* by group: in these cells */
    struct group_seen *seen;   /* by group: of a measure */
    struct weight all;         /* of the measure */
    uint32_t *touched;
    size_t touched_count;
};

static void touch(struct summing *state, size_t cell, const struct stack_amount *amount)
{
    const struct stack_groups *groups = state->groups;
    const uint32_t stack = state->tally->cells.at[cell].stack;
    for (uint32_t i = groups->first[stack]; i < groups->first[stack + 1]; i++) {
        struct group_here *here = &state->here[groups->groups[i]];
        if (!here->is_touched) state->touched[state->touched_count++] = groups->groups[i];
        here->is_touched = true;
        if (amount->objects > 0) add_samples(&here->weight, amount, state->stands_for[cell]);
    }
}

static void add_exact(struct stack_sums *to, enum stack_measure measure, const struct weight *all)
{
    to->objects[measure].value += all->objects.sum;
    to->bytes[measure].value += all->bytes.sum;
}

/* Adds to each group that was touched what its samples stand for. */
static void add_touched(struct summing *state, enum stack_measure measure,
                        const struct weight *sampled, const struct weight *all)
{
    for (size_t i = 0; i < state->touched_count; i++) {
        const uint32_t group = state->touched[i];
        struct group_here *here = &state->here[group];
        struct stack_sums *to = &state->sums[group];
        add_part(&to->objects[measure], &here->weight.objects, all->objects.sum, &sampled->objects);
        add_part(&to->bytes[measure], &here->weight.bytes, all->bytes.sum, &sampled->bytes);
        *here = (struct group_here){.is_touched = false};
        state->seen[group].is_there = true;
        if (sampled->samples > 0) add_weight(&state->seen[group].all, all);
    }
}

/* Says what the classes of these cells stand for. */
static void scale_cells(struct summing *state, size_t first, size_t end,
                        const struct weight *sampled, const struct weight *all)
{
    for (size_t i = first; i < end; i++) {
        struct stack_scale *scale = &state->scale[state->tally->cells.at[i].size_class];
        const double each = state->stands_for[i];
        const struct moments *objects = &sampled->objects, *bytes = &sampled->bytes;
        scale->is_of_none = sampled->samples <= 0;
        scale->objects = objects->sum > 0 ? each * all->objects.sum / objects->sum : 0;
        scale->bytes = bytes->sum > 0 ? each * all->bytes.sum / bytes->sum : 0;
    }
}

/* Estimates the cells from `first` up to `end` together. A group with samples, none of which counts
 * here, may have objects that do: it gets a variance. Without any sample, all goes to stack 0. */
static void sum_cells(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_groups *groups = state->groups;
    struct weight all = {.samples = 0}, sampled = {.samples = 0};
    state->touched_count = 0;
    for (size_t i = first; i < end; i++) {
        const struct stack_cell *cell = &state->tally->cells.at[i];
        const struct stack_amount amount = stack_cell_amount(cell, measure);
        if (cell->stack != 0 && groups != NULL) touch(state, i, &amount);
        if (amount.objects == 0) continue;
        add_all(&all, &amount, state->stands_for[i]);
        if (cell->stack != 0) add_samples(&sampled, &amount, state->stands_for[i]);
    }
    if (groups == NULL) {
        scale_cells(state, first, end, &sampled, &all);
        return;
    }
    add_touched(state, measure, &sampled, &all);
    add_weight(&state->all, &all);
    for (uint32_t i = groups->first[0]; i < groups->first[1]; i++)
        if (sampled.samples <= 0) add_exact(&state->sums[groups->groups[i]], measure, &all);
}

/* Sums up cells of which all calls have stacks: a call without one has none that could be found. */
static void sum_exactly(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_groups *groups = state->groups;
    for (size_t i = first; i < end && groups == NULL; i++)
        state->scale[state->tally->cells.at[i].size_class] =
            (struct stack_scale){.objects = 1, .bytes = 1, .is_exact = true};
    for (size_t i = first; i < end && groups != NULL; i++) {
        const struct stack_cell *cell = &state->tally->cells.at[i];
        const struct stack_amount amount = stack_cell_amount(cell, measure);
        for (uint32_t at = groups->first[cell->stack]; at < groups->first[cell->stack + 1]; at++) {
            struct stack_sums *to = &state->sums[groups->groups[at]];
            to->objects[measure].value += (double)amount.objects;
            to->bytes[measure].value += (double)amount.bytes;
            state->seen[groups->groups[at]].is_there = true;
        }
    }
}

/* Some cells that are estimated together. */
struct cell_range {
    size_t end;
    uint64_t samples; /* of a measure */
};

/* The range of the class that begins at `first`. */
static struct cell_range one_class(const struct stack_tally *tally, enum stack_measure measure,
                                   size_t first)
{
    struct cell_range range = {.end = first};
    while (range.end < tally->cells.count &&
           tally->cells.at[range.end].size_class == tally->cells.at[first].size_class) {
        const struct stack_cell *cell = &tally->cells.at[range.end++];
        if (cell->stack != 0) range.samples += stack_cell_amount(cell, measure).objects;
    }
    return range;
}

/* The index from which on, up to `end`, all calls have stacks: those are sure to be sampled, or
 * happen to be. Only the contiguous range at the end counts: a lower class that was sampled
 * completely by chance still tells about its neighbours. */
static size_t certain_from(const struct summing *state, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    size_t certain = end;
    while (certain > first &&
           (state->stands_for[certain - 1] <= 1 || tally->cells.at[certain - 1].stack != 0))
        certain--;
    /* Must not be in the middle of a class. */
    while (certain > first && certain < end &&
           tally->cells.at[certain - 1].size_class == tally->cells.at[certain].size_class)
        certain++;
    return certain;
}

/* The range of as many classes before `end` as it takes for enough samples, or of all. */
static struct cell_range enough_classes(const struct stack_tally *tally, enum stack_measure measure,
                                        size_t first, size_t end)
{
    struct cell_range range = {.end = first};
    while (range.end < end && range.samples < SAMPLES_LEAST) {
        const struct cell_range next = one_class(tally, measure, range.end);
        range.end = next.end;
        range.samples += next.samples;
    }
    return range;
}

/* The end of that range. If the rest does not have enough samples, it is included. */
static size_t range_end(const struct stack_tally *tally, enum stack_measure measure, size_t first,
                        size_t end)
{
    const struct cell_range range = enough_classes(tally, measure, first, end);
    const struct cell_range rest = enough_classes(tally, measure, range.end, end);
    return rest.samples < SAMPLES_LEAST ? rest.end : range.end;
}

/* Groups that are there may have more where no sample is theirs. */
static void add_all_unseen(struct summing *state, enum stack_measure measure)
{
    for (size_t i = 0; i < state->groups->count; i++) {
        const struct group_seen *seen = &state->seen[i];
        struct stack_sums *to = &state->sums[i];
        if (!seen->is_there) continue;
        add_unseen(&to->objects[measure], &state->all.objects, &seen->all.objects);
        add_unseen(&to->bytes[measure], &state->all.bytes, &seen->all.bytes);
    }
}

/* The first cell before `end` of which a sample stands for much less than one of `first` does.
 * Estimated together, a large class without a sample would count for those who have samples of a
 * small one. */
static size_t equal_until(const struct summing *state, size_t first, size_t end)
{
    size_t at = first;
    while (at < end && 2 * state->stands_for[at] > state->stands_for[first])
        at++;
    /* Must not be in the middle of a class. */
    while (at < end &&
           state->tally->cells.at[at - 1].size_class == state->tally->cells.at[at].size_class)
        at++;
    return at;
}

/* Sums up cells of calls that are alike. */
static void sum_alike(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    const size_t certain = cell_is_sampled(tally, first) ? certain_from(state, first, end) : first;
    for (size_t at = first, next; at < certain; at = next) {
        next = range_end(tally, measure, at, equal_until(state, at, certain));
        sum_cells(state, measure, at, next);
    }
    sum_exactly(state, measure, certain, end);
}

/* Which cells a measure is of: cells are sorted by the kind of their calls. */
static struct cell_range cells_of_measure(const struct stack_tally *tally,
                                          enum stack_measure measure, size_t *first)
{
    enum stack_calls from, until;
    struct cell_range range = {.end = 0};
    stack_measure_calls(measure, &from, &until);
    while (range.end < tally->cells.count && calls_of_cell(tally, range.end) < from)
        range.end++;
    *first = range.end;
    while (range.end < tally->cells.count && calls_of_cell(tally, range.end) < until)
        range.end++;
    return range;
}

/* Sums up all cells of allocations and reallocs, of frees, or of mappings. */
static void sum_measure(struct summing *state, enum stack_measure measure, size_t first, size_t end)
{
    const struct stack_tally *tally = state->tally;
    if (state->groups != NULL) memset(state->seen, 0, state->groups->count * sizeof *state->seen);
    state->all = (struct weight){.samples = 0};
    if (measure == STACK_MAPPED) {
        sum_exactly(state, measure, first, end);
        return;
    }
    for (size_t at = first, next; at < end; at = next) {
        const enum stack_calls calls = alike(calls_of_cell(tally, at));
        for (next = at + 1; next < end && alike(calls_of_cell(tally, next)) == calls;)
            next++;
        sum_alike(state, measure, at, next);
    }
    if (state->groups != NULL) add_all_unseen(state, measure);
}

/* By cell; NULL: no memory. */
static double *stand_for_list(const struct stack_tally *tally)
{
    double *list = calloc(tally->cells.count + 1, sizeof *list);
    for (size_t i = 0; i < tally->cells.count && list != NULL; i++)
        list[i] = stands_for(tally, i);
    return list;
}

bool stack_tally_sum(const struct stack_tally *tally, const struct stack_groups *groups,
                     struct stack_sums *sums)
{
    struct summing state = {.tally = tally, .groups = groups, .sums = sums};
    state.here = calloc(groups->count + 1, sizeof *state.here);
    state.seen = calloc(groups->count + 1, sizeof *state.seen);
    state.touched = calloc(groups->count + 1, sizeof *state.touched);
    state.stands_for = stand_for_list(tally);
    const bool good = state.here != NULL && state.seen != NULL && state.touched != NULL &&
                      state.stands_for != NULL;
    for (unsigned i = 0; i < STACK_MEASURES && good; i++) {
        size_t first;
        const struct cell_range cells = cells_of_measure(tally, (enum stack_measure)i, &first);
        sum_measure(&state, (enum stack_measure)i, first, cells.end);
    }
    free(state.here);
    free(state.seen);
    free(state.touched);
    free(state.stands_for);
    return good;
}

/* ---- values ---- */

static bool measure_is_sampled(const struct stack_tally *tally, enum stack_measure measure)
{
    if (measure == STACK_MAPPED) return false;
    return measure == STACK_FREED || measure == STACK_FREED_REMOTE
               ? stack_tally_frees_are_sampled(tally)
               : stack_tally_is_sampled(tally);
}

bool stack_scales_make(struct stack_scales *scales, const struct stack_tally *tally)
{
    struct summing state = {.tally = tally, .stands_for = stand_for_list(tally)};
    bool good = state.stands_for != NULL;
    *scales = (struct stack_scales){.of = {NULL}};
    for (unsigned i = 0; i < STACK_MEASURES && good; i++) {
        size_t first;
        const enum stack_measure measure = (enum stack_measure)i;
        const struct cell_range cells = cells_of_measure(tally, measure, &first);
        if (!measure_is_sampled(tally, measure)) continue;
        state.scale = scales->of[i] = calloc(STACK_CLASSES, sizeof *state.scale);
        good = state.scale != NULL;
        if (good) sum_measure(&state, measure, first, cells.end);
    }
    free(state.stands_for);
    return good;
}

void stack_scales_free(struct stack_scales *scales)
{
    for (unsigned i = 0; i < STACK_MEASURES; i++)
        free(scales->of[i]);
    *scales = (struct stack_scales){.of = {NULL}};
}

struct stack_scale stack_scale_of(const struct stack_scales *scales, enum stack_measure measure,
                                  uint32_t stack, unsigned size_class)
{
    const struct stack_scale one = {.objects = 1, .bytes = 1}, none = {.objects = 0};
    if (scales->of[measure] == NULL) return one;
    const struct stack_scale *scale = &scales->of[measure][size_class];
    if (scale->is_exact) return one;
    if (stack == 0) return scale->is_of_none ? one : none;
    return *scale;
}

bool stack_cell_value(const struct stack_scales *scales, const struct stack_cell *cell,
                      enum stack_measure measure, double *objects, double *bytes)
{
    enum stack_calls from, until;
    const enum stack_calls calls = stack_cell_calls(cell);
    stack_measure_calls(measure, &from, &until);
    if (calls < from || calls >= until) return false;
    const struct stack_amount amount = stack_cell_amount(cell, measure);
    if (amount.objects == 0) return false;
    const struct stack_scale scale = stack_scale_of(scales, measure, cell->stack, cell->size_class);
    *objects = (double)amount.objects * scale.objects;
    *bytes = (double)amount.bytes * scale.bytes;
    return true;
}

/* The 97.5th percentile of Student's distribution, to the second order of 1 / degrees of freedom. */
double stack_sum_margin(const struct stack_sum *sum)
{
    if (sum->variance <= 0) return 0;
    const double degrees = sum->variance * sum->variance / sum->doubt;
    const double by = 1 / (degrees > DEGREES_LEAST ? degrees : DEGREES_LEAST);
    return (1.96 + 2.37 * by + 2.82 * by * by) * sqrt(sum->variance);
}
