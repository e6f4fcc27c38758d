/* Whether live objects overlap, if the recording has their addresses.
 *
 *   address / 8192 --> page --> starts   which object begins at each 8 bytes of the page
 *                           --> over     the object that covers its beginning
 *
 * When an object begins, those that begin inside it and the one before it are looked up. A recorder
 * does not know what happens in a pause, so an older object may already have ended unseen. Two that
 * overlap are therefore counted only when the older one ends: then it was alive when the other one
 * began. */
#include <inttypes.h>
#include <stdlib.h>

#include "inspect/verify.h"

#define PAGE_BITS  13
#define PAGE_BYTES (UINT64_C(1) << PAGE_BITS)
#define STARTS     (PAGE_BYTES / 8)
#define WORDS      (STARTS / 64)
/* An object is examined only up to this distance from its beginning. */
#define PAGES_MAX  (UINT64_C(1) << (30 - PAGE_BITS))

struct verify_page {
    uint64_t number; /* plus one; 0: the entry is not used */
    uint32_t over;   /* register plus one; 0: none */
    struct {
        uint64_t bits[WORDS];
        uint32_t registers[STARTS];
    } * starts; /* NULL: none there yet */
};

/* ---- pages ---- */

static size_t verify_ranges_entry_of(const struct verify_ranges *ranges, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (ranges->room - 1);
    while (ranges->pages[at].number != 0 && ranges->pages[at].number != number + 1)
        at = (at + 1) & (ranges->room - 1);
    return at;
}

static bool verify_ranges_grow(struct verify_ranges *ranges)
{
    struct verify_ranges larger = {.room = ranges->room == 0 ? 1024 : 2 * ranges->room};
    larger.pages = calloc(larger.room, sizeof *larger.pages);
    if (larger.pages == NULL) return false;
    for (size_t i = 0; i < ranges->room; i++)
        if (ranges->pages[i].number != 0)
            larger.pages[verify_ranges_entry_of(&larger, ranges->pages[i].number - 1)] =
                ranges->pages[i];
    larger.count = ranges->count;
    free(ranges->pages);
    *ranges = larger;
    return true;
}

/* The page; `made`: it is created if need be. NULL: there is none, or no memory. */
static struct verify_page *verify_ranges_page_of(struct verify_ranges *ranges, uint64_t number,
                                                 bool made)
{
    if (made && 2 * (ranges->count + 1) > ranges->room && !verify_ranges_grow(ranges)) return NULL;
    if (ranges->room == 0) return NULL;
    struct verify_page *page = &ranges->pages[verify_ranges_entry_of(ranges, number)];
    if (page->number != 0) return page;
    if (!made) return NULL;
    page->number = number + 1;
    ranges->count++;
    return page;
}

void verify_ranges_free(struct verify_ranges *ranges)
{
    for (size_t i = 0; i < ranges->room; i++)
        free(ranges->pages[i].starts);
    free(ranges->pages);
}

/* ---- objects ---- */

static uint64_t verify_ranges_last_page(const struct verify_object *object)
{
    uint64_t first = object->address >> PAGE_BITS;
    uint64_t pages =
        (object->address % PAGE_BYTES + object->size - (object->size != 0)) >> PAGE_BITS;
    return first + (pages < PAGES_MAX ? pages : PAGES_MAX);
}

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

/* The last start in the page below `limit`; STARTS: there is none. */
static uint64_t start_below(const struct verify_page *page, uint64_t limit)
{
    for (uint64_t word = (limit + 63) / 64; word-- > 0;) {
        uint64_t bits = page->starts->bits[word];
        if (limit < 64 * (word + 1)) bits &= (UINT64_C(1) << limit % 64) - 1;
        if (bits != 0) return 64 * word + 63 - (uint64_t)__builtin_clzll(bits);
    }
    return STARTS;
}

static void look_before(struct verify *verify, const struct verify_lane *lane,
                        const struct verify_page *page, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    uint64_t before = STARTS;
    if (page->starts != NULL) before = start_below(page, object->address % PAGE_BYTES / 8);
    if (before != STARTS)
        look_at(verify, lane, page->starts->registers[before], register_number);
    else if (page->over != 0)
        look_at(verify, lane, page->over - 1, register_number);
}

static void look_inside(struct verify *verify, const struct verify_lane *lane,
                        const struct verify_page *page, uint64_t from, uint64_t end,
                        uint32_t register_number)
{
    if (page->starts == NULL) return;
    for (uint64_t at = from; at < end; at++) {
        if (at % 64 == 0 && page->starts->bits[at / 64] == 0) {
            at += 63;
            continue;
        }
        if (page->starts->bits[at / 64] >> at % 64 & 1)
            look_at(verify, lane, page->starts->registers[at], register_number);
    }
}

bool verify_range_begins(struct verify *verify, const struct verify_lane *lane,
                         uint32_t register_number)
{
    struct verify_ranges *ranges = &verify->ranges;
    const struct verify_object *object = &verify->objects[register_number];
    uint64_t first = object->address >> PAGE_BITS, last = verify_ranges_last_page(object);
    uint64_t start = object->address % PAGE_BYTES / 8;
    for (uint64_t number = first; number <= last; number++) {
        struct verify_page *page = verify_ranges_page_of(ranges, number, true);
        if (page == NULL) return verify_no_memory(verify);
        uint64_t end =
            number < last ? STARTS : ((object->address + object->size + 7) / 8 - 1) % STARTS + 1;
        if (number == first) look_before(verify, lane, page, register_number);
        if (object->size != 0)
            look_inside(verify, lane, page, number == first ? start : 0, end, register_number);
        if (number > first) page->over = register_number + 1;
        if (number > first) continue;
        if (page->starts == NULL) page->starts = calloc(1, sizeof *page->starts);
        if (page->starts == NULL) return verify_no_memory(verify);
        page->starts->bits[start / 64] |= UINT64_C(1) << start % 64;
        page->starts->registers[start] = register_number;
    }
    return true;
}

void verify_range_ends(struct verify *verify, uint32_t register_number)
{
    const struct verify_object *object = &verify->objects[register_number];
    uint64_t first = object->address >> PAGE_BITS, last = verify_ranges_last_page(object);
    uint64_t start = object->address % PAGE_BYTES / 8;
    for (uint64_t number = first; number <= last; number++) {
        struct verify_page *page = verify_ranges_page_of(&verify->ranges, number, false);
        if (page == NULL) continue;
        if (number > first && page->over == register_number + 1) page->over = 0;
        if (number == first && page->starts != NULL &&
            page->starts->registers[start] == register_number)
            page->starts->bits[start / 64] &= ~(UINT64_C(1) << start % 64);
    }
}
