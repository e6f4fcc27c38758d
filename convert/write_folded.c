/* write_folded - a line for each call stack, "outermost;...;innermost VALUE": what flamegraph.pl,
 * speedscope and others read. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/export_writer.h"
#include "symbols/code_tree.h"

enum { DEPTH_MAX = CODE_FRAMES_MAX };

/* Replaces characters in a name that have a meaning in a line. */
static bool put_name(struct export *export, const char *name)
{
    bool good = true;
    for (const char *at = name; good && *at != '\0'; at++)
        good = output_write(&export->output, *at == ';' ? ":" : at, 1);
    return good;
}

static bool folded_put_line(struct export *export, const struct strings *names,
                            const struct code_tree *tree, uint32_t leaf, double value)
{
    uint32_t path[DEPTH_MAX];
    unsigned depth = 0;
    char number[40];
    bool good = true;
    for (uint32_t at = leaf; at != CODE_BRANCH_NONE && depth < DEPTH_MAX;
         at = tree->branches[at].parent)
        path[depth++] = at;
    while (good && depth-- > 0) {
        const uint32_t function = tree->branches[path[depth]].function;
        good = put_name(export, function != 0 ? names->at[function] : EXPORT_NO_STACK);
        if (good && depth > 0) good = output_write(&export->output, ";", 1);
    }
    const int length = snprintf(number, sizeof number, " %.0f\n", value);
    export->calls++;
    return good && output_write(&export->output, number, (size_t)length);
}

/* What each branch has of the measure. NULL: no memory. */
static double *values_of_branches(const struct export_code *code, const struct code_tree *tree)
{
    struct stack_scales scales = {.of = {NULL}};
    double *values = calloc(tree->count + 1, sizeof *values);
    const bool good = values != NULL && stack_scales_make(&scales, code->tally);
    for (size_t i = 0; good && i < code->tally->cells.count; i++) {
        const struct stack_cell *cell = &code->tally->cells.at[i];
        double objects, bytes;
        if (stack_cell_value(&scales, cell, code->measure, &objects, &bytes))
            values[tree->of[cell->stack]] += code->is_bytes ? bytes : objects;
    }
    stack_scales_free(&scales);
    if (good) return values;
    free(values);
    return NULL;
}

/* "function file.c:12" of each frame. NULL: no memory. */
static uint32_t *folded_name_lines(const struct code_names *names, struct strings *lines)
{
    static char name[PATH_MAX + 8192];
    uint32_t *name_of = calloc(names->count + 1, sizeof *name_of);
    for (size_t i = 0; name_of != NULL && i < names->count; i++) {
        const struct code_frame *frame = &names->frames[i];
        int used = snprintf(name, sizeof name, "%s", code_names_text(names, frame->function));
        if (frame->line != 0 && used >= 0 && (size_t)used < sizeof name)
            snprintf(name + used, sizeof name - (size_t)used, " %s:%u",
                     basename(code_names_text(names, frame->file)), frame->line);
        name_of[i] = strings_put(lines, name);
    }
    if (!lines->no_memory) return name_of;
    free(name_of);
    return NULL;
}

static bool folded_put_tree(struct export *export, const struct export_code *code,
                            const struct strings *names, const uint32_t *name_of)
{
    struct code_tree tree = {.name_of = name_of};
    double *values = NULL;
    if (code_tree_make(&tree, NULL, code->tally, code->names))
        values = values_of_branches(code, &tree);
    bool good = values != NULL;
    if (!good) error_set_system(&export->error, "no memory for call stacks");
    for (uint32_t i = 0; good && i < tree.count; i++) {
        const double value = round(values[i]);
        if (value > 0) good = folded_put_line(export, names, &tree, i, value);
    }
    free(values);
    code_tree_free(&tree);
    return good;
}

static bool folded_code(struct export *export, const struct export_code *code)
{
    struct strings lines = {.at = NULL};
    uint32_t *name_of = NULL;
    if (!code->by_line) return folded_put_tree(export, code, &code->names->symbols.strings, NULL);
    if (strings_open(&lines)) name_of = folded_name_lines(code->names, &lines);
    const bool good = name_of != NULL ? folded_put_tree(export, code, &lines, name_of)
                                      : error_set_system(&export->error, "no memory for lines");
    free(name_of);
    strings_free(&lines);
    return good;
}

const struct export_writer export_folded = {
    .name = "folded",
    .title = "folded call stacks",
    .unit = "stacks",
    .loses = "everything but what each call stack allocated",
    .code = folded_code,
};
