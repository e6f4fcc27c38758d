/* code_tree - the functions of call stacks from the outermost in: stacks with common outer functions
 * are one branch as far as they have them in common.
 *
 * A stack belongs to the branch of its innermost function that does not allocate. Stacks that are
 * deeper than CODE_FRAMES_MAX functions belong to the one at that depth.
 *
 * Memory: 12 bytes a branch and up to 16 for its slot, 4 a stack, 4 a node while it is made. One
 * thread. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_TREE_H
#define MALLOCTAPE_SYMBOLS_CODE_TREE_H

#include "symbols/code_groups.h"

#define CODE_BRANCH_NONE UINT32_MAX

struct code_branch {
    uint32_t function;           /* 0: nothing is known of the stack */
    uint32_t parent;             /* the next outer one, whose number is lower; or NONE */
    uint32_t depth : 31;         /* how many are outside of it */
    uint32_t is_interpreted : 1; /* the function has a language */
};

struct code_tree {
    const uint32_t
        *name_of; /* by frame, what tells branches apart and is their `function`; NULL: the
                                frame's function */
    struct code_branch *branches;
    size_t count;
    uint32_t *of; /* by stack; NONE: not in focus */

    /* From here on: code_tree.c only. */
    size_t room, slots_count;
    uint32_t *slots;
};

/* `tree` must be zero, but for `name_of`. `focus`: only of the stacks in it; NULL: of all. False: no memory. */
bool code_tree_make(struct code_tree *tree, const struct code_grouping *focus,
                    const struct stack_tally *tally, const struct code_names *names);
void code_tree_free(struct code_tree *tree);

#endif
