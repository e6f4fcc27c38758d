#include "report/by_code.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "report/table.h"
#include "report/words.h"

#define NO_SAMPLE "(no sample)"

enum {
    ROWS_SHOWN = 5,
    ROWS_SHOWN_IF_ASKED = 20,
    DEPTH_SHOWN = 8,
    ROWS_IN_JSON = 5000,
    LEAKS_IN_JSON = 64,
    TREE_PART = 2000, /* a branch with less than 1 / TREE_PART of everything is not in JSON */
    FREES_LEAST = 10  /* fewer samples do not tell who frees a row's objects */
};

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
enum { NUMBER_FREED = 8 };
_Static_assert(STACK_SHORT_CALLS == 100, "the words say so");

const char *const by_code_kinds[] = {[CODE_BY_FUNCTION] = "function",
                                     [CODE_BY_LINE] = "line",
                                     [CODE_BY_FILE] = "file",
                                     [CODE_BY_MODULE] = "module",
                                     [CODE_BY_STACK] = "stack"};

/* ---- making ---- */

static struct code_grouping grouping_of(const struct by_code_options *options, enum code_by by)
{
    return (struct code_grouping){.by = by,
                                  .focus = options->focused,
                                  .ignore = options->ignored,
                                  .depth = by == options->by ? options->depth : 0};
}

/* The row that a stack counts for itself, or CODE_GROUP_NONE: not in focus. */
static uint32_t row_of(const struct by_code *code, uint32_t stack)
{
    const struct stack_groups *self = &code->groups.self;
    return self->first[stack] < self->first[stack + 1] ? self->groups[self->first[stack]]
                                                       : CODE_GROUP_NONE;
}

/* A line is called "function file.c:12". */
static bool name_lines(struct by_code *code)
{
    static char name[PATH_MAX + 4096];
    struct strings *strings = &code->names.symbols.strings;
    for (size_t i = 0; i < code->groups.count && code->groups.by == CODE_BY_LINE; i++) {
        struct code_frame *frame = &code->groups.groups[i].frame;
        if (frame->line == 0) continue;
        snprintf(name, sizeof name, "%s %s:%u", code_names_text(&code->names, frame->function),
                 basename(code_names_text(&code->names, frame->file)), frame->line);
        frame->function = strings_put(strings, name);
    }
    return !strings->no_memory;
}

static bool find_oldest(struct by_code *code)
{
    const struct stack_tally *tally = &code->tally;
    code->oldest = calloc(code->groups.count + 1, sizeof *code->oldest);
    code->ages = calloc(code->groups.count + 1, sizeof *code->ages);
    const bool good = code->oldest != NULL && code->ages != NULL;
    for (uint32_t stack = 0; good && stack < tally->stacks_count; stack++) {
        const uint32_t row = row_of(code, stack);
        const uint64_t oldest = tally->oldest[stack];
        if (row == CODE_GROUP_NONE || oldest == 0) continue;
        for (unsigned i = 0; i < 4; i++)
            code->ages[row].quarters[i] += tally->ages[stack].quarters[i];
        if (code->oldest[row] == 0 || oldest < code->oldest[row]) code->oldest[row] = oldest;
    }
    return good;
}

/* Sums up the lines of functions, and lists those of each row. */
static bool find_lines(struct by_code *code)
{
    struct code_grouping *lines = &code->lines;
    *lines = grouping_of(code->options, CODE_BY_LINE);
    if (!code_groups_make(lines, &code->tally, &code->names)) return false;
    code->in_lines = calloc(lines->count + 1, sizeof *code->in_lines);
    code->lines_of = calloc(code->groups.count + 1, sizeof *code->lines_of);
    code->next_line = calloc(lines->count + 1, sizeof *code->next_line);
    if (code->in_lines == NULL || code->lines_of == NULL || code->next_line == NULL ||
        !stack_tally_sum(&code->tally, &lines->self, code->in_lines))
        return false;
    for (uint32_t stack = 0; stack < code->tally.stacks_count; stack++) {
        const uint32_t row = row_of(code, stack);
        if (row == CODE_GROUP_NONE) continue;
        const uint32_t line = lines->self.groups[lines->self.first[stack]];
        if (code->next_line[line] != 0) continue; /* it is listed */
        code->next_line[line] = code->lines_of[row] != 0 ? code->lines_of[row] : CODE_GROUP_NONE;
        code->lines_of[row] = line + 1;
    }
    return true;
}

/* ---- who frees ---- */

/* Objects that one row made and another one freed. */
struct row_pair {
    uint32_t made, freed;
    uint64_t short_lived, remote;
};

static int by_rows(const void *one, const void *other)
{
    const struct row_pair *a = one, *b = other;
    if (a->made != b->made) return a->made < b->made ? -1 : 1;
    return a->freed < b->freed ? -1 : a->freed > b->freed;
}

struct freers {
    uint64_t all, most;
    uint32_t row;
};

static void take_freer(struct freers *freers, uint32_t row, uint64_t objects)
{
    freers->all += objects;
    if (objects <= freers->most) return;
    freers->most = objects;
    freers->row = row;
}

static struct by_code_freer freer_of(const struct by_code *code, const struct freers *freers)
{
    const uint64_t least = stack_tally_frees_are_sampled(&code->tally) ? FREES_LEAST : 1;
    if (freers->all < least) return (struct by_code_freer){CODE_GROUP_NONE, 0};
    return (struct by_code_freer){freers->row, (double)freers->most / (double)freers->all};
}

/* Finds for each row that makes something who frees most of it. `pairs` are sorted by maker. */
static void take_pairs(struct by_code *code, const struct row_pair *pairs, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        struct freers short_lived = {.all = 0}, remote = {.all = 0};
        for (end = i; end < count && pairs[end].made == pairs[i].made; end++) {
            take_freer(&short_lived, pairs[end].freed, pairs[end].short_lived);
            take_freer(&remote, pairs[end].freed, pairs[end].remote);
        }
        if (pairs[i].made != CODE_GROUP_NONE)
            code->freed[pairs[i].made] =
                (struct by_code_freed){freer_of(code, &short_lived), freer_of(code, &remote)};
    }
}

static bool find_freers(struct by_code *code)
{
    const struct stack_tally *tally = &code->tally;
    struct row_pair *pairs = calloc(tally->pairs_count + 1, sizeof *pairs);
    const struct by_code_freer none = {CODE_GROUP_NONE, 0};
    size_t count = 0;
    code->freed = calloc(code->groups.count + 1, sizeof *code->freed);
    const bool good = pairs != NULL && code->freed != NULL;
    for (size_t i = 0; i <= code->groups.count && good; i++)
        code->freed[i] = (struct by_code_freed){none, none};
    for (size_t i = 0; i < tally->pairs_count && good; i++)
        pairs[i] = (struct row_pair){row_of(code, tally->pairs[i].made),
                                     row_of(code, tally->pairs[i].freed),
                                     tally->pairs[i].short_lived, tally->pairs[i].remote};
    if (good && tally->pairs_count > 1) qsort(pairs, tally->pairs_count, sizeof *pairs, by_rows);
    for (size_t i = 0; i < tally->pairs_count && good; i++) {
        if (count > 0 && by_rows(&pairs[count - 1], &pairs[i]) == 0) {
            pairs[count - 1].short_lived += pairs[i].short_lived;
            pairs[count - 1].remote += pairs[i].remote;
        } else {
            pairs[count++] = pairs[i];
        }
    }
    if (good) take_pairs(code, pairs, count);
    free(pairs);
    return good;
}

static void add_sums(struct stack_sums *to, const struct stack_sums *one)
{
    for (unsigned i = 0; i < STACK_MEASURES; i++) {
        to->objects[i].value += one->objects[i].value;
        to->bytes[i].value += one->bytes[i].value;
    }
}

static bool make_rows(struct by_code *code)
{
    const struct by_code_options *options = code->options;
    code->groups = grouping_of(options, options->by);
    if (!code_groups_make(&code->groups, &code->tally, &code->names) || !name_lines(code))
        return false;
    const size_t count = code->groups.count;
    code->self = calloc(count + 1, sizeof *code->self);
    code->total = calloc(count + 1, sizeof *code->total);
    if (code->self == NULL || code->total == NULL ||
        !stack_tally_sum(&code->tally, &code->groups.self, code->self) ||
        !stack_tally_sum(&code->tally, &code->groups.total, code->total) || !find_oldest(code) ||
        !find_lines(code) || !find_freers(code))
        return false;
    for (size_t i = 0; i < count; i++)
        add_sums(&code->all, &code->self[i]);
    return true;
}

static bool make_tree(struct by_code *code)
{
    code->tree = grouping_of(code->options, CODE_BY_TREE);
    if (!code_groups_make(&code->tree, &code->tally, &code->names)) return false;
    code->in_tree = calloc(code->tree.count + 1, sizeof *code->in_tree);
    return code->in_tree != NULL && stack_tally_sum(&code->tally, &code->tree.self, code->in_tree);
}

bool by_code_make(struct by_code *code, const struct by_code_options *options,
                  const struct code_places *places)
{
    code->is_known = true;
    code->options = options;
    return stack_tally_end(&code->tally) && code_names_open(&code->names, &code->stacks, places) &&
           make_rows(code) && make_tree(code);
}

void by_code_close(struct by_code *code)
{
    stack_tally_close(&code->tally);
    code_names_close(&code->names);
    code_groups_free(&code->groups);
    code_groups_free(&code->tree);
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
    free(code->in_tree);
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

static const struct stack_sum *by_code_sum_of(const struct stack_sums *sums,
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
        if (strchr(":/", one[length - bytes - 1]) != NULL) found = i;
    }
    return found;
}

static int by_code_by_number(const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

uint32_t *by_code_rows_of(const struct by_code *code, const struct stack_tally *tally)
{
    const struct stack_groups *self = &code->groups.self;
    uint32_t *rows = calloc(tally->live + 1, sizeof *rows);
    for (uint64_t i = 0; rows != NULL && i < tally->live; i++) {
        const uint32_t node = stack_tally_node(tally, i);
        const uint32_t *stack = bsearch(&node, code->tally.stacks, code->tally.stacks_count,
                                        sizeof node, by_code_by_number);
        const size_t at = stack != NULL ? (size_t)(stack - code->tally.stacks) : 0;
        rows[i] = stack != NULL && self->first[at] < self->first[at + 1]
                      ? self->groups[self->first[at]]
                      : CODE_GROUP_NONE;
    }
    return rows;
}

/* ---- what may leak ---- */

enum { LEAK_OBJECTS_LEAST = 16, LEAK_PART = 16 };

/* Whether its live objects were made in all quarters of the calls, at least 1 / LEAK_PART in each:
 * what is kept from the beginning, or only for a time, was not. */
static bool may_leak(const struct by_code *code, uint32_t row)
{
    const uint64_t *quarters = code->ages[row].quarters;
    const uint64_t all = quarters[0] + quarters[1] + quarters[2] + quarters[3];
    const struct code_frame *frame = &code->groups.groups[row].frame;
    bool grows = all >= LEAK_OBJECTS_LEAST && (frame->code != 0 || frame->function != 0);
    for (unsigned i = 0; i < 4; i++)
        grows = grows && quarters[i] * LEAK_PART >= all;
    return grows;
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

/* ---- text ---- */

struct order {
    const struct by_code *code;
    const struct by_code_number *number;
    bool is_all; /* with rows that only call what asks for memory, or that only free */
    uint32_t *rows;
    size_t count;
};

/* A stack has no number but its own. */
static bool sorts_total(const struct by_code *code)
{
    return code->options->sorts_total && code->groups.by < CODE_BY_STACK;
}

static int by_value(const void *one, const void *other, void *of)
{
    const struct order *order = of;
    const struct stack_sums *by[] = {order->code->total, order->code->self};
    for (unsigned i = !sorts_total(order->code); i < 2; i++) {
        const double a = by_code_sum_of(&by[i][*(const uint32_t *)one], order->number)->value;
        const double b = by_code_sum_of(&by[i][*(const uint32_t *)other], order->number)->value;
        if (a != b) return a > b ? -1 : 1;
    }
    return strcmp(by_code_name(order->code, *(const uint32_t *)one),
                  by_code_name(order->code, *(const uint32_t *)other));
}

/* Sorts the rows, the greatest first, and leaves out those with 0. False: no memory. */
static bool order_rows(struct order *order)
{
    const struct by_code *code = order->code;
    order->rows = calloc(code->groups.count + 1, sizeof *order->rows);
    if (order->rows == NULL) return false;
    for (uint32_t i = 0; i < code->groups.count; i++)
        if (by_code_sum_of(&code->self[i], order->number)->value >= 0.5 ||
            ((order->is_all || sorts_total(code)) &&
             by_code_sum_of(&code->total[i], order->number)->value >= 0.5) ||
            (order->is_all && (code->self[i].objects[STACK_FREED].value >= 0.5 ||
                               code->total[i].objects[STACK_MAPPED].value >= 0.5)))
            order->rows[order->count++] = i;
    qsort_r(order->rows, order->count, sizeof *order->rows, by_value, order);
    return true;
}

static const char *value_text(const struct by_code_number *number, double value)
{
    return number->is_bytes ? words_bytes((uint64_t)llround(value))
                            : words_count((uint64_t)llround(value));
}

/* Where a row itself makes a number. */
struct place {
    const struct code_frame *most; /* NULL: nowhere */
    unsigned others;               /* other lines that have a part in it */
};

static struct place most_of(const struct by_code *code, uint32_t row,
                            const struct by_code_number *number)
{
    struct place place = {.most = NULL};
    double most = 0;
    unsigned count = 0;
    uint32_t line = code->lines_of[row];
    for (; line != 0 && line != CODE_GROUP_NONE; line = code->next_line[line - 1]) {
        const double value = by_code_sum_of(&code->in_lines[line - 1], number)->value;
        if (value < 0.5) continue;
        count++;
        if (value <= most) continue;
        most = value;
        place.most = &code->lines.groups[line - 1].frame;
    }
    place.others = count > 0 ? count - 1 : 0;
    return place;
}

/* If a row has nothing of the number: where it asks for most, or frees. */
static struct place place_of(const struct by_code *code, uint32_t row,
                             const struct by_code_number *number)
{
    const enum code_by by = code->groups.by;
    if (by == CODE_BY_LINE || by == CODE_BY_STACK)
        return (struct place){.most = &code->groups.groups[row].frame};
    struct place place = most_of(code, row, number);
    if (place.most == NULL) place = most_of(code, row, &by_code_numbers[0]);
    if (place.most == NULL) place = most_of(code, row, &by_code_numbers[NUMBER_FREED]);
    return place;
}

/* "file.c:12" of a frame, or its module. */
static void print_frame_place(const struct by_code *code, const struct code_frame *frame,
                              bool whole, FILE *to)
{
    const char *file = code_names_text(&code->names, frame->file);
    const char *module = code_names_text(&code->names, frame->module);
    const char *text = *file != '\0' ? file : module;
    fputs(whole ? text : basename(text), to);
    if (*file != '\0') fprintf(to, ":%u", frame->line);
}

/* The same, and how many other lines there are. `whole`: with the path. */
static void print_place(const struct by_code *code, uint32_t row,
                        const struct by_code_number *number, bool whole, FILE *to)
{
    const struct place place = place_of(code, row, number);
    if (place.most == NULL) return;
    print_frame_place(code, place.most, whole, to);
    if (place.most->line != 0 && place.others > 0)
        fprintf(to, " and %u other%s", place.others, place.others > 1 ? "s" : "");
}

/* By others, a row's name says where it is. */
static bool has_place(const struct by_code *code)
{
    return code->groups.by == CODE_BY_FUNCTION || code->groups.by == CODE_BY_STACK;
}

void by_code_print_place(const struct by_code *code, uint32_t row,
                         const struct by_code_number *number, FILE *to)
{
    if (!has_place(code) || place_of(code, row, number).most == NULL) return;
    fputs("  ", to);
    print_place(code, row, number, false, to);
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
        print_frame_place(code, &frames[i], false, to);
        fputc('\n', to);
    }
    if (count > own + depth) fprintf(to, "%26s %u more\n", "and", count - own - depth);
}

static bool by_code_is_sampled(const struct by_code *code, const struct by_code_number *number)
{
    if (number->measure == STACK_MAPPED) return false;
    return number->measure < STACK_FREED ? stack_tally_is_sampled(&code->tally)
                                         : stack_tally_frees_are_sampled(&code->tally);
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
    struct order order = {.code = code, .number = number};
    const size_t usual = code->options->is_by_given ? ROWS_SHOWN_IF_ASKED : ROWS_SHOWN;
    const size_t shown = code->options->top > 0 ? code->options->top : usual;
    if (by_code_sum_of(&code->all, number)->value < 0.5 || !order_rows(&order)) return;
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
            "interval).\n",
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

/* ---- JSON ---- */

/* The cells of the measures that every table has, from `sums`. */
#define CELLS_OF(sums)                                                               \
    {"made", .value = round((sums)->objects[STACK_MADE].value)},                     \
        {"bytes", .value = round((sums)->bytes[STACK_MADE].value)},                  \
        {"peak_objects", .value = round((sums)->objects[STACK_AT_PEAK].value)},      \
        {"peak_bytes", .value = round((sums)->bytes[STACK_AT_PEAK].value)},          \
        {"end_objects", .value = round((sums)->objects[STACK_AT_END].value)},        \
        {"end_bytes", .value = round((sums)->bytes[STACK_AT_END].value)},            \
        {"short_lived", .value = round((sums)->objects[STACK_SHORT_LIVED].value)},   \
        {"grown", .value = round((sums)->objects[STACK_GROWN].value)},               \
        {"grown_bytes", .value = round((sums)->bytes[STACK_GROWN].value)},           \
        {"remote_frees", .value = round((sums)->objects[STACK_REMOTE].value)},       \
        {"freed", .value = round((sums)->objects[STACK_FREED].value)},               \
        {"freed_bytes", .value = round((sums)->bytes[STACK_FREED].value)},           \
        {"freed_remote", .value = round((sums)->objects[STACK_FREED_REMOTE].value)}, \
    {                                                                                \
        "mapped", .value = round((sums)->bytes[STACK_MAPPED].value)                  \
    }

/* Half the confidence interval of a sum; NAN, which becomes null, if it is exact. */
static double margin(const struct by_code *code, const struct stack_sum *sum)
{
    return stack_tally_is_sampled(&code->tally) ? ceil(stack_sum_margin(sum)) : NAN;
}

/* Two cells: the name of a row, or null, and a share. */
#define FREER(key, share_key, of)                                                       \
    {(key), .value = NAN,                                                               \
     .text = (of).row != CODE_GROUP_NONE ? by_code_name(code, (of).row) : NULL},        \
    {                                                                                   \
        (share_key), (of).row != CODE_GROUP_NONE ? (of).share : NAN, .unit = UNIT_TIMES \
    }

static bool code_row(const void *of, size_t at, struct table_row *row)
{
    static const struct stack_sums none;
    static const struct code_frame nowhere;
    const struct by_code *code = of;
    const bool there = at < code->groups.count;
    const struct stack_sums *self = there ? &code->self[at] : &none;
    const struct stack_sums *total = there ? &code->total[at] : &none;
    const struct place most = place_of(code, there ? (uint32_t)at : 0, &by_code_numbers[0]);
    const struct code_frame *place = there && most.most != NULL ? most.most : &nowhere;
    const struct by_code_freed *freed = &code->freed[there ? at : code->groups.count];
    const struct cell cells[] = {
        {"name", .text = there ? by_code_name(code, (uint32_t)at) : ""},
        {"file", .text = code_names_text(&code->names, place->file)},
        {"line", .value = place->line},
        {"module", .text = code_names_text(&code->names, place->module)},
        CELLS_OF(self),
        {"made_margin", .value = margin(code, &self->objects[STACK_MADE])},
        {"bytes_margin", .value = margin(code, &self->bytes[STACK_MADE])},
        {"peak_margin", .value = margin(code, &self->bytes[STACK_AT_PEAK])},
        {"end_margin", .value = margin(code, &self->bytes[STACK_AT_END])},
        {"oldest_call", .value = there ? code->oldest[at] : 0},
        FREER("short_lived_freed_by", "short_lived_freed_share", freed->short_lived),
        FREER("remote_freed_by", "remote_freed_share", freed->remote),
        {"freed_margin", .value = stack_tally_frees_are_sampled(&code->tally)
                                      ? ceil(stack_sum_margin(&self->objects[STACK_FREED]))
                                      : NAN},
        {"total_made", .value = round(total->objects[STACK_MADE].value)},
        {"total_bytes", .value = round(total->bytes[STACK_MADE].value)},
        {"total_peak_bytes", .value = round(total->bytes[STACK_AT_PEAK].value)},
        {"total_end_bytes", .value = round(total->bytes[STACK_AT_END].value)},
        {"total_mapped", .value = round(total->bytes[STACK_MAPPED].value)},
    };
    TABLE_ROW(row, cells);
    return there;
}

/* Where most of each number of a row is made: the same order as code_row(). */
static bool where_row(const void *of, size_t at, struct table_row *row)
{
    static const char *const keys[BY_CODE_NUMBERS] = {
        "bytes",       "made",         "peak_bytes", "end_bytes",    "end_objects", "short_lived",
        "grown_bytes", "remote_frees", "freed",      "freed_remote", "mapped"};
    static char texts[BY_CODE_NUMBERS][PATH_MAX + 64];
    const struct by_code *code = of;
    row->count = BY_CODE_NUMBERS;
    for (unsigned i = 0; i < BY_CODE_NUMBERS; i++) {
        texts[i][0] = '\0';
        const bool there = at < code->groups.count &&
                           by_code_itself(code, (uint32_t)at, &by_code_numbers[i]) >= 0.5;
        FILE *to = there ? fmemopen(texts[i], sizeof texts[i], "w") : NULL;
        if (to != NULL) {
            print_place(code, (uint32_t)at, &by_code_numbers[i], true, to);
            fclose(to);
        }
        row->cells[i] = (struct cell){keys[i], .text = texts[i]};
    }
    return at < code->groups.count;
}

static bool leak_row(const void *of, size_t at, struct table_row *row)
{
    static const struct stack_sums none;
    static char place[PATH_MAX + 64];
    const struct by_code *code = of;
    const bool there = at < code->groups.count;
    const struct stack_sums *self = there ? &code->self[at] : &none;
    place[0] = '\0';
    FILE *to = there ? fmemopen(place, sizeof place, "w") : NULL;
    if (to != NULL) {
        print_place(code, (uint32_t)at, &by_code_numbers[BY_CODE_END], true, to);
        fclose(to);
    }
    const struct cell cells[] = {{"name", .text = there ? by_code_name(code, (uint32_t)at) : ""},
                                 {"where", .text = place},
                                 {"made", .value = round(self->objects[STACK_MADE].value)},
                                 {"end_objects", .value = round(self->objects[STACK_AT_END].value)},
                                 {"end_bytes", .value = round(self->bytes[STACK_AT_END].value)}};
    TABLE_ROW(row, cells);
    return there;
}

/* A branch of the tree that may be put into JSON ("told"). */
struct branch {
    struct stack_sums sums; /* without those of told branches below it */
    double share;           /* the largest of all measures, branches below it included */
    uint32_t parent;        /* the nearest one that is told */
    uint32_t number;
    bool is_told;
};

struct telling {
    const struct by_code *code;
    struct branch *branches;
    uint32_t *told; /* branches */
    size_t count;
};

static double most_share(const struct stack_sums *sums, const struct stack_sums *all)
{
    double most = 0;
    for (unsigned i = 0; i < STACK_MEASURES; i++) {
        if (all->objects[i].value > 0)
            most = fmax(most, sums->objects[i].value / all->objects[i].value);
        if (all->bytes[i].value > 0) most = fmax(most, sums->bytes[i].value / all->bytes[i].value);
    }
    return most;
}

/* Merges small branches into the one that they grow from. (A parent's index is lower than its
 * children's.) False: no memory. */
static bool cut_tree(struct telling *telling)
{
    const struct code_grouping *tree = &telling->code->tree;
    struct stack_sums *below = calloc(tree->count + 1, sizeof *below);
    telling->branches = calloc(tree->count + 1, sizeof *telling->branches);
    telling->told = calloc(tree->count + 1, sizeof *telling->told);
    const bool good = below != NULL && telling->branches != NULL && telling->told != NULL;
    for (uint32_t i = (uint32_t)tree->count; good && i-- > 0;) {
        const uint32_t parent = tree->groups[i].parent;
        add_sums(&below[i], &telling->code->in_tree[i]);
        if (parent != CODE_GROUP_NONE) add_sums(&below[parent], &below[i]);
    }
    for (uint32_t i = 0; good && i < tree->count; i++) {
        struct branch *branch = &telling->branches[i];
        uint32_t parent = tree->groups[i].parent;
        branch->is_told = parent == CODE_GROUP_NONE ||
                          most_share(&below[i], &telling->code->all) * TREE_PART >= 1;
        while (parent != CODE_GROUP_NONE && !telling->branches[parent].is_told)
            parent = tree->groups[parent].parent;
        branch->parent = parent;
        add_sums(&telling->branches[branch->is_told ? i : parent].sums, &telling->code->in_tree[i]);
        if (!branch->is_told) continue;
        branch->number = (uint32_t)telling->count;
        telling->told[telling->count++] = i;
    }
    free(below);
    return good;
}

static bool tree_row(const void *of, size_t at, struct table_row *row)
{
    static const struct branch none;
    const struct telling *telling = of;
    const bool there = at < telling->code->tree.count;
    const struct branch *branch = there ? &telling->branches[at] : &none;
    const bool is_root = !there || branch->parent == CODE_GROUP_NONE;
    const uint32_t function = there ? telling->code->tree.groups[at].frame.function : 0;
    const struct cell cells[] = {
        {"name", .text = function != 0 ? code_names_text(&telling->code->names, function)
                                       : BY_CODE_NO_STACK},
        {"parent", .value = is_root ? NAN : (long double)telling->branches[branch->parent].number},
        CELLS_OF(&branch->sums),
    };
    TABLE_ROW(row, cells);
    return there;
}

static void put_tree(json_t *object, const struct by_code *code)
{
    struct telling telling = {.code = code};
    if (cut_tree(&telling))
        table_put(object, "tree",
                  &(struct table){tree_row, &telling, telling.count, .order = telling.told});
    free(telling.branches);
    free(telling.told);
}

static bool all_row(const void *of, size_t at, struct table_row *row)
{
    const struct by_code *code = of;
    const struct cell cells[] = {CELLS_OF(&code->all)};
    TABLE_ROW(row, cells);
    return at == 0;
}

json_t *by_code_json(const struct by_code *code)
{
    json_t *object = json_object();
    struct order order = {.code = code, .number = &by_code_numbers[1], .is_all = true};
    if (code->tally.chance.bytes > 0)
        json_put_number(object, "sample_bytes", code->tally.chance.bytes);
    else
        json_object_set_new(object, "sample_bytes", json_null());
    json_put_text(object, "by", by_code_kinds[code->groups.by]);
    json_put_text(object, "focus", code->options->focus);
    json_put_text(object, "ignore", code->options->ignore);
    json_put_text(object, "sort", sorts_total(code) ? "total" : "own");
    json_object_set_new(object, "all", table_row_json(all_row, code, 0));
    if (order_rows(&order)) {
        const size_t count = order.count < ROWS_IN_JSON ? order.count : ROWS_IN_JSON;
        table_put(object, "rows", &(struct table){code_row, code, count, .order = order.rows});
        table_put(object, "where", &(struct table){where_row, code, count, .order = order.rows});
    }
    free(order.rows);
    uint32_t leaks[LEAKS_IN_JSON];
    const unsigned leaking = by_code_leaks(code, leaks, LEAKS_IN_JSON);
    table_put(object, "may_leak", &(struct table){leak_row, code, leaking, .order = leaks});
    put_tree(object, code);
    return object;
}
