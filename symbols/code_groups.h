/* code_groups - call stacks that have something in common, for stack_tally_sum(): a function, a
 * file, a module, a line, the whole stack; or what they share from the outside, as a tree.
 *
 *   of each stack: frames --key--> group "itself"                the one that allocates
 *                                  groups "with what it calls"   each of the stack's, once
 *
 * The frame that allocates is the innermost one that is no function of a standard library: what a
 * container needs, the code needs that fills it. If all are, it is the innermost.
 *
 * Memory: 8 bytes for each stack and group that it belongs to, 80 a group. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_GROUPS_H
#define MALLOCTAPE_SYMBOLS_CODE_GROUPS_H

#include <regex.h>

#include "symbols/code_names.h"
#include "symbols/stack_tally.h"

enum code_by { CODE_BY_FUNCTION, CODE_BY_FILE, CODE_BY_MODULE, CODE_BY_STACK, CODE_BY_TREE };

#define CODE_GROUP_NONE UINT32_MAX

struct code_group {
    uint64_t key;
    struct code_frame frame; /* one that belongs to it; of a stack the one that allocates */
    uint32_t stack;          /* the index of a stack that belongs to it */
    uint32_t parent;         /* of a tree: the group further out, which is less; or NONE */
};

struct code_grouping {
    enum code_by by;
    const regex_t *focus; /* NULL: all; else the stacks of which a function or a file fits */
    unsigned depth;       /* of CODE_BY_STACK: so many inner frames; 0: all */
    struct code_group *groups;
    size_t count;
    struct stack_groups self, total; /* of a tree `total` is empty: sum up by parents */
    uint64_t left_out;               /* stacks that `focus` left out */

    /* From here on: code_groups.c only. */
    size_t room, total_room, slots_count;
    uint32_t *slots;
    uint32_t *self_first, *total_first, *self_groups, *total_groups;
    size_t total_count;
};

/* `by`, `focus` and `depth` are set, the rest is zero. False: no memory. */
bool code_groups_make(struct code_grouping *grouping, const struct stack_tally *tally,
                      const struct code_names *names);
void code_groups_free(struct code_grouping *grouping);

/* The index of the frame that allocates; there is at least one. */
unsigned code_groups_own(const struct code_frame *frames, unsigned count);

#endif
