/* heaptrack_stacks - the call stacks of a heaptrack file, as definitions (FORMAT.md 2.8).
 *
 *   x LENGTH PATH                      the program
 *   m LENGTH NAME BASE [OFFSET SIZE]   a mapped file (NAME x: the program); `m 1 -`: a new list begins
 *   t ADDRESS PARENT                   a stack, numbered from 1: its innermost code, and the rest
 *
 * Before version 3 of the format there are no lengths: x PATH, m NAME BASE ..., `m -`. There a name
 * ends where only numbers follow.
 *
 * Memory   as names.h for each address, and the modules. One thread. */
#ifndef MALLOCTAPE_HEAPTRACK_STACKS_H
#define MALLOCTAPE_HEAPTRACK_STACKS_H

#include "convert/call_writer.h"
#include "convert/fields.h"

struct heaptrack_module;

/* All zero, but for the writer. */
struct heaptrack_stacks {
    struct call_writer *writer;
    bool plain; /* texts have no length */

    /* heaptrack_stacks.c only. */
    char *program;
    struct heaptrack_module *modules;
    size_t modules_count, modules_room;
    struct names codes; /* by address, of the modules that there are */
    uint32_t codes_count;
    uint64_t traces;
    bool changed; /* modules have */
};

/* Take what follows the letter of a line. False: the line is not as above, or there is no memory
 * (writer->error). */
bool heaptrack_stacks_program(struct heaptrack_stacks *stacks, struct fields fields);
bool heaptrack_stacks_module(struct heaptrack_stacks *stacks, struct fields fields);

/* False: the line is not a trace, or its parent comes later. */
bool heaptrack_stacks_trace(struct heaptrack_stacks *stacks, struct fields fields);

/* The node of a trace; STACK_END if there is none yet. */
static inline uint32_t heaptrack_stacks_node(const struct heaptrack_stacks *stacks, uint64_t trace)
{
    const bool there =
        trace > 0 && trace <= stacks->traces && trace < STACK_NUMBERS_LIMIT - STACK_NODE_FIRST;
    return there ? (uint32_t)trace + STACK_NODE_FIRST - 1 : (uint32_t)STACK_END;
}

void heaptrack_stacks_free(struct heaptrack_stacks *stacks);

#endif
