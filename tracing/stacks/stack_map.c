#include "tracing/stacks/stack_map.h"

#include "common/atomic.h"
#include "tracing/os/os.h"

#include <stddef.h>

#define PLACES_FIRST 4096u
#define PLACES_MAX   (1u << 26)
/* A table is full enough for a search to be long only if growing has failed. */
#define SEARCHED_MAX 4096u

/* Of a table this large, nearly all pages are used. */
#define DENSE_BYTES ((size_t)4 << 20)

/* Taken places have a key, then (release) a number. */
struct place {
    uint64_t key;
    uint32_t number;
};

struct stack_map_table {
    struct stack_map_table *before; /* which has been emptied */
    uint32_t shift;                 /* 64 less the logarithm of the places */
    uint32_t places;
    struct place place[];
};

static size_t bytes_of(uint32_t places)
{
    return sizeof(struct stack_map_table) + places * sizeof(struct place);
}

static uint32_t home_of(const struct stack_map_table *table, uint64_t key)
{
    return (uint32_t)((key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> table->shift);
}

uint32_t stack_map_find(const struct stack_map *map, uint64_t key)
{
    const struct stack_map_table *table = atomic_load_acquire(&map->table);
    if (table == NULL) return 0;
    uint32_t at = home_of(table, key);
    for (uint32_t i = 0; i < SEARCHED_MAX; i++) {
        const struct place *place = &table->place[(at + i) & (table->places - 1)];
        const uint64_t there = atomic_load_relaxed(&place->key);
        if (there == key) return atomic_load_acquire(&place->number);
        if (there == 0) return 0;
    }
    return 0;
}

void stack_map_prefetch(const struct stack_map *map, uint64_t key)
{
    const struct stack_map_table *table = atomic_load_acquire(&map->table);
    if (table != NULL) __builtin_prefetch(&table->place[home_of(table, key)]);
}

/* A key that is there keeps its number. */
static bool entry_put(struct stack_map_table *table, uint64_t key, uint32_t number)
{
    uint32_t at = home_of(table, key);
    for (uint32_t i = 0; i < SEARCHED_MAX; i++) {
        struct place *place = &table->place[(at + i) & (table->places - 1)];
        uint64_t there = atomic_load_relaxed(&place->key);
        if (there == 0 && atomic_swap_once_relaxed(&place->key, &there, key)) {
            atomic_store_release(&place->number, number);
            return true;
        }
        if (there == key) return false;
    }
    return false;
}

void stack_map_put(struct stack_map *map, uint64_t key, uint32_t number)
{
    struct stack_map_table *table = atomic_load_acquire(&map->table);
    if (table != NULL && entry_put(table, key, number)) atomic_add_relaxed(&map->used, 1);
}

static bool stack_map_grow(struct stack_map *map, struct stack_map_table *old)
{
    const uint32_t places = old != NULL ? old->places * 2 : PLACES_FIRST;
    if (places > PLACES_MAX) return false;
    struct stack_map_table *table = os_memory_reserve_per_process(bytes_of(places));
    if (table == NULL) return false;
    if (bytes_of(places) >= DENSE_BYTES) os_memory_is_dense(table, bytes_of(places));
    table->before = old;
    table->places = places;
    table->shift = 64 - (uint32_t)__builtin_ctz(places);
    for (uint32_t i = 0; old != NULL && i < old->places; i++) {
        const uint32_t number = atomic_load_acquire(&old->place[i].number);
        if (number) entry_put(table, atomic_load_relaxed(&old->place[i].key), number);
    }
    atomic_store_release(&map->table, table);
    /* Whoever still searches it finds nothing there. Its head stays. */
    if (old != NULL && old->places > PLACES_FIRST)
        os_memory_clear((uint8_t *)old + PLACES_FIRST, bytes_of(old->places) - PLACES_FIRST);
    return true;
}

bool stack_map_has_room(struct stack_map *map, uint32_t count)
{
    struct stack_map_table *table = atomic_load_acquire(&map->table);
    const uint64_t used = atomic_load_relaxed(&map->used) + (uint64_t)count;
    if (table != NULL && used <= table->places / 4 * 3) return true;
    /* Another thread may be at it: there is room enough till it is done. */
    if (atomic_exchange_acquire(&map->growing, 1))
        return table != NULL && used < table->places / 8 * 7;
    bool grown = atomic_load_acquire(&map->table) != table || stack_map_grow(map, table);
    atomic_store_release(&map->growing, 0);
    return grown;
}

void stack_map_clear(struct stack_map *map)
{
    struct stack_map_table *table = map->table;
    while (table != NULL) {
        struct stack_map_table *before = table->before;
        os_memory_release(table, bytes_of(table->places));
        table = before;
    }
    map->table = NULL;
    map->used = map->growing = 0;
}
