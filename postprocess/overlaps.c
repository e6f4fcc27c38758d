#include "postprocess/overlaps.h"

#include <stdlib.h>

#include "common/array.h"

void overlaps_free(struct overlaps *overlaps)
{
    address_pages_free(&overlaps->pages);
    free(overlaps->objects);
    *overlaps = (struct overlaps){.objects = NULL};
}

/* An object that overlaps the bytes from `address` to `end` in this page: if there is one, so does
 * the last object that begins there before `end`, or else the one that covers the page's
 * beginning. */
static uint32_t look_in_page(const struct overlaps *overlaps, uint64_t number, uint64_t address,
                             uint64_t end)
{
    const struct address_page *page = address_pages_find(&overlaps->pages, number);
    const uint64_t start = number << ADDRESS_PAGE_BITS;
    const uint64_t limit =
        end - start < ADDRESS_PAGE_BYTES ? (end - start + 7) / 8 : ADDRESS_STARTS;
    if (page == NULL) return OVERLAPS_NONE;
    const uint64_t before = address_pages_start_below(page, limit);
    if (before == ADDRESS_STARTS && page->over == 0) return OVERLAPS_NONE;
    const uint32_t found =
        before != ADDRESS_STARTS ? page->starts->objects[before] : page->over - 1;
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
    const uint64_t first = address >> ADDRESS_PAGE_BITS, pages = address_pages_of(address, least);
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
    overlaps->failed = !array_reserve(&overlaps->objects, &overlaps->objects_room,
                                      register_number + (size_t)1, sizeof *overlaps->objects) ||
                       !address_pages_begin(&overlaps->pages, address, least, register_number);
    if (!overlaps->failed)
        overlaps->objects[register_number] = (struct overlaps_object){address, least, place};
}

void overlaps_end(struct overlaps *overlaps, uint32_t register_number)
{
    if (overlaps->failed || register_number >= overlaps->objects_room) return;
    struct overlaps_object *object = &overlaps->objects[register_number];
    if (object->bytes == 0) return;
    address_pages_end(&overlaps->pages, object->address, object->bytes, register_number);
    object->bytes = 0;
}
