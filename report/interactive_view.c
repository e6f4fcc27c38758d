#include "report/interactive_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "report/by_code_totals.h"

/* ---- numbers ---- */

bool view_is_part(const struct view *view)
{
    return view->from > 0 || view->until < view->code->tally.times.buckets;
}

unsigned view_numbers(const struct view *view)
{
    return view_is_part(view) ? (unsigned)VIEW_SPANS : (unsigned)BY_CODE_NUMBERS;
}

bool view_has_number(const struct view *view, unsigned number)
{
    if (view_is_part(view)) return true;
    return by_code_numbers[number].words != NULL &&
           by_code_sum_of(&view->code->all, &by_code_numbers[number])->value >= 0.5;
}

const char *view_number_words(const struct view *view)
{
    static const char *const spans[] = {"grown in this time", "allocated in this time",
                                        "freed in this time"};
    return view_is_part(view) ? spans[view->number] : by_code_numbers[view->number].words;
}

bool view_is_bytes(const struct view *view)
{
    return view_is_part(view) || by_code_numbers[view->number].is_bytes;
}

static double span_number(const struct view *view, const struct by_code_span *span)
{
    switch (view->number) {
    case VIEW_MADE: return span->bytes;
    case VIEW_FREED: return span->ended_bytes;
    default: return span->bytes - span->ended_bytes;
    }
}

/* ---- time ---- */

uint64_t view_from_ns(const struct view *view)
{
    return view->from > 0 ? view->code->tally.times.end_ns[view->from - 1] : 0;
}

uint64_t view_until_ns(const struct view *view)
{
    return view->code->tally.times.end_ns[view->until - 1];
}

void view_choose_time(struct view *view, uint64_t from_ns, uint64_t to_ns)
{
    const struct stack_times *times = &view->code->tally.times;
    unsigned from = 0;
    while (from + 1 < times->buckets && times->end_ns[from] <= from_ns)
        from++;
    unsigned until = from + 1;
    while (until < times->buckets && times->end_ns[until - 1] < to_ns)
        until++;
    view->from = from;
    view->until = until;
}

/* ---- opening ---- */

static bool make_children(struct view *view)
{
    const struct code_tree *tree = &view->tree;
    view->first_child = calloc(tree->count + 1, sizeof *view->first_child);
    view->next_child = calloc(tree->count + 1, sizeof *view->next_child);
    view->branch_own = calloc(tree->count + 1, sizeof *view->branch_own);
    view->branch_with = calloc(tree->count + 1, sizeof *view->branch_with);
    if (view->first_child == NULL || view->next_child == NULL || view->branch_own == NULL ||
        view->branch_with == NULL)
        return false;
    for (uint32_t i = (uint32_t)tree->count; i-- > 0;) {
        const uint32_t parent = tree->branches[i].parent;
        uint32_t *first = &view->first_child[parent != CODE_BRANCH_NONE ? parent : tree->count];
        view->next_child[i] = *first;
        *first = i + 1;
    }
    return true;
}

bool view_open(struct view *view)
{
    const struct by_code *code = view->code;
    const struct code_names *names = &code->names;
    view->until = code->tally.times.buckets;
    view->sorts_total = code->options->sorts_total;
    view->row_own = calloc(code->groups.count + 1, sizeof *view->row_own);
    view->row_with = calloc(code->groups.count + 1, sizeof *view->row_with);
    view->is_library = calloc(names->symbols.strings.count + 1, 1);
    if (view->row_own == NULL || view->row_with == NULL || view->is_library == NULL ||
        !code_tree_make(&view->tree, &code->groups, &code->tally, names) || !make_children(view))
        return false;
    for (size_t i = CODE_FRAME_FIRST; i < names->count; i++)
        view->is_library[names->frames[i].function] |= names->frames[i].is_library;
    return true;
}

static void lines_free(struct view *view, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        free(view->lines[i].places);
}

void view_close(struct view *view)
{
    lines_free(view, 0, view->count);
    free(view->lines);
    code_tree_free(&view->tree);
    free(view->first_child);
    free(view->next_child);
    free(view->is_library);
    free(view->branch_own);
    free(view->branch_with);
    free(view->row_own);
    free(view->row_with);
    *view = (struct view){.code = NULL};
}

/* ---- values of rows and branches ---- */

static void value_branches(struct view *view, const struct by_code_span *spans)
{
    const struct by_code *code = view->code;
    const struct code_tree *tree = &view->tree;
    memset(view->branch_own, 0, (tree->count + 1) * sizeof *view->branch_own);
    for (size_t i = 0; spans != NULL && i < code->tally.stacks_count; i++)
        if (tree->of[i] != CODE_BRANCH_NONE)
            view->branch_own[tree->of[i]] += span_number(view, &spans[i]);
    for (size_t i = 0; spans == NULL && i < code->tally.cells.count; i++) {
        const struct by_code_number *number = &by_code_numbers[view->number];
        const struct stack_cell *cell = &code->tally.cells.at[i];
        double objects, bytes;
        if (tree->of[cell->stack] != CODE_BRANCH_NONE &&
            stack_cell_value(&code->scales, cell, number->measure, &objects, &bytes))
            view->branch_own[tree->of[cell->stack]] += number->is_bytes ? bytes : objects;
    }
    memcpy(view->branch_with, view->branch_own, tree->count * sizeof *view->branch_with);
    view->all = 0;
    for (size_t i = tree->count; i-- > 0;) {
        const uint32_t parent = tree->branches[i].parent;
        *(parent != CODE_BRANCH_NONE ? &view->branch_with[parent] : &view->all) +=
            view->branch_with[i];
    }
}

static bool value_rows(struct view *view, const struct by_code_span *spans)
{
    struct by_code *code = view->code;
    struct by_code_span *self = NULL, *total = NULL;
    const bool good = spans == NULL || by_code_spans_of_rows(code, spans, &self, &total);
    for (uint32_t i = 0; good && i < code->groups.count; i++) {
        const struct by_code_number *number = &by_code_numbers[view->number];
        view->row_own[i] =
            spans != NULL ? span_number(view, &self[i]) : by_code_itself(code, i, number);
        view->row_with[i] =
            spans != NULL ? span_number(view, &total[i]) : by_code_value(code, i, number);
    }
    free(self);
    free(total);
    return good;
}

static bool value_all(struct view *view)
{
    struct by_code_span *spans = NULL;
    if (view_is_part(view)) {
        spans = by_code_spans(view->code, view->from, view->until);
        if (spans == NULL) return false;
    }
    value_branches(view, spans);
    const bool good = value_rows(view, spans);
    free(spans);
    return good;
}

/* ---- lines ---- */

/* Whether a value is worth a line. */
static bool is_worth_line(double value)
{
    return value >= 0.5 || value <= -0.5;
}

static int by_with(const void *one, const void *other)
{
    const struct view_line *a = one, *b = other;
    if (a->with != b->with) return a->with > b->with ? -1 : 1;
    if (a->own != b->own) return a->own > b->own ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_own(const void *one, const void *other)
{
    const struct view_line *a = one, *b = other;
    return a->own != b->own ? (a->own > b->own ? -1 : 1) : by_with(one, other);
}

static bool lines_insert(struct view *view, size_t at, const struct view_line *lines, size_t count)
{
    if (!array_reserve(&view->lines, &view->room, view->count + count, sizeof *view->lines))
        return false;
    memmove(view->lines + at + count, view->lines + at, (view->count - at) * sizeof *view->lines);
    if (count > 0) memcpy(view->lines + at, lines, count * sizeof *lines);
    view->count += count;
    return true;
}

static bool matches(const struct view *view, const struct view_line *line)
{
    return view->filter[0] == '\0' || strcasestr(view_name(view, line), view->filter) != NULL;
}

static bool show_table(struct view *view)
{
    for (uint32_t i = 0; i < view->code->groups.count; i++) {
        const struct view_line line = {.id = i, .own = view->row_own[i], .with = view->row_with[i]};
        if ((!is_worth_line(line.own) && !is_worth_line(line.with)) || !matches(view, &line))
            continue;
        if (!lines_insert(view, view->count, &line, 1)) return false;
    }
    if (view->count > 1)
        qsort(view->lines, view->count, sizeof *view->lines, view->sorts_total ? by_with : by_own);
    return true;
}

/* ---- the tree ---- */

/* Whether a branch or one below it matches the filter. */
static bool branch_matches(const struct view *view, uint32_t branch)
{
    const struct view_line line = {.id = branch};
    if (matches(view, &line)) return true;
    for (uint32_t child = view->first_child[branch]; child != 0;
         child = view->next_child[child - 1])
        if (is_worth_line(view->branch_with[child - 1]) && branch_matches(view, child - 1))
            return true;
    return false;
}

static bool open_tree(struct view *view, uint32_t parent, unsigned depth, size_t at)
{
    struct view_line *lines = NULL;
    size_t count = 0, room = 0;
    bool good = true;
    for (uint32_t child = view->first_child[parent]; good && child != 0;
         child = view->next_child[child - 1]) {
        const uint32_t id = child - 1;
        if (!is_worth_line(view->branch_with[id]) || !branch_matches(view, id)) continue;
        good = array_reserve(&lines, &room, count + 1, sizeof *lines);
        if (good)
            lines[count++] = (struct view_line){.id = id,
                                                .depth = depth,
                                                .has_more = view->first_child[id] != 0,
                                                .own = view->branch_own[id],
                                                .with = view->branch_with[id]};
    }
    if (count > 1) qsort(lines, count, sizeof *lines, by_with);
    good = good && lines_insert(view, at, lines, count);
    free(lines);
    return good;
}

/* ---- callers ---- */

static int by_function(const void *one, const void *other, void *of)
{
    const struct view *view = of;
    const struct code_branch *branches = view->tree.branches;
    const uint32_t a = ((const struct view_place *)one)->branch;
    const uint32_t b = ((const struct view_place *)other)->branch;
    const uint32_t f = branches[a].function, g = branches[b].function;
    return f != g ? (f < g ? -1 : 1) : a < b ? -1 : a > b;
}

/* Adds a line for each function of the places. */
static bool open_places(struct view *view, struct view_place *places, size_t count, unsigned depth,
                        size_t at)
{
    const struct code_branch *branches = view->tree.branches;
    size_t inserted = 0;
    bool good = true;
    if (count > 1) qsort_r(places, count, sizeof *places, by_function, view);
    for (size_t i = 0, end; good && i < count; i = end) {
        struct view_line line = {.id = branches[places[i].branch].function, .depth = depth};
        for (end = i; end < count && branches[places[end].branch].function == line.id; end++) {
            line.with += places[end].own;
            line.has_more |= branches[places[end].branch].parent != CODE_BRANCH_NONE;
        }
        line.own = line.with;
        if (!is_worth_line(line.with) || (depth == 0 && !matches(view, &line))) continue;
        line.places_count = end - i;
        line.places = calloc(line.places_count, sizeof *line.places);
        good = line.places != NULL;
        if (good) memcpy(line.places, &places[i], line.places_count * sizeof *line.places);
        good = good && lines_insert(view, at + inserted, &line, 1);
        inserted += good;
    }
    if (inserted > 1) qsort(view->lines + at, inserted, sizeof *view->lines, by_with);
    return good;
}

/* Begins with what makes memory: what containers and other libraries do counts for their caller. */
static bool show_callers(struct view *view)
{
    const struct code_branch *branches = view->tree.branches;
    struct view_place *places = calloc(view->tree.count + 1, sizeof *places);
    size_t count = 0;
    bool good = places != NULL;
    for (uint32_t i = 0; good && i < view->tree.count; i++) {
        uint32_t at = i;
        if (!is_worth_line(view->branch_own[i])) continue;
        while (view->is_library[branches[at].function] && branches[at].parent != CODE_BRANCH_NONE)
            at = branches[at].parent;
        places[count++] = (struct view_place){view->is_library[branches[at].function] ? i : at,
                                              view->branch_own[i]};
    }
    good = good && open_places(view, places, count, 0, 0);
    free(places);
    return good;
}

static bool open_callers(struct view *view, size_t at)
{
    const struct view_line *line = &view->lines[at];
    struct view_place *places = calloc(line->places_count + 1, sizeof *places);
    size_t count = 0;
    if (places == NULL) return false;
    for (size_t i = 0; i < line->places_count; i++) {
        const uint32_t parent = view->tree.branches[line->places[i].branch].parent;
        if (parent != CODE_BRANCH_NONE)
            places[count++] = (struct view_place){parent, line->places[i].own};
    }
    const bool good = open_places(view, places, count, line->depth + 1, at + 1);
    free(places);
    return good;
}

/* ---- all of it ---- */

bool view_show(struct view *view)
{
    lines_free(view, 0, view->count);
    view->count = 0;
    if (view->number >= view_numbers(view)) view->number = 0;
    if (!value_all(view)) return false;
    switch (view->kind) {
    case VIEW_TREE: return open_tree(view, (uint32_t)view->tree.count, 0, 0);
    case VIEW_CALLERS: return show_callers(view);
    default: return show_table(view);
    }
}

static void close_line(struct view *view, size_t at)
{
    size_t end = at + 1;
    while (end < view->count && view->lines[end].depth > view->lines[at].depth)
        end++;
    lines_free(view, at + 1, end);
    memmove(view->lines + at + 1, view->lines + end, (view->count - end) * sizeof *view->lines);
    view->count -= end - at - 1;
}

bool view_toggle(struct view *view, size_t at)
{
    struct view_line *line = &view->lines[at];
    if (!line->has_more) return true;
    line->is_open = !line->is_open;
    if (!line->is_open) {
        close_line(view, at);
        return true;
    }
    return view->kind == VIEW_TREE ? open_tree(view, line->id, line->depth + 1, at + 1)
                                   : open_callers(view, at);
}

const char *view_name(const struct view *view, const struct view_line *line)
{
    if (view->kind == VIEW_TABLE) return by_code_name(view->code, line->id);
    const uint32_t function =
        view->kind == VIEW_TREE ? view->tree.branches[line->id].function : line->id;
    return function != 0 ? code_names_text(&view->code->names, function) : BY_CODE_NO_STACK;
}
