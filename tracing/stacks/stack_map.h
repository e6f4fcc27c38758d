/* stack_map - from a word to a number, for all threads at once, without locks.
 *
 * The map grows by moving into a table of twice the size. What is put into the old one meanwhile is
 * lost, and then put a second time: with another number, which callers must not mind.
 *
 * Keys      not 0
 * Numbers   not 0
 * Memory    16 bytes for each place, of which at most three quarters are taken; a forked child finds
 *           the map empty */
#ifndef MALLOCTAPE_STACK_MAP_H
#define MALLOCTAPE_STACK_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct stack_map {
    struct stack_map_table *table; /* the latest (release); NULL: the map is empty */
    uint32_t used;                 /* places, approximately (relaxed) */
    uint32_t growing;              /* a thread moves what there is, by swap */
};

/* The number of this key; 0: there is none. */
uint32_t stack_map_find(const struct stack_map *map, uint64_t key);

/* The key is about to be looked for. */
void stack_map_prefetch(const struct stack_map *map, uint64_t key);

/* Makes sure that `count` keys can be put. False: there is no memory. */
bool stack_map_has_room(struct stack_map *map, uint32_t count);

void stack_map_put(struct stack_map *map, uint64_t key, uint32_t number);

/* Gives its memory back, and makes it empty. Nobody uses it meanwhile. */
void stack_map_clear(struct stack_map *map);

#endif
