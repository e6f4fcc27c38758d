/* write_folded - a line for each call stack, "outermost;...;innermost VALUE": what flamegraph.pl,
 * speedscope and others read. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/export.h"
#include "symbols/code_groups.h"

enum { DEPTH_MAX = CODE_FRAMES_MAX };

/* Replaces characters in a name that have a meaning in a line. */
static bool put_name(struct export *export, const char *name)
{
    bool good = true;
    for (const char *at = name; good && *at != '\0'; at++)
        good = output_write(&export->output, *at == ';' ? ":" : at, 1);
    return good;
}

static bool folded_put_line(struct export *export, const struct export_code *code,
                            const struct code_grouping *tree, uint32_t leaf, double value)
{
    uint32_t path[DEPTH_MAX];
    unsigned depth = 0;
    char number[40];
    bool good = true;
    for (uint32_t at = leaf; at != CODE_GROUP_NONE && depth < DEPTH_MAX;
         at = tree->groups[at].parent)
        path[depth++] = at;
    while (good && depth-- > 0) {
        const uint32_t function = tree->groups[path[depth]].frame.function;
        good = put_name(export,
                        function != 0 ? code_names_text(code->names, function) : EXPORT_NO_STACK);
        if (good && depth > 0) good = output_write(&export->output, ";", 1);
    }
    const int length = snprintf(number, sizeof number, " %.0f\n", value);
    export->calls++;
    return good && output_write(&export->output, number, (size_t)length);
}

static bool folded_code(struct export *export, const struct export_code *code)
{
    struct code_grouping tree = {.by = CODE_BY_TREE};
    bool good = code_groups_make(&tree, code->tally, code->names);
    struct stack_sums *sums = good ? calloc(tree.count + 1, sizeof *sums) : NULL;
    good = sums != NULL && stack_tally_sum(code->tally, &tree.self, sums);
    if (!good) error_set_system(&export->error, "no memory for call stacks");
    for (uint32_t i = 0; good && i < tree.count; i++) {
        const struct stack_sum *of = code->is_bytes ? sums[i].bytes : sums[i].objects;
        const double value = round(of[code->measure].value);
        if (value > 0) good = folded_put_line(export, code, &tree, i, value);
    }
    free(sums);
    code_groups_free(&tree);
    return good;
}

const struct export_writer export_folded = {
    .name = "folded",
    .title = "folded call stacks",
    .unit = "stacks",
    .loses = "everything but what each call stack allocated",
    .code = folded_code,
};
