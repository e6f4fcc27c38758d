#include "postprocess/overlaps.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define PAGE_BITS  13
#define PAGE_BYTES (UINT64_C(1) << PAGE_BITS)
#define STARTS     (PAGE_BYTES / 8)
#define WORDS      (STARTS / 64)
/* Pages farther from the beginning of an object are not looked at. */
#define PAGES_MAX  (UINT64_C(1) << (30 - PAGE_BITS))

struct overlaps_starts {
    uint64_t bits[WORDS];
    uint32_t registers[STARTS];
};

struct overlaps_page {
    uint64_t number;                /* plus one; 0: the entry is not used */
    uint32_t over;                  /* register plus one; 0: nobody */
    struct overlaps_starts *starts; /* NULL: none there yet */
};

void overlaps_free(struct overlaps *overlaps)
{
    for (size_t i = 0; i < overlaps->pages_room; i++)
        free(overlaps->pages[i].starts);
    free(overlaps->pages);
    free(overlaps->objects);
    *overlaps = (struct overlaps){0};
}

/* ---- pages ---- */

static size_t overlaps_entry_of(const struct overlaps *overlaps, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (overlaps->pages_room - 1);
    while (overlaps->pages[at].number != 0 && overlaps->pages[at].number != number + 1)
        at = (at + 1) & (overlaps->pages_room - 1);
    return at;
}

static bool pages_grow(struct overlaps *overlaps)
{
    struct overlaps larger = {.pages_room =
                                  overlaps->pages_room == 0 ? 1024 : 2 * overlaps->pages_room};
    larger.pages = calloc(larger.pages_room, sizeof *larger.pages);
    if (larger.pages == NULL) return false;
    for (size_t i = 0; i < overlaps->pages_room; i++)
        if (overlaps->pages[i].number != 0)
            larger.pages[overlaps_entry_of(&larger, overlaps->pages[i].number - 1)] =
                overlaps->pages[i];
    free(overlaps->pages);
    overlaps->pages = larger.pages;
    overlaps->pages_room = larger.pages_room;
    return true;
}

/* NULL: there is none. */
static struct overlaps_page *page_find(const struct overlaps *overlaps, uint64_t number)
{
    if (overlaps->pages_room == 0) return NULL;
    struct overlaps_page *page = &overlaps->pages[overlaps_entry_of(overlaps, number)];
    return page->number != 0 ? page : NULL;
}

/* NULL: no memory. */
static struct overlaps_page *page_make(struct overlaps *overlaps, uint64_t number)
{
    if (2 * (overlaps->pages_count + 1) > overlaps->pages_room && !pages_grow(overlaps))
        return NULL;
    struct overlaps_page *page = &overlaps->pages[overlaps_entry_of(overlaps, number)];
    if (page->number == 0) overlaps->pages_count++;
    page->number = number + 1;
    return page;
}

static uint64_t pages_of(uint64_t address, uint64_t bytes)
{
    const uint64_t pages = ((address % PAGE_BYTES + bytes - 1) >> PAGE_BITS) + 1;
    return pages < PAGES_MAX ? pages : PAGES_MAX;
}

/* ---- objects ---- */

/* The last start in the page before `limit`; STARTS: there is none. */
static uint64_t start_before(const struct overlaps_starts *starts, uint64_t limit)
{
    for (uint64_t word = (limit + 63) / 64; word-- > 0;) {
        uint64_t bits = starts->bits[word];
        if (limit < 64 * (word + 1)) bits &= (UINT64_C(1) << limit % 64) - 1;
        if (bits != 0) return 64 * word + 63 - (uint64_t)__builtin_clzll(bits);
    }
    return STARTS;
}

/* An object that overlaps the bytes from `address` to `end` in this page: if there is one, so does
 * the last object that begins there before `end`, or else the one that covers the page's
 * beginning. */
static uint32_t look_in_page(const struct overlaps *overlaps, uint64_t number, uint64_t address,
                             uint64_t end)
{
    const struct overlaps_page *page = page_find(overlaps, number);
    const uint64_t start = number << PAGE_BITS;
    const uint64_t limit = end - start < PAGE_BYTES ? (end - start + 7) / 8 : STARTS;
    uint32_t found = OVERLAPS_NONE;
    if (page == NULL) return OVERLAPS_NONE;
    const uint64_t before = page->starts != NULL ? start_before(page->starts, limit) : STARTS;
    if (before != STARTS)
        found = page->starts->registers[before];
    else if (page->over != 0)
        found = page->over - 1;
    if (found == OVERLAPS_NONE) return OVERLAPS_NONE;
    const struct overlaps_object *object = &overlaps->objects[found];
    return object->address < end && address < object->address + object->bytes ? found
                                                                              : OVERLAPS_NONE;
}

uint32_t overlaps_find(const struct overlaps *overlaps, uint64_t address, uint64_t bytes,
                       uint32_t *its_place)
{
    const uint64_t least = bytes != 0 ? bytes : 1;
    uint32_t found = OVERLAPS_NONE;
    if (overlaps->failed || address == 0) return OVERLAPS_NONE;
    const uint64_t first = address >> PAGE_BITS, pages = pages_of(address, least);
    for (uint64_t i = 0; i < pages && found == OVERLAPS_NONE; i++)
        found = look_in_page(overlaps, first + i, address, address + least);
    if (found != OVERLAPS_NONE) *its_place = overlaps->objects[found].place;
    return found;
}

void overlaps_begin(struct overlaps *overlaps, uint32_t place, uint64_t address, uint64_t bytes,
                    uint32_t register_number)
{
    const uint64_t least = bytes != 0 ? bytes : 1;
    if (overlaps->failed || address == 0) return;
    overlaps->failed = true;
    if (!array_reserve(&overlaps->objects, &overlaps->objects_room, register_number + (size_t)1,
                       sizeof *overlaps->objects))
        return;
    const uint64_t first = address >> PAGE_BITS, pages = pages_of(address, least);
    for (uint64_t i = 0; i < pages; i++) {
        struct overlaps_page *page = page_make(overlaps, first + i);
        if (page == NULL) return;
        if (i > 0) page->over = register_number + 1;
        if (i > 0) continue;
        if (page->starts == NULL) page->starts = calloc(1, sizeof *page->starts);
        if (page->starts == NULL) return;
        const uint64_t start = address % PAGE_BYTES / 8;
        page->starts->bits[start / 64] |= UINT64_C(1) << start % 64;
        page->starts->registers[start] = register_number;
    }
    overlaps->objects[register_number] = (struct overlaps_object){address, least, place};
    overlaps->failed = false;
}

void overlaps_end(struct overlaps *overlaps, uint32_t register_number)
{
    if (overlaps->failed || register_number >= overlaps->objects_room) return;
    struct overlaps_object *object = &overlaps->objects[register_number];
    if (object->bytes == 0) return;
    const uint64_t first = object->address >> PAGE_BITS;
    const uint64_t pages = pages_of(object->address, object->bytes);
    const uint64_t start = object->address % PAGE_BYTES / 8;
    for (uint64_t i = 0; i < pages; i++) {
        struct overlaps_page *page = page_find(overlaps, first + i);
        if (page == NULL) continue;
        if (i > 0 && page->over == register_number + 1) page->over = 0;
        if (i == 0 && page->starts != NULL)
            page->starts->bits[start / 64] &= ~(UINT64_C(1) << start % 64);
    }
    object->bytes = 0;
}
