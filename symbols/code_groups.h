/* code_groups - groups of call stacks: stacks with a function, a file, a module or a line in common;
 * or each stack by itself.
 *
 *   of each stack: frames --key--> group "itself"                the one that allocates
 *                                  groups "with what it calls"   each of the stack's, once
 *
 * The frame that allocates is the innermost one that is not a function of a standard library: what
 * a container allocates counts for the code that fills the container. If all are library functions,
 * it is the innermost frame, or the innermost one with a language.
 *
 * Numbers that are exact are added up while stacks are walked (`take`); only estimates need to know
 * which stacks a group has (`listed`).
 *
 * Memory: 8 bytes a stack, 5 a frame, 80 a group; 4 for each pair of a listed stack and a group that
 * it belongs to. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_GROUPS_H
#define MALLOCTAPE_SYMBOLS_CODE_GROUPS_H

#include <regex.h>

#include "symbols/code_names.h"
#include "symbols/stack_sums.h"

enum code_by {
    CODE_BY_FUNCTION,
    CODE_BY_LINE, /* of a function */
    CODE_BY_FILE, /* code of an unknown file: by module */
    CODE_BY_MODULE,
    CODE_BY_STACK,
    CODE_BY_KINDS
};

#define CODE_GROUP_NONE UINT32_MAX

struct code_group {
    uint64_t key;
    struct code_frame frame; /* one that belongs to it; for a stack, the one that allocates */
    uint32_t stack;          /* the index of a stack that belongs to it */
    uint32_t counted;        /* code_groups.c's: the latest stack with a frame in it, plus 1 */
};

/* Gets the groups with a frame of a stack, each once. False: no memory. */
typedef bool code_groups_take(void *of, uint32_t stack, const uint32_t *groups, unsigned count);

struct code_grouping {
    enum code_by by;
    const regex_t *focus;   /* NULL: all; else only stacks with a function or file that matches */
    const regex_t *ignore;  /* NULL, or no stack with a function or file that matches */
    unsigned depth;         /* for CODE_BY_STACK: compare this many inner frames; 0: all */
    code_groups_take *take; /* NULL, or called for each stack in focus; not for CODE_BY_STACK */
    void *take_of;
    const uint8_t *listed; /* by stack: whether it is in `total`; NULL: none is */
    struct code_group *groups;
    size_t count;
    struct stack_groups self, total;
    uint64_t left_out; /* stacks that these two left out */

    uint32_t *of_frame; /* by frame: its group, plus 1; 0: not known yet */

    /* From here on: code_groups.c only. */
    size_t room, total_room, slots_count;
    uint32_t *slots;
    uint8_t *matches; /* by frame */
    uint32_t *self_first, *total_first, *self_groups, *total_groups;
    size_t total_count;
};

/* What stands before `groups` must be set, the rest zero. False: no memory. */
bool code_groups_make(struct code_grouping *grouping, const struct stack_tally *tally,
                      const struct code_names *names);
void code_groups_free(struct code_grouping *grouping);

/* Calls `take` for each stack in focus once more. False: no memory. */
bool code_groups_walk(struct code_grouping *grouping, const struct stack_tally *tally,
                      const struct code_names *names, code_groups_take *take, void *of);

/* The group that a stack counts for itself, or CODE_GROUP_NONE: not in focus. */
static inline uint32_t code_groups_itself(const struct code_grouping *grouping, uint32_t stack)
{
    const struct stack_groups *self = &grouping->self;
    return self->first[stack] < self->first[stack + 1] ? self->groups[self->first[stack]]
                                                       : CODE_GROUP_NONE;
}

/* The index of the frame that allocates; there is at least one. */
unsigned code_groups_own(const struct code_frame *frames, unsigned count);

/* The same of a stack, or that of its nearest caller whose source file is known, if it has none and at
 * most CODE_LIBRARY_DEPTH functions lie between: a library that was called for this. `at` says where
 * frames are in names->frames. */
enum { CODE_LIBRARY_DEPTH = 4 };
unsigned code_groups_with_source(const struct code_names *names, const uint32_t *at,
                                 unsigned count);

/* The group of a frame of names->frames; NONE: no stack has it. */
static inline uint32_t code_groups_of_frame(const struct code_grouping *grouping, uint32_t frame)
{
    return grouping->of_frame[frame] - 1;
}

#endif
