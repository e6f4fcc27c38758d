/* by_code_tree - the tree of by_code.h in JSON, and what rows and branches did over time and by size:
 * docs/report.md, `tree`, `times` and `sizes`.
 *
 *   code_tree's branches, up to millions --cut--> told ones --joined--> those of `times`
 *
 * A branch that is not told counts with the nearest outer one that is. Rows of `times` and `sizes` are
 * those that have most of any number. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_TREE_H
#define MALLOCTAPE_REPORT_BY_CODE_TREE_H

#include <jansson.h>

#include "report/by_code.h"

/* `order`: the rows, as they are in JSON, `count` of them. */
void by_code_tree_put(json_t *object, const struct by_code *code, const uint32_t *order,
                      size_t count);

#endif
