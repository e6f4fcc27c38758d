/* node_table - the nodes of call stacks, by their callers, for all threads at once, without locks.
 *
 *   node, code --node_table_child()--> the node of that code, called by the node's
 *
 * What is new of a stack is a run of nodes, each called by the one before, with numbers one after
 * the other: so only the first one of a run is searched for, and the next ones stand beside it.
 *
 * Memory    4 bytes a node, and a place of a stack_map for a run; a forked child finds it empty */
#ifndef MALLOCTAPE_NODE_TABLE_H
#define MALLOCTAPE_NODE_TABLE_H

#include "tracing/stacks/stack_map.h"

#define NODE_TABLE_BLOCK 0x10000u

struct node_table {
    struct stack_map runs; /* the first node of each, by what calls it and its code */
    uint32_t
        *blocks[256]; /* of each node its code; allocated when there is one, each once, by swap */
};

/* 0: there is none. */
uint32_t node_table_child(const struct node_table *table, uint32_t parent, uint32_t code);

/* Puts the nodes `first`, ..., which have these codes; `parent` calls the first one. They may have
 * others already. */
void node_table_put(struct node_table *table, uint32_t parent, uint32_t first, uint32_t count,
                    const uint32_t *codes);

/* Makes room for a first run. False: there is no memory. */
bool node_table_begin(struct node_table *table);

/* Gives its memory back, and makes it empty. Nobody uses it meanwhile. */
void node_table_clear(struct node_table *table);

#endif
