#include "tracing/stacks/node_table.h"

#include "common/atomic.h"
#include "stream/raw_format.h"
#include "tracing/os/os.h"

#include <stddef.h>

_Static_assert(RAW_STACK_LIMIT <= NODE_TABLE_BLOCK * 256u, "there is a block for each node");

/* A code, and whether the node before it calls it. 0: there is no such node, or not yet. */
static inline uint32_t word_of_node(uint32_t code, bool is_next)
{
    return code << 1 | is_next;
}

static inline uint64_t key_of_run(uint32_t parent, uint32_t code)
{
    return (uint64_t)parent << 32 | code;
}

uint32_t node_table_child(const struct node_table *table, uint32_t parent, uint32_t code)
{
    const uint32_t next = parent + 1;
    const uint32_t *block = atomic_load_acquire(&table->blocks[next / NODE_TABLE_BLOCK % 256]);
    /* Who knows a node finds all of its run. */
    if (block != NULL &&
        atomic_load_relaxed(&block[next % NODE_TABLE_BLOCK]) == word_of_node(code, true))
        return next;
    return stack_map_find(&table->runs, key_of_run(parent, code));
}

static uint32_t *block_of_node(struct node_table *table, uint32_t node)
{
    uint32_t **place = &table->blocks[node / NODE_TABLE_BLOCK % 256];
    uint32_t *block = atomic_load_acquire(place), *none = NULL;
    if (block != NULL) return block;
    block = os_memory_reserve_per_process(NODE_TABLE_BLOCK * sizeof *block);
    if (block == NULL || atomic_swap_once(place, &none, block)) return block;
    os_memory_release(block, NODE_TABLE_BLOCK * sizeof *block);
    return none;
}

void node_table_put(struct node_table *table, uint32_t parent, uint32_t first, uint32_t count,
                    const uint32_t *codes)
{
    if (!stack_map_has_room(&table->runs, 1)) return;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *block = block_of_node(table, first + i);
        if (block == NULL) return;
        atomic_store_relaxed(&block[(first + i) % NODE_TABLE_BLOCK], word_of_node(codes[i], i > 0));
    }
    stack_map_put(&table->runs, key_of_run(parent, codes[0]), first);
}

bool node_table_begin(struct node_table *table)
{
    return stack_map_has_room(&table->runs, 1);
}

void node_table_clear(struct node_table *table)
{
    stack_map_clear(&table->runs);
    for (uint32_t i = 0; i < 256; i++) {
        if (table->blocks[i] != NULL)
            os_memory_release(table->blocks[i], NODE_TABLE_BLOCK * sizeof *table->blocks[i]);
        table->blocks[i] = NULL;
    }
}
