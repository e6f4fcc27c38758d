/* raw_cache - a thread's cache as a reader of its lane follows it (FORMAT.md 2.6).
 *
 *   size  -------> number of a list            lists[0]   of no class that is known
 *   block of places (64) -> number of a list   lists[1]   of class 0, which is not cached
 *                                              lists[2 ..]  as the classes were announced
 *
 *   a list       bottom              top
 *                  | 64 | 70 | 65 |      a ring: `cached` appends at the bottom, allocations take
 *                                        from the top, frees put there
 *
 * One array of bytes maps both sizes and pages to the numbers of their lists:
 *
 *   numbers   0 | sizes, by 8 | blocks of the first places | leaf of nothing | leaf | leaf ...
 *
 * 0 in it means: look the number up with the functions below. So does a number of one of the first
 * two lists, which take no places and give none.
 *
 * Packed chunks name objects by their age (FORMAT.md 5.5), so the places of the latest allocations
 * are kept as well.
 *
 * Nothing is kept for each place. What may be wrong is for the decoder to say.
 *
 * Memory   nothing before the first class is announced or the first place is noted; then about 13
 *          KiB, 4 bytes for each place in the cache, and one for each block of places, for 256
 *          blocks at a time. */
#ifndef MALLOCTAPE_RAW_CACHE_H
#define MALLOCTAPE_RAW_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/raw_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `top` and `bottom` only ever meet as a difference, and under the mask. */
struct raw_list {
    uint32_t *places;
    uint32_t top, bottom; /* the first place is at top - 1 */
    uint32_t mask;
    uint32_t bytes; /* of an object; 0: unknown */
};

#define RAW_LIST_UNKNOWN  0u
#define RAW_LIST_UNCACHED 1u /* class 0 */

/* Sizes below this many bytes are looked up in steps of 8: all that short codes of allocations can
 * say. */
#define RAW_CACHE_SIZES    RAW_ALLOCATION_1_SHORT_LIMIT
#define RAW_NUMBERS_SIZES  1u
#define RAW_NUMBERS_BLOCKS 576u
#define RAW_LEAF_BITS      14 /* of a place: 256 blocks */
#define RAW_LEAF_BLOCKS    (1u << (RAW_LEAF_BITS - RAW_PLACE_BLOCK_BITS))
/* How many leaves have a fixed position: those of all places that frees of one unit can name. */
#define RAW_FIRST_LEAVES   3u
#define RAW_NUMBERS_LEAVES (RAW_NUMBERS_BLOCKS + RAW_FIRST_LEAVES * RAW_LEAF_BLOCKS)

struct raw_cache {
    bool known; /* as FORMAT.md 2.6 has it */
    /* Something is missing before: what the lists hold is the beginning of what they should. */
    bool gap;
    uint8_t first_block; /* number of the list of places 1 to 63 */
    uint8_t list_of_class[RAW_SIZE_CLASSES_MAX];
    struct raw_list *lists;
    uint32_t lists_count;
    /* A block's entry: RAW_NUMBERS_BLOCKS + block + leaves[place >> RAW_LEAF_BITS]. */
    uint8_t *numbers;
    uint32_t numbers_bytes;
    uint32_t *leaves;
    uint32_t leaves_count;
    /* Places of the latest allocations, by serial; the first entry stays 0, for no place. */
    uint32_t *recent;
};

/* All zero is valid: nothing is known. Functions that return false had no memory. */

void raw_cache_free(struct raw_cache *cache);

/* Allocates everything that is needed to look anything up. */
bool raw_cache_prepare(struct raw_cache *cache);

/* Empties the lists. */
void raw_cache_empty(struct raw_cache *cache);

/* Records are missing: what is known of classes and blocks stays true, but may not be all. */
void raw_cache_gap(struct raw_cache *cache);

/* Announces a class, 1 to 127, that has not been announced; `bytes` is 0 if they are unknown. */
bool raw_cache_announce(struct raw_cache *cache, uint32_t size_class, uint32_t bytes);

/* Whether a class of this many bytes has been announced. */
bool raw_cache_has_bytes(const struct raw_cache *cache, uint32_t bytes);

/* The number of the list of a size. RAW_LIST_UNKNOWN: there is no such class. */
uint32_t raw_cache_list_of_size(const struct raw_cache *cache, uint64_t size);

/* Whether it is surely that list: after a gap a class may be missing that fits better. */
bool raw_cache_is_certain(const struct raw_cache *cache, uint32_t list);

/* Where the number of the list of a place is, in `numbers`. */
static inline uint32_t raw_cache_number_of_place(const struct raw_cache *cache, uint32_t place)
{
    return RAW_NUMBERS_BLOCKS + place / RAW_PLACE_BLOCK + cache->leaves[place >> RAW_LEAF_BITS];
}

/* The number of the list of a place. RAW_LIST_UNKNOWN: it was not noted. The first block is looked
 * up here only: 0, which is no place, would be in it. */
static inline uint32_t raw_cache_list_of_place(const struct raw_cache *cache, uint32_t place)
{
    if (place >> RAW_LEAF_BITS >= cache->leaves_count) return RAW_LIST_UNKNOWN;
    if (place < RAW_PLACE_BLOCK) return cache->first_block;
    return cache->numbers[raw_cache_number_of_place(cache, place)];
}

/* Notes the list of a place, and of its block. */
bool raw_cache_note_place(struct raw_cache *cache, uint32_t place, uint32_t list);

/* Where in `recent` the place of an allocation is. */
static inline uint32_t raw_recent_entry(uint32_t serial)
{
    return serial % RAW_AGES + 1;
}

/* The place of one of the latest RAW_AGES allocations; 0: nobody knows. */
uint32_t raw_cache_recent(const struct raw_cache *cache, uint64_t serial);

/* To be called only after raw_cache_prepare(). */
static inline void raw_cache_set_recent(struct raw_cache *cache, uint64_t serial, uint32_t place)
{
    cache->recent[raw_recent_entry((uint32_t)serial)] = place;
}

/* The places of the last `count` allocations, up to `serial`, are not known. */
void raw_cache_forget_recent(struct raw_cache *cache, uint64_t serial, uint64_t count);

static inline uint32_t raw_list_count(const struct raw_list *list)
{
    return list->top - list->bottom;
}

/* Whether there is room for one more place. The lists that take no places have none. */
static inline bool raw_list_has_room(const struct raw_list *list)
{
    return raw_list_count(list) <= list->mask;
}

bool raw_list_push(struct raw_list *list, uint32_t place);
bool raw_list_append(struct raw_list *list, uint32_t place);

/* The first place. 0: there is none. */
uint32_t raw_list_first(const struct raw_list *list);

#ifdef __cplusplus
}
#endif
#endif
