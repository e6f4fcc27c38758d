/* code_groups - groups of call stacks, for stack_tally_sum(): stacks with a function, a file, a
 * module or a line in common; each stack by itself; or a tree of their common outer parts.
 *
 *   of each stack: frames --key--> group "itself"                the one that allocates
 *                                  groups "with what it calls"   each of the stack's, once
 *
 * The frame that allocates is the innermost one that is not a function of a standard library: what
 * a container allocates counts for the code that fills the container. If all are library functions,
 * it is the innermost frame.
 *
 * In a tree, stacks that are deeper than CODE_FRAMES_MAX functions count for the one at that depth.
 *
 * Memory: 8 bytes for each pair of a stack and a group that it belongs to, 80 a group; for a tree, 4
 * a node. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_GROUPS_H
#define MALLOCTAPE_SYMBOLS_CODE_GROUPS_H

#include <regex.h>

#include "symbols/code_names.h"
#include "symbols/stack_tally.h"

enum code_by {
    CODE_BY_FUNCTION,
    CODE_BY_LINE, /* of a function */
    CODE_BY_FILE, /* code of an unknown file: by module */
    CODE_BY_MODULE,
    CODE_BY_STACK,
    CODE_BY_TREE
};

#define CODE_GROUP_NONE UINT32_MAX

struct code_group {
    uint64_t key;
    struct code_frame frame; /* one that belongs to it; for a stack, the one that allocates */
    uint32_t stack;          /* the index of a stack that belongs to it */
    uint32_t parent;         /* in a tree: the next outer group, whose number is lower; or NONE */
    uint32_t depth;          /* in a tree: how many groups are outside of it */

    uint32_t counted; /* code_groups.c's: the latest stack with a frame in it, plus 1 */
};

struct code_grouping {
    enum code_by by;
    const regex_t *focus;  /* NULL: all; else only stacks with a function or file that matches */
    const regex_t *ignore; /* NULL, or no stack with a function or file that matches */
    unsigned depth;        /* for CODE_BY_STACK: compare this many inner frames; 0: all */
    struct code_group *groups;
    size_t count;
    struct stack_groups self, total; /* in a tree `total` is empty: sum up by parents */
    uint64_t left_out;               /* stacks that these two left out */

    /* From here on: code_groups.c only. */
    size_t room, total_room, slots_count, chain_room;
    uint32_t *slots;
    uint32_t *paths; /* by node, in a tree: its group, plus 1; 0: not made yet */
    uint32_t *chain; /* of nodes whose groups are being made */
    uint32_t *self_first, *total_first, *self_groups, *total_groups;
    size_t total_count;
};

/* `by`, `focus`, `ignore` and `depth` must be set, the rest zero. False: no memory. */
bool code_groups_make(struct code_grouping *grouping, const struct stack_tally *tally,
                      const struct code_names *names);
void code_groups_free(struct code_grouping *grouping);

/* The index of the frame that allocates; there is at least one. */
unsigned code_groups_own(const struct code_frame *frames, unsigned count);

#endif
