#include "report/by_code_tree.h"

#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "report/by_code_cells.h"
#include "report/by_code_lives.h"

enum {
    TREE_PART = 2000, /* a branch with less than 1 / TREE_PART of everything is not in JSON */
    TREE_TIMES_MOST = 16000,
    ROWS_TIMES_MOST = 8000,
    ROWS_MOST = 500
};
_Static_assert(STACK_BUCKETS <= 64, "a bit for each bucket");

/* A branch that is put into JSON. */
struct branch {
    struct stack_sums sums; /* without those of told branches below it */
    uint32_t branch;        /* in the tree */
    uint32_t parent;        /* of these; CODE_BRANCH_NONE: none */
    float share;            /* the largest of all measures, branches below it included */
    uint64_t buckets;       /* bits: in which it did something itself */
    uint32_t in_times;      /* the one that it is counted with there */
};

struct telling {
    const struct by_code *code;
    struct code_tree tree;
    double *objects, *bytes; /* by branch, those below included: of a measure */
    float *shares;           /* by branch */
    uint32_t *told_of;       /* by branch: the nearest one that is told */
    struct branch *told;
    size_t count;
};

/* ---- what is told ---- */

static void add_share(float *share, double part, double all)
{
    if (all > 0 && part / all > (double)*share) *share = (float)(part / all);
}

/* Takes the shares that branches have of a measure. (A parent's index is lower than its
 * children's.) */
static void take_shares(struct telling *telling, enum stack_measure measure)
{
    const struct by_code *code = telling->code;
    const struct code_tree *tree = &telling->tree;
    const double all = code->all.objects[measure].value, all_bytes = code->all.bytes[measure].value;
    if (all <= 0) return;
    memset(telling->objects, 0, tree->count * sizeof *telling->objects);
    memset(telling->bytes, 0, tree->count * sizeof *telling->bytes);
    for (size_t i = 0; i < code->tally.cells.count; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        const uint32_t branch = tree->of[cell->stack];
        double objects, bytes;
        if (branch == CODE_BRANCH_NONE ||
            !stack_cell_value(&code->scales, cell, measure, &objects, &bytes))
            continue;
        telling->objects[branch] += objects;
        telling->bytes[branch] += bytes;
    }
    for (size_t i = tree->count; i-- > 0;) {
        const uint32_t parent = tree->branches[i].parent;
        add_share(&telling->shares[i], telling->objects[i], all);
        add_share(&telling->shares[i], telling->bytes[i], all_bytes);
        if (parent == CODE_BRANCH_NONE) continue;
        telling->objects[parent] += telling->objects[i];
        telling->bytes[parent] += telling->bytes[i];
    }
}

static bool is_told(const struct telling *telling, size_t branch)
{
    return telling->tree.branches[branch].parent == CODE_BRANCH_NONE ||
           telling->shares[branch] * TREE_PART >= 1;
}

/* False: no memory. */
static bool choose_told(struct telling *telling)
{
    const struct code_tree *tree = &telling->tree;
    size_t count = 0;
    for (size_t i = 0; i < tree->count; i++)
        count += is_told(telling, i);
    telling->told = calloc(count + 1, sizeof *telling->told);
    if (telling->told == NULL) return false;
    for (uint32_t i = 0; i < tree->count; i++) {
        const uint32_t parent = tree->branches[i].parent;
        const uint32_t outer =
            parent != CODE_BRANCH_NONE ? telling->told_of[parent] : CODE_BRANCH_NONE;
        telling->told_of[i] = outer;
        if (!is_told(telling, i)) continue;
        telling->told_of[i] = (uint32_t)telling->count;
        telling->told[telling->count++] =
            (struct branch){.branch = i, .parent = outer, .share = telling->shares[i]};
    }
    return true;
}

/* The told branch that a stack counts for; NULL: not in focus. */
static struct branch *told_of_stack(const struct telling *telling, uint32_t stack)
{
    const uint32_t branch = telling->tree.of[stack];
    return branch != CODE_BRANCH_NONE ? &telling->told[telling->told_of[branch]] : NULL;
}

static void sum_told(struct telling *telling)
{
    const struct by_code *code = telling->code;
    for (size_t i = 0; i < code->tally.cells.count; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        struct branch *told = told_of_stack(telling, cell->stack);
        double objects, bytes;
        for (unsigned k = 0; k < STACK_MEASURES && told != NULL; k++) {
            if (!stack_cell_value(&code->scales, cell, (enum stack_measure)k, &objects, &bytes))
                continue;
            told->sums.objects[k].value += objects;
            told->sums.bytes[k].value += bytes;
        }
    }
}

/* Makes the tree and chooses what is told. False: no memory. */
static bool telling_make(struct telling *telling)
{
    const struct by_code *code = telling->code;
    struct code_tree *tree = &telling->tree;
    if (!code_tree_make(tree, &code->groups, &code->tally, &code->names)) return false;
    telling->objects = calloc(tree->count + 1, sizeof *telling->objects);
    telling->bytes = calloc(tree->count + 1, sizeof *telling->bytes);
    telling->shares = calloc(tree->count + 1, sizeof *telling->shares);
    telling->told_of = calloc(tree->count + 1, sizeof *telling->told_of);
    bool good = telling->objects != NULL && telling->bytes != NULL && telling->shares != NULL &&
                telling->told_of != NULL;
    for (unsigned i = 0; good && i < STACK_MEASURES; i++)
        take_shares(telling, (enum stack_measure)i);
    good = good && choose_told(telling);
    if (good) sum_told(telling);
    return good;
}

static bool tree_row(const void *of, size_t at, struct table_row *row)
{
    static const struct branch none;
    const struct telling *telling = of;
    const bool there = at < telling->count;
    const struct branch *branch = there ? &telling->told[at] : &none;
    const bool is_root = !there || branch->parent == CODE_BRANCH_NONE;
    const uint32_t function = there ? telling->tree.branches[branch->branch].function : 0;
    const struct cell cells[] = {
        {"name", .text = function != 0 ? code_names_text(&telling->code->names, function)
                                       : BY_CODE_NO_STACK},
        {"parent", .value = is_root ? NAN : (long double)branch->parent},
        {"interpreted", .value = there && telling->tree.branches[branch->branch].is_interpreted},
        BY_CODE_CELLS(&branch->sums),
    };
    TABLE_ROW(row, cells);
    return there;
}

/* ---- over time ---- */

#define TIME_COLUMNS "of bucket made bytes ended ended_bytes"

/* What each of `count` things did in each bucket. */
struct over_time {
    struct by_code_span *spans; /* STACK_BUCKETS of each */
    size_t count;
};

static void put_over_time(json_t *object, const char *key, const struct over_time *times)
{
    json_t *table = json_put_table(object, key, TIME_COLUMNS);
    for (size_t i = 0; i < times->count * STACK_BUCKETS && times->spans != NULL; i++) {
        const struct by_code_span *one = &times->spans[i];
        if (one->made < 0.5 && one->ended < 0.5) continue;
        json_put_row(table, TIME_COLUMNS, (uint64_t)(i / STACK_BUCKETS),
                     (uint64_t)(i % STACK_BUCKETS), (uint64_t)llround(one->made),
                     (uint64_t)llround(one->bytes), (uint64_t)llround(one->ended),
                     (uint64_t)llround(one->ended_bytes));
    }
}

static void take_time(const struct by_code *code, struct over_time *times, size_t at,
                      const struct stack_time *one)
{
    const struct stack_scale scale =
        stack_scale_of(&code->scales, STACK_MADE, one->stack, one->size_class);
    struct by_code_span *to = &times->spans[at * STACK_BUCKETS + one->bucket];
    to->made += (double)one->made * scale.objects;
    to->bytes += (double)one->bytes * scale.bytes;
    to->ended += (double)one->ended * scale.objects;
    to->ended_bytes += (double)one->ended_bytes * scale.bytes;
}

/* Counts branches with less than 1 / `part` with outer ones, and returns how many pairs of a branch
 * and a bucket there are then. */
static size_t join_branches(struct telling *telling, unsigned part)
{
    uint64_t *buckets = calloc(telling->count + 1, sizeof *buckets);
    size_t pairs = 0;
    for (uint32_t i = 0; i < telling->count && buckets != NULL; i++) {
        struct branch *one = &telling->told[i];
        const bool stays = one->parent == CODE_BRANCH_NONE || one->share * (float)part >= 1;
        one->in_times = stays ? i : telling->told[one->parent].in_times;
        buckets[one->in_times] |= one->buckets;
    }
    for (size_t i = 0; i < telling->count && buckets != NULL; i++)
        pairs += (size_t)__builtin_popcountll(buckets[i]);
    free(buckets);
    return pairs;
}

static void put_tree_times(json_t *object, struct telling *telling)
{
    const struct stack_times *times = &telling->code->tally.times;
    struct over_time of = {.count = telling->count};
    of.spans = calloc(of.count * STACK_BUCKETS + 1, sizeof *of.spans);
    for (size_t i = 0; i < times->count; i++) {
        struct branch *told = told_of_stack(telling, times->log[i].stack);
        if (told != NULL) told->buckets |= UINT64_C(1) << times->log[i].bucket;
    }
    for (unsigned part = TREE_PART; part > 1; part /= 2)
        if (join_branches(telling, part) <= TREE_TIMES_MOST) break;
    for (size_t i = 0; i < times->count && of.spans != NULL; i++) {
        const struct branch *told = told_of_stack(telling, times->log[i].stack);
        if (told != NULL) take_time(telling->code, &of, told->in_times, &times->log[i]);
    }
    put_over_time(object, "tree", &of);
    free(of.spans);
}

/* ---- rows ---- */

/* The rows of `times` and `sizes`. */
struct main_rows {
    const struct by_code *code;
    uint32_t *place; /* by group: where it is in JSON; CODE_GROUP_NONE: not here */
    size_t count;    /* of places */
};

struct row_share {
    uint32_t row, place;
    double share;
};

static int by_share(const void *one, const void *other)
{
    const struct row_share *a = one, *b = other;
    if (a->share != b->share) return a->share > b->share ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static double most_share(const struct by_code *code, uint32_t row)
{
    const struct stack_sums *of = &code->self[row], *all = &code->all;
    double most = 0;
    for (unsigned i = 0; i < STACK_FREED; i++) {
        if (all->objects[i].value > 0)
            most = fmax(most, of->objects[i].value / all->objects[i].value);
        if (all->bytes[i].value > 0) most = fmax(most, of->bytes[i].value / all->bytes[i].value);
    }
    return most;
}

/* In which buckets each group did something. NULL: no memory. */
static uint64_t *buckets_of_groups(const struct by_code *code)
{
    const struct stack_times *times = &code->tally.times;
    uint64_t *buckets = calloc(code->groups.count + 1, sizeof *buckets);
    for (size_t i = 0; i < times->count && buckets != NULL; i++) {
        const uint32_t row = code_groups_itself(&code->groups, times->log[i].stack);
        if (row != CODE_GROUP_NONE) buckets[row] |= UINT64_C(1) << times->log[i].bucket;
    }
    return buckets;
}

/* Chooses those with most of any number. False: no memory. */
static bool main_rows_choose(struct main_rows *rows, const uint32_t *order, size_t count)
{
    const struct by_code *code = rows->code;
    struct row_share *shares = calloc(count + 1, sizeof *shares);
    uint64_t *buckets = buckets_of_groups(code);
    size_t pairs = 0;
    rows->count = count;
    rows->place = calloc(code->groups.count + 1, sizeof *rows->place);
    const bool good = shares != NULL && buckets != NULL && rows->place != NULL;
    for (size_t i = 0; good && i < code->groups.count; i++)
        rows->place[i] = CODE_GROUP_NONE;
    for (size_t i = 0; good && i < count; i++)
        shares[i] = (struct row_share){order[i], (uint32_t)i, most_share(code, order[i])};
    if (good && count > 1) qsort(shares, count, sizeof *shares, by_share);
    for (size_t i = 0; good && i < count && i < ROWS_MOST && pairs <= ROWS_TIMES_MOST; i++) {
        rows->place[shares[i].row] = shares[i].place;
        pairs += (size_t)__builtin_popcountll(buckets[shares[i].row]);
    }
    free(shares);
    free(buckets);
    return good;
}

/* Where the row of a stack is in JSON; CODE_GROUP_NONE: it is not. */
static uint32_t place_of_stack(const struct main_rows *rows, uint32_t stack)
{
    const uint32_t row = code_groups_itself(&rows->code->groups, stack);
    return row != CODE_GROUP_NONE ? rows->place[row] : CODE_GROUP_NONE;
}

static void put_rows_times(json_t *object, const struct main_rows *rows)
{
    const struct stack_times *times = &rows->code->tally.times;
    struct over_time of = {.count = rows->count};
    of.spans = calloc(of.count * STACK_BUCKETS + 1, sizeof *of.spans);
    for (size_t i = 0; i < times->count && of.spans != NULL; i++) {
        const uint32_t place = place_of_stack(rows, times->log[i].stack);
        if (place != CODE_GROUP_NONE) take_time(rows->code, &of, place, &times->log[i]);
    }
    put_over_time(object, "rows", &of);
    free(of.spans);
}

/* ---- sizes ---- */

#define SIZE_COLUMNS                                                                          \
    "of size made bytes peak_bytes end_bytes end_objects short_lived ended_1000 ended_10000 " \
    "ended_100000 ended_1000000 ended_later"
_Static_assert(STACK_LIFETIMES == 5, "the columns say so");

static void put_sizes(json_t *object, const struct main_rows *rows)
{
    const struct by_code *code = rows->code;
    const size_t count = rows->count * STACK_MAGNITUDES;
    struct by_code_lives *sums = calloc(count + 1, sizeof *sums);
    json_t *table = json_put_table(object, "sizes", SIZE_COLUMNS);
    for (size_t i = 0; i < code->tally.cells.count && sums != NULL; i++) {
        const struct stack_cell *cell = &code->tally.cells.at[i];
        const uint32_t place = place_of_stack(rows, cell->stack);
        if (place != CODE_GROUP_NONE)
            by_code_lives_add(
                code, &sums[place * STACK_MAGNITUDES + stack_tally_magnitude(&code->tally, cell)],
                cell);
    }
    for (size_t i = 0; i < count && sums != NULL; i++) {
        const unsigned magnitude = (unsigned)(i % STACK_MAGNITUDES);
        const uint64_t size = magnitude > 0 ? UINT64_C(1) << (magnitude - 1) : 0;
        const struct by_code_lives *one = &sums[i];
        if (one->made < 0.5) continue;
        json_put_row(table, SIZE_COLUMNS, (uint64_t)(i / STACK_MAGNITUDES), size,
                     (uint64_t)llround(one->made), (uint64_t)llround(one->bytes),
                     (uint64_t)llround(one->peak_bytes), (uint64_t)llround(one->end_bytes),
                     (uint64_t)llround(one->end_objects), (uint64_t)llround(one->short_lived),
                     (uint64_t)llround(one->lived[0]), (uint64_t)llround(one->lived[1]),
                     (uint64_t)llround(one->lived[2]), (uint64_t)llround(one->lived[3]),
                     (uint64_t)llround(one->lived[4]));
    }
    free(sums);
}

/* ---- all of it ---- */

static void put_ends(json_t *object, const struct stack_times *times)
{
    json_t *end_ns = json_array();
    for (unsigned i = 0; i < times->buckets; i++)
        json_array_append_new(end_ns, times->end_ns[times->buckets - 1] == 0
                                          ? json_null()
                                          : json_whole(times->end_ns[i]));
    json_object_set_new(object, "end_ns", end_ns);
    json_put_array(object, "end_call", times->end_call, times->buckets);
}

void by_code_tree_put(json_t *object, const struct by_code *code, const uint32_t *order,
                      size_t count)
{
    struct telling telling = {.code = code};
    struct main_rows rows = {.code = code};
    json_t *times = json_object();
    const bool good = telling_make(&telling);
    if (good) table_put(object, "tree", &(struct table){tree_row, &telling, .rows = telling.count});
    put_ends(times, &code->tally.times);
    if (main_rows_choose(&rows, order, count)) {
        put_rows_times(times, &rows);
        put_sizes(object, &rows);
    }
    if (good) put_tree_times(times, &telling);
    json_object_set_new(object, "times", times);
    free(rows.place);
    code_tree_free(&telling.tree);
    free(telling.objects);
    free(telling.bytes);
    free(telling.shares);
    free(telling.told_of);
    free(telling.told);
}
