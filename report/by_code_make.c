#include "report/by_code_make.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report/by_code_freed.h"
#include "report/by_code_totals.h"

static struct code_grouping grouping_of(const struct by_code_options *options, enum code_by by)
{
    return (struct code_grouping){.by = by,
                                  .focus = options->focused,
                                  .ignore = options->ignored,
                                  .depth = by == options->by ? options->depth : 0};
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
        const uint32_t row = code_groups_itself(&code->groups, stack);
        const uint64_t *quarters = tally->ages[stack].quarters, oldest = tally->oldest[stack];
        if (row == CODE_GROUP_NONE || stack_ages_all(&tally->ages[stack]) == 0) continue;
        const bool is_first = stack_ages_all(&code->ages[row]) == 0;
        if (is_first || oldest < code->oldest[row]) code->oldest[row] = oldest;
        for (unsigned i = 0; i < 4; i++)
            code->ages[row].quarters[i] += quarters[i];
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
        const uint32_t row = code_groups_itself(&code->groups, stack);
        if (row == CODE_GROUP_NONE) continue;
        const uint32_t line = lines->self.groups[lines->self.first[stack]];
        if (code->next_line[line] != 0) continue; /* it is listed */
        code->next_line[line] = code->lines_of[row] != 0 ? code->lines_of[row] : CODE_GROUP_NONE;
        code->lines_of[row] = line + 1;
    }
    return true;
}

static bool make_rows(struct by_code *code)
{
    const struct by_code_options *options = code->options;
    code->groups = grouping_of(options, options->by);
    if (!by_code_totals_make(code) || !name_lines(code)) return false;
    const size_t count = code->groups.count;
    code->self = calloc(count + 1, sizeof *code->self);
    if (code->self == NULL || !stack_tally_sum(&code->tally, &code->groups.self, code->self) ||
        !find_oldest(code) || !find_lines(code) || !by_code_freed_find(code))
        return false;
    for (size_t i = 0; i < count; i++)
        by_code_add(&code->all, &code->self[i]);
    return true;
}

/* Which rows have nothing alive at the end but what is known to stay. */
static bool find_suppressed(struct by_code *code)
{
    const struct stack_tally *tally = &code->tally;
    uint8_t *stacks = calloc(tally->stacks_count + 1, 1);
    code->suppressed = calloc(code->groups.count + 1, 1);
    const bool good = stacks != NULL && code->suppressed != NULL;
    if (good && code->options->suppressions != NULL)
        suppressions_find(code->options->suppressions, tally, &code->names, stacks);
    for (unsigned other = 0; good && other < 2; other++) /* one other stack, and it is shown */
        for (uint32_t i = 0; i < tally->stacks_count; i++) {
            const uint32_t row = code_groups_itself(&code->groups, i);
            if (row != CODE_GROUP_NONE && tally->oldest[i] != 0 && (stacks[i] == 0) == other)
                code->suppressed[row] = !other;
        }
    for (size_t i = 0; good && i < code->groups.count; i++)
        if (code->suppressed[i]) by_code_add(&code->suppressions, &code->self[i]);
    free(stacks);
    return good;
}

/* Sums up the range that the user asked for. */
static bool make_range(struct by_code *code)
{
    const struct stack_times *times = &code->tally.times;
    if (!code->options->has_range) return true;
    struct by_code_span *spans = by_code_spans(code, times->from, times->until);
    const bool good =
        spans != NULL && by_code_spans_of_rows(code, spans, &code->span_of, &code->span_with);
    free(spans);
    return good;
}

bool by_code_make(struct by_code *code, const struct by_code_options *options,
                  const struct code_places *places)
{
    code->is_known = true;
    code->options = options;
    return stack_tally_end(&code->tally) && stack_scales_make(&code->scales, &code->tally) &&
           code_names_open(&code->names, &code->stacks, places) && make_rows(code) &&
           find_suppressed(code) && make_range(code);
}
