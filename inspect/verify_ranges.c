/* Whether live objects overlap, if the recording has their addresses.
 *
 * When an object begins, those that begin inside it and the one before it are looked up. A recorder
 * does not know what happens in a pause, so an older object may already have ended unseen. Two that
 * overlap are therefore counted only when the older one ends: then it was alive when the other one
 * began. */
#include <inttypes.h>

#include "inspect/verify.h"

void verify_overlaps(struct verify *verify, const struct verify_lane *lane, uint32_t older_register,
                     uint32_t register_number)
{
    struct verify_object *older = &verify->objects[older_register];
    const struct verify_object *object = &verify->objects[register_number];
    older->overlapped = true;
    verify_note(verify, &verify->overlap, VERIFY_OBJECTS, lane,
                "%" PRIu64 " bytes begin at place %" PRIu32 ", and object %" PRIu32 ":%" PRIu64
                " of %" PRIu64 " bytes at place %" PRIu32 " has not ended",
                object->size, object->place, raw_allocations_lane(older->allocated),
                raw_allocations_count(older->allocated), older->size, older->place);
}

static void look_at(struct verify *verify, const struct verify_lane *lane, uint32_t other_register,
                    uint32_t register_number)
{
    const struct verify_object *other = &verify->objects[other_register];
    const struct verify_object *object = &verify->objects[register_number];
    if (other->address < object->address + object->size &&
        object->address < other->address + other->size)
        verify_overlaps(verify, lane, other_register, register_number);
}

static void look_before(struct verify *verify, const struct verify_lane *lane,
                        const struct address_page *page, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    const uint64_t before =
        address_pages_start_below(page, object->address % ADDRESS_PAGE_BYTES / 8);
    if (before != ADDRESS_STARTS)
        look_at(verify, lane, page->starts->objects[before], register_number);
    else if (page->over != 0)
        look_at(verify, lane, page->over - 1, register_number);
}

static void look_inside(struct verify *verify, const struct verify_lane *lane,
                        const struct address_page *page, uint64_t from, uint64_t end,
                        uint32_t register_number)
{
    if (page->starts == NULL) return;
    for (uint64_t at = from; at < end; at++) {
        if (at % 64 == 0 && page->starts->bits[at / 64] == 0) {
            at += 63;
            continue;
        }
        if (page->starts->bits[at / 64] >> at % 64 & 1)
            look_at(verify, lane, page->starts->objects[at], register_number);
    }
}

bool verify_range_begins(struct verify *verify, const struct verify_lane *lane,
                         uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    const uint64_t first = object->address >> ADDRESS_PAGE_BITS;
    const uint64_t last = first + address_pages_of(object->address, object->size) - 1;
    const uint64_t start = object->address % ADDRESS_PAGE_BYTES / 8;
    for (uint64_t number = first; number <= last; number++) {
        const struct address_page *page = address_pages_find(&verify->ranges, number);
        if (page == NULL) continue;
        const uint64_t end =
            number < last ? ADDRESS_STARTS
                          : ((object->address + object->size + 7) / 8 - 1) % ADDRESS_STARTS + 1;
        if (number == first) look_before(verify, lane, page, register_number);
        if (object->size != 0)
            look_inside(verify, lane, page, number == first ? start : 0, end, register_number);
    }
    return address_pages_begin(&verify->ranges, object->address, object->size, register_number) ||
           verify_no_memory(verify);
}

void verify_range_ends(struct verify *verify, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    address_pages_end(&verify->ranges, object->address, object->size, register_number);
}
