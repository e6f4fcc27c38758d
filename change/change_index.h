/* change_index - finds a number by a size, a change and a node of call stacks.
 *
 * Memory: 48 bytes for each at most. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_INDEX_H
#define MALLOCTAPE_CHANGE_CHANGE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANGE_NOWHERE UINT32_MAX

struct change_key {
    uint64_t size;
    uint32_t change, node;
};

struct change_entry {
    struct change_key key;
    uint32_t value;
    bool used;
};

struct change_index {
    struct change_entry *at;
    size_t count, room; /* a power of two */
};

/* The number of a key, to be read or set until the next call; CHANGE_NOWHERE for one that is new.
 * NULL: no memory. */
uint32_t *change_index_of(struct change_index *index, struct change_key key);
void change_index_free(struct change_index *index);

#endif
