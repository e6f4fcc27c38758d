/* names - a hash table of objects by name.
 *
 * A name is what a file calls an object by: an address, or an index. 0 is no name.
 *
 *     struct name *entry = names_put(&names, address);     found, or new with all fields zero
 *     names_remove(&names, entry);
 *
 * A pointer to an entry is valid until the next names_put() or names_remove().
 *
 * Memory: 24 bytes a slot, at most 8/3 times as many slots as there were entries at once.
 * Errors: NULL: no memory; then the table is as before. One thread. */
#ifndef MALLOCTAPE_NAMES_H
#define MALLOCTAPE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name {
    uint64_t name; /* 0: an empty slot; the other fields are the caller's */
    uint32_t object;
    uint32_t first_waiter, last_waiter;
    uint32_t pending : 31, live : 1;
};

struct names {
    struct name *slots;
    size_t count, room; /* entries; slots, a power of two */
};

struct name *names_find(const struct names *names, uint64_t name);
struct name *names_put(struct names *names, uint64_t name);
void names_remove(struct names *names, struct name *entry);
void names_free(struct names *names);

#endif
