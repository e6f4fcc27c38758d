#include "stream/raw_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum { LISTS_MAX = RAW_SIZE_CLASSES_MAX + 1, LIST_ROOM = 16, SIZE_STEP = 8 };

_Static_assert(RAW_NUMBERS_SIZES + RAW_CACHE_SIZES / SIZE_STEP < RAW_NUMBERS_BLOCKS,
               "sizes, rounded up, have room");
_Static_assert(RAW_FREE_1_SHORT_LIMIT <= RAW_FIRST_LEAVES << RAW_LEAF_BITS,
               "places of short codes have first leaves");

/* ---- lists ---- */

/* A list that takes no place and gives none. Its positions are such that a decoder's own loop finds
 * it empty and without room, as the functions here do. */
static const struct raw_list refusing_list = {.bottom = 1};

static bool list_is_refusing(const struct raw_list *list)
{
    return list->places == NULL;
}

static void list_empty(struct raw_list *list)
{
    if (!list_is_refusing(list)) list->top = list->bottom = 0;
}

static bool list_grow(struct raw_list *list)
{
    uint32_t count = raw_list_count(list), room = list->mask + 1;
    uint32_t *grown = malloc(2 * (size_t)room * sizeof *grown);
    if (grown == NULL) return false;
    for (uint32_t i = 0; i < count; i++)
        grown[i] = list->places[(list->bottom + i) & list->mask];
    free(list->places);
    list->places = grown;
    list->mask = 2 * room - 1;
    list->bottom = 0;
    list->top = count;
    return true;
}

bool raw_list_push(struct raw_list *list, uint32_t place)
{
    if (list_is_refusing(list)) return true;
    if (raw_list_count(list) >= RAW_LIST_LIMIT - 1) list_empty(list);
    if (!raw_list_has_room(list) && !list_grow(list)) return false;
    list->places[list->top++ & list->mask] = place;
    return true;
}

bool raw_list_append(struct raw_list *list, uint32_t place)
{
    if (!raw_list_has_room(list)) {
        if (list_is_refusing(list)) return true;
        if (!list_grow(list)) return false;
    }
    list->places[--list->bottom & list->mask] = place;
    return true;
}

uint32_t raw_list_first(const struct raw_list *list)
{
    if (list_is_refusing(list) || raw_list_count(list) == 0) return RAW_PLACE_NONE;
    return list->places[(list->top - 1) & list->mask];
}

/* ---- the whole ---- */

void raw_cache_free(struct raw_cache *cache)
{
    for (uint32_t i = 0; i < cache->lists_count; i++)
        free(cache->lists[i].places);
    free(cache->lists);
    free(cache->numbers);
    free(cache->leaves);
    free(cache->recent);
    *cache = (struct raw_cache){.known = false};
}

/* All leaves of which nothing is known share the leaf after the first blocks. */
static uint32_t no_leaf(uint32_t leaf)
{
    return RAW_NUMBERS_LEAVES - (RAW_NUMBERS_BLOCKS + leaf * RAW_LEAF_BLOCKS);
}

bool raw_cache_prepare(struct raw_cache *cache)
{
    if (cache->lists_count > 0) return true;
    cache->lists = malloc(LISTS_MAX * sizeof *cache->lists);
    cache->numbers_bytes = RAW_NUMBERS_LEAVES + RAW_LEAF_BLOCKS;
    cache->numbers = calloc(1, cache->numbers_bytes);
    cache->leaves = calloc(RAW_FIRST_LEAVES, sizeof *cache->leaves);
    cache->recent = calloc(RAW_AGES + 1, sizeof *cache->recent);
    if (cache->lists == NULL || cache->numbers == NULL || cache->leaves == NULL ||
        cache->recent == NULL) {
        bool known = cache->known, gap = cache->gap;
        raw_cache_free(cache);
        cache->known = known;
        cache->gap = gap;
        return false;
    }
    cache->lists[RAW_LIST_UNKNOWN] = cache->lists[RAW_LIST_UNCACHED] = refusing_list;
    cache->lists_count = 2;
    cache->list_of_class[0] = RAW_LIST_UNCACHED;
    cache->leaves_count = RAW_FIRST_LEAVES;
    return true;
}

void raw_cache_empty(struct raw_cache *cache)
{
    for (uint32_t i = 0; i < cache->lists_count; i++)
        list_empty(&cache->lists[i]);
}

/* ---- classes ---- */

/* The next class below that has been announced with its bytes; 0: none. */
static uint32_t bytes_below(const struct raw_cache *cache, uint32_t bytes)
{
    uint32_t below = 0;
    for (uint32_t i = 2; i < cache->lists_count; i++)
        if (cache->lists[i].bytes < bytes && cache->lists[i].bytes > below)
            below = cache->lists[i].bytes;
    return below;
}

/* Enters the sizes of a class, those above the next class below. Steps in which a class ends are
 * left open. */
static void fill_sizes(struct raw_cache *cache, uint32_t list)
{
    uint8_t *steps = cache->numbers + RAW_NUMBERS_SIZES;
    uint32_t bytes = cache->lists[list].bytes, below = bytes_below(cache, bytes);
    uint32_t first = below == 0 ? 0 : (below + SIZE_STEP - 1) / SIZE_STEP + 1;
    uint32_t limit = bytes / SIZE_STEP + 1, steps_count = RAW_CACHE_SIZES / SIZE_STEP + 1;
    if (bytes == 0 || !raw_cache_is_certain(cache, list)) return;
    for (uint32_t step = first; step < limit && step < steps_count; step++)
        steps[step] = (uint8_t)list;
    if (bytes % SIZE_STEP != 0 && limit < steps_count) steps[limit] = RAW_LIST_UNKNOWN;
}

bool raw_cache_announce(struct raw_cache *cache, uint32_t size_class, uint32_t bytes)
{
    if (!raw_cache_prepare(cache)) return false;
    uint32_t list = cache->list_of_class[size_class];
    if (list == RAW_LIST_UNKNOWN) {
        list = cache->lists_count;
        uint32_t *places = malloc(LIST_ROOM * sizeof *places);
        if (places == NULL) return false;
        cache->lists[list] = (struct raw_list){.places = places, .mask = LIST_ROOM - 1};
        cache->list_of_class[size_class] = (uint8_t)list;
        cache->lists_count++;
    }
    cache->lists[list].bytes = bytes;
    fill_sizes(cache, list);
    uint32_t above = size_class + 1 < RAW_SIZE_CLASSES_MAX ? size_class + 1 : 0;
    if (cache->gap && above != 0) fill_sizes(cache, cache->list_of_class[above]);
    return true;
}

bool raw_cache_has_bytes(const struct raw_cache *cache, uint32_t bytes)
{
    for (uint32_t i = 2; i < cache->lists_count; i++)
        if (cache->lists[i].bytes == bytes) return true;
    return false;
}

/* Without a gap, classes that were not announced have not been used. After a gap the list is
 * certain only if the class below is known, too: greater classes have more bytes. */
bool raw_cache_is_certain(const struct raw_cache *cache, uint32_t list)
{
    if (!cache->gap) return true;
    for (uint32_t i = 1; i < RAW_SIZE_CLASSES_MAX; i++) {
        if (cache->list_of_class[i] != list) continue;
        return i == 1 || cache->lists[cache->list_of_class[i - 1]].bytes != 0;
    }
    return false;
}

uint32_t raw_cache_list_of_size(const struct raw_cache *cache, uint64_t size)
{
    uint32_t list = RAW_LIST_UNKNOWN;
    if (size < RAW_CACHE_SIZES && cache->lists_count > 0) {
        list = cache->numbers[RAW_NUMBERS_SIZES + (size + SIZE_STEP - 1) / SIZE_STEP];
        if (list != RAW_LIST_UNKNOWN) return list;
    }
    for (uint32_t i = 2; i < cache->lists_count; i++) {
        uint32_t bytes = cache->lists[i].bytes;
        if (bytes != 0 && bytes >= size &&
            (list == RAW_LIST_UNKNOWN || bytes < cache->lists[list].bytes))
            list = i;
    }
    return list;
}

void raw_cache_gap(struct raw_cache *cache)
{
    cache->known = cache->gap = true;
    raw_cache_empty(cache);
    if (cache->lists_count == 0) return;
    memset(cache->recent, 0, (RAW_AGES + 1) * sizeof *cache->recent);
    memset(cache->numbers, 0, RAW_NUMBERS_BLOCKS);
    for (uint32_t i = 2; i < cache->lists_count; i++)
        fill_sizes(cache, i);
}

/* ---- blocks ---- */

static bool make_leaf(struct raw_cache *cache, uint32_t leaf)
{
    size_t room = cache->leaves_count;
    if (leaf >= room) {
        if (!array_reserve(&cache->leaves, &room, leaf + 1, sizeof *cache->leaves)) return false;
        for (uint32_t i = cache->leaves_count; i < room; i++)
            cache->leaves[i] = no_leaf(i);
        cache->leaves_count = (uint32_t)room;
    }
    if (leaf < RAW_FIRST_LEAVES || cache->leaves[leaf] != no_leaf(leaf)) return true;
    uint8_t *grown = realloc(cache->numbers, cache->numbers_bytes + RAW_LEAF_BLOCKS);
    if (grown == NULL) return false;
    memset(grown + cache->numbers_bytes, 0, RAW_LEAF_BLOCKS);
    cache->numbers = grown;
    cache->leaves[leaf] = cache->numbers_bytes - (RAW_NUMBERS_BLOCKS + leaf * RAW_LEAF_BLOCKS);
    cache->numbers_bytes += RAW_LEAF_BLOCKS;
    return true;
}

bool raw_cache_note_place(struct raw_cache *cache, uint32_t place, uint32_t list)
{
    if (!raw_cache_prepare(cache) || !make_leaf(cache, place >> RAW_LEAF_BITS)) return false;
    if (place < RAW_PLACE_BLOCK)
        cache->first_block = (uint8_t)list;
    else
        cache->numbers[raw_cache_number_of_place(cache, place)] = (uint8_t)list;
    return true;
}

/* ---- allocations ---- */

uint32_t raw_cache_recent(const struct raw_cache *cache, uint64_t serial)
{
    return cache->lists_count == 0 ? RAW_PLACE_NONE
                                   : cache->recent[raw_recent_entry((uint32_t)serial)];
}

void raw_cache_forget_recent(struct raw_cache *cache, uint64_t serial, uint64_t count)
{
    if (cache->lists_count == 0) return;
    for (uint64_t i = 0; i < count && i < RAW_AGES; i++)
        raw_cache_set_recent(cache, serial - i, RAW_PLACE_NONE);
}
