#include "postprocess/object_table.h"

#include <stdlib.h>
#include <string.h>

/* Serials that a lane finds without a table: 1 Mi, 8 KiB of ring. */
#define RING_PAGES_MAX   1024u
#define RING_PAGES_FIRST 4u

/* Up to here the ring grows for any page that lives; beyond, a sparse one is not worth it. */
#define RING_PAGES_EASY 64u

/* A page with fewer survivors, once it has left the ring, is taken apart: its objects then need less memory
 * one by one. */
#define SPARSE_PAGE (OBJECT_PAGE_ENTRIES / 16)

#define SLAB_PAGES 32u

/* Stands in rings where there is no page: everything in it is dead. Never written. */
static struct object_page no_page;

void object_table_init(struct object_table *table)
{
    *table = (struct object_table){0};
}

void object_table_free(struct object_table *table)
{
    for (uint32_t lane = 0; lane < table->lanes_count; lane++) {
        free(table->lanes[lane].ring);
        free(table->lanes[lane].lost);
    }
    free(table->lanes);
    free(table->old_pages.entries);
    free(table->old_objects.entries);
    while (table->slabs != NULL) {
        void *slab = table->slabs;
        table->slabs = *(void **)slab;
        free(slab);
    }
    *table = (struct object_table){0};
}

/* ---- a map from numbers to numbers ---- */

static uint64_t map_home(const struct object_map *map, uint64_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (map->room - 1);
}

/* The entry of `key`, or the empty one where it would be. */
static struct object_map_entry *map_probe(const struct object_map *map, uint64_t key)
{
    uint64_t at = map_home(map, key);
    while (map->entries[at].key != 0 && map->entries[at].key != key)
        at = (at + 1) & (map->room - 1);
    return &map->entries[at];
}

static uint64_t *map_find(const struct object_map *map, uint64_t key)
{
    if (map->room == 0) return NULL;
    struct object_map_entry *entry = map_probe(map, key);
    return entry->key != 0 ? &entry->value : NULL;
}

static bool map_grow(struct object_map *map)
{
    struct object_map grown = {.room = map->room == 0 ? 1024 : map->room * 2, .count = map->count};
    grown.entries = calloc(grown.room, sizeof *grown.entries);
    if (grown.entries == NULL) return false;
    for (uint64_t at = 0; at < map->room; at++)
        if (map->entries[at].key != 0) *map_probe(&grown, map->entries[at].key) = map->entries[at];
    free(map->entries);
    *map = grown;
    return true;
}

static bool map_put(struct object_map *map, uint64_t key, uint64_t value)
{
    if (map->count + map->count / 2 >= map->room && !map_grow(map)) return false;
    *map_probe(map, key) = (struct object_map_entry){key, value};
    map->count++;
    return true;
}

/* Closes the hole, so that no search ends too early. */
static void map_remove(struct object_map *map, uint64_t key)
{
    uint64_t mask = map->room - 1;
    uint64_t hole = (uint64_t)(map_probe(map, key) - map->entries);
    if (map->entries[hole].key == 0) return;
    for (uint64_t at = (hole + 1) & mask; map->entries[at].key != 0; at = (at + 1) & mask) {
        uint64_t home = map_home(map, map->entries[at].key);
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        map->entries[hole] = map->entries[at];
        hole = at;
    }
    map->entries[hole].key = 0;
    map->count--;
}

/* ---- pages ---- */

static bool table_add_slab(struct object_table *table)
{
    /* The first page's place holds the link, so that pages stay aligned. */
    struct object_page *slab = calloc(SLAB_PAGES + 1, sizeof *slab);
    if (slab == NULL) return false;
    *(void **)(void *)slab = table->slabs;
    table->slabs = slab;
    for (uint32_t i = 1; i <= SLAB_PAGES; i++) {
        slab[i].next = table->unused;
        table->unused = &slab[i];
    }
    return true;
}

/* A page of zeros, or no_page when there is no memory. */
static struct object_page *table_take_page(struct object_table *table)
{
    if (table->unused == NULL && !table_add_slab(table)) {
        table->failed = true;
        return &no_page;
    }
    struct object_page *page = table->unused;
    table->unused = page->next;
    page->next = NULL;
    return page;
}

/* All entries are zero again. */
static void table_give_page(struct object_table *table, struct object_page *page)
{
    page->remaining = 0;
    page->next = table->unused;
    table->unused = page;
}

/* Old pages are found by a number that is never 0. */
static uint64_t old_page_key(uint32_t lane, uint64_t index)
{
    return raw_token(lane, index) | (UINT64_C(1) << 63);
}

/* Moves the survivors of a page to the table of objects. */
static void table_dissolve(struct object_table *table, uint32_t lane, uint64_t index,
                           struct object_page *page)
{
    for (uint32_t i = 0; i < OBJECT_PAGE_ENTRIES; i++) {
        if (page->entries[i] == 0) continue;
        uint64_t token = raw_token(lane, (index << OBJECT_PAGE_BITS) + i);
        if (!map_put(&table->old_objects, token, page->entries[i])) table->failed = true;
        page->entries[i] = 0;
    }
    table_give_page(table, page);
}

/* Takes a page that leaves the ring. */
static void table_retire(struct object_table *table, uint32_t lane, uint64_t index,
                         struct object_page *page)
{
    if (page == &no_page) return;
    if (page->remaining <= SPARSE_PAGE)
        table_dissolve(table, lane, index, page);
    else if (!map_put(&table->old_pages, old_page_key(lane, index), (uint64_t)(uintptr_t)page))
        table->failed = true;
}

static struct object_page *table_find_old_page(struct object_table *table, uint64_t token)
{
    uint64_t *found =
        map_find(&table->old_pages,
                 old_page_key(raw_token_lane(token), raw_token_serial(token) >> OBJECT_PAGE_BITS));
    return found != NULL ? (struct object_page *)(uintptr_t)*found : NULL;
}

uint32_t *object_table_find_old(struct object_table *table, uint64_t token)
{
    struct object_page *page = table_find_old_page(table, token);
    if (page != NULL) return &page->entries[raw_token_serial(token) & (OBJECT_PAGE_ENTRIES - 1)];
    /* Little-endian: the low half is the entry. */
    return (uint32_t *)(void *)map_find(&table->old_objects, token);
}

void object_table_kill_old(struct object_table *table, uint64_t token)
{
    uint32_t lane = raw_token_lane(token);
    uint64_t serial = raw_token_serial(token), index = serial >> OBJECT_PAGE_BITS;
    struct object_page *page = table_find_old_page(table, token);
    if (page == NULL) {
        map_remove(&table->old_objects, token);
        return;
    }
    page->entries[serial & (OBJECT_PAGE_ENTRIES - 1)] = 0;
    if (--page->remaining > SPARSE_PAGE) return;
    map_remove(&table->old_pages, old_page_key(lane, index));
    table_dissolve(table, lane, index, page);
}

void object_table_release_page(struct object_table *table, uint64_t token)
{
    struct object_lane *objects = &table->lanes[raw_token_lane(token)];
    uint64_t index = raw_token_serial(token) >> OBJECT_PAGE_BITS;
    struct object_page **place = &objects->ring[index & (objects->ring_pages - 1)];
    table_give_page(table, *place);
    *place = &no_page;
}

/* ---- lanes ---- */

/* Twice the ring, the pages at their new places. */
static bool lane_grow_ring(struct object_lane *objects)
{
    uint64_t pages = objects->ring_pages == 0 ? RING_PAGES_FIRST : objects->ring_pages * 2;
    struct object_page **ring = malloc(pages * sizeof(struct object_page *));
    if (ring == NULL) return false;
    for (uint64_t i = 0; i < pages; i++)
        ring[i] = &no_page;
    for (uint64_t i = 0; i < objects->ring_pages; i++) {
        uint64_t index = objects->head_index - i;
        ring[index & (pages - 1)] = objects->ring[index & (objects->ring_pages - 1)];
    }
    free(objects->ring);
    objects->ring = ring;
    objects->ring_pages = pages;
    return true;
}

/* Whether the ring had better grow than lose `page`. */
static bool lane_wants_to_grow(const struct object_lane *objects, const struct object_page *page)
{
    if (page == &no_page || objects->ring_pages >= RING_PAGES_MAX) return false;
    return objects->ring_pages < RING_PAGES_EASY || page->remaining > SPARSE_PAGE;
}

/* Makes room for one more page in front of the head. */
static bool lane_advance(struct object_table *table, uint32_t lane)
{
    struct object_lane *objects = &table->lanes[lane];
    uint64_t next = objects->head_index + 1;
    struct object_page **place = &objects->ring[next & (objects->ring_pages - 1)];
    if (lane_wants_to_grow(objects, *place)) {
        if (!lane_grow_ring(objects)) return false;
        place = &objects->ring[next & (objects->ring_pages - 1)];
    }
    if (objects->span == objects->ring_pages)
        table_retire(table, lane, next - objects->ring_pages, *place);
    else
        objects->span++;
    *place = &no_page;
    objects->head_index = next;
    return true;
}

/* Puts a new page at the head, in which the serials below births + 1 are dead. */
static void lane_put_head(struct object_table *table, struct object_lane *objects)
{
    objects->head = table_take_page(table);
    objects->ring[objects->head_index & (objects->ring_pages - 1)] = objects->head;
    if (objects->head == &no_page) return;
    objects->head->remaining =
        OBJECT_PAGE_ENTRIES - (uint32_t)((objects->births + 1) & (OBJECT_PAGE_ENTRIES - 1));
}

void object_table_next_page(struct object_table *table, uint32_t lane)
{
    if (!lane_advance(table, lane))
        table->failed = true;
    else
        lane_put_head(table, &table->lanes[lane]);
}

static bool table_make_room_for_lane(struct object_table *table, uint32_t lane)
{
    if (lane < table->lanes_count) return true;
    uint32_t count = table->lanes_count == 0 ? 16 : table->lanes_count;
    while (count <= lane)
        count *= 2;
    struct object_lane *lanes = realloc(table->lanes, count * sizeof *lanes);
    if (lanes == NULL) return false;
    memset(lanes + table->lanes_count, 0, (count - table->lanes_count) * sizeof *lanes);
    table->lanes = lanes;
    table->lanes_count = count;
    return true;
}

bool object_table_open_lane(struct object_table *table, uint32_t lane)
{
    if (!table_make_room_for_lane(table, lane) || !lane_grow_ring(&table->lanes[lane])) {
        table->failed = true;
    } else {
        table->lanes[lane].span = 1;
        lane_put_head(table, &table->lanes[lane]);
    }
    return !table->failed;
}

static bool lane_remember_lost(struct object_lane *objects, uint64_t first, uint64_t last)
{
    if (objects->lost_count > 0 && objects->lost[objects->lost_count - 1].last >= last) return true;
    if (objects->lost_count > 0 && objects->lost[objects->lost_count - 1].last + 1 == first) {
        objects->lost[objects->lost_count - 1].last = last;
        return true;
    }
    if (objects->lost_count == objects->lost_room) {
        uint32_t room = objects->lost_room == 0 ? 8 : objects->lost_room * 2;
        struct object_range *lost = realloc(objects->lost, room * sizeof *lost);
        if (lost == NULL) return false;
        objects->lost = lost;
        objects->lost_room = room;
    }
    objects->lost[objects->lost_count++] = (struct object_range){first, last};
    return true;
}

/* Moves the head to the page of serial births + 1, however far that is. */
static void lane_jump(struct object_table *table, uint32_t lane)
{
    struct object_lane *objects = &table->lanes[lane];
    uint64_t target = (objects->births + 1) >> OBJECT_PAGE_BITS;
    uint64_t steps = target - objects->head_index;
    for (uint64_t i = 0; i < steps && i < RING_PAGES_MAX; i++)
        if (!lane_advance(table, lane)) table->failed = true;
    /* After a whole turn the ring is empty, and where its head stands makes no difference. */
    objects->head_index = target;
    lane_put_head(table, objects);
}

void object_table_will_lose(struct object_table *table, uint32_t lane, uint64_t births,
                            uint64_t count)
{
    if (count > 0 && !lane_remember_lost(&table->lanes[lane], births + 1, births + count))
        table->failed = true;
}

void object_table_lose(struct object_table *table, uint32_t lane, uint64_t count)
{
    if (count == 0) return;
    struct object_lane *objects = &table->lanes[lane];
    uint64_t first = objects->births + 1;
    uint64_t in_head = OBJECT_PAGE_ENTRIES - (first & (OBJECT_PAGE_ENTRIES - 1));
    if (!lane_remember_lost(objects, first, objects->births + count)) table->failed = true;
    objects->births += count;
    objects->head->remaining -= (uint32_t)(count < in_head ? count : in_head);
    if (count < in_head) return;
    if (objects->head->remaining == 0) object_table_release_page(table, raw_token(lane, first));
    lane_jump(table, lane);
}

bool object_table_was_lost(const struct object_table *table, uint64_t token)
{
    const struct object_lane *objects = &table->lanes[raw_token_lane(token)];
    uint64_t serial = raw_token_serial(token);
    uint32_t low = 0, high = objects->lost_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (objects->lost[middle].last < serial)
            low = middle + 1;
        else
            high = middle;
    }
    return low < objects->lost_count && objects->lost[low].first <= serial;
}
