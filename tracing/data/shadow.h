/* shadow - the place of every object (FORMAT.md 2.5), found by the object's address, and the lane
 * that has it, without a byte on the heap.
 *
 *   address >> 13 --> shadow_page --> place = base + lower half of the address / size of objects
 *                                     owner of all its places, or: --> owners[place]
 *
 * A page with objects of one size has consecutive places, one for each object that can start in
 * it. A page with a large object, which starts at its beginning, has one place. A place keeps its
 * size class: the shadow gives out places in blocks of one class, and when a page is closed, the
 * next page of that class takes its places.
 *
 * The owner of a place is the number of its lane plus 1. While one lane owns all places of a page,
 * the page's entry has the owner, and the owners of its places mean nothing.
 *
 * All entries have their addresses in a window of 256 GiB (512 where addresses have 48 bits), where
 * Linux maps nothing by itself. The owners of places and the size classes of blocks of places lie
 * below it: where addresses have fewer bits, the window is as much shorter. Parts are mapped as
 * they are needed. The entries of NULL, the stack, this library and the addresses below the heap
 * are always mapped: most addresses that programs free by mistake are there.
 *
 * Of an opaque allocator only addresses are known. Each granule of 16 bytes of a page has a place,
 * and each place has an owner of its own; objects at 8 modulo 16 have places from a second row.
 * Such a page is opened with the first object on it, and never closed. The owner in its entry is
 * the lane that alone has begun or ended objects on its bytes (ranges.h), or SHADOW_MIXED.
 *
 * Life        prepare, begin ... end, any number of times. A forked child finds an empty table,
 *             since the parent's owners mean nothing there. After the end, and in a child, all
 *             calls but prepare do nothing.
 * Invariant   inverse != 0: the page is open, and every object on it has a place.
 *             owner of a page is a lane: that lane owns each live object on the page. Another lane
 *             makes the page SHADOW_MIXED before one of its objects lives there.
 *             size_class != 0: the page is open, for small objects. size_class == 0: owner == 0.
 *             size_class is right on the page of each live object from shadow_begin() until the
 *             last thread has left the fast path, which is before shadow_end(). The program may
 *             rely on it: malloc_usable_size() is computed from it.
 * Order       `base` and `size_class` are stored before `inverse`, and that before `owner`
 *             (release).
 * Threads     the thread that makes a page, or a large object on it, opens the page. The thread
 *             that returns its span to the page heap closes it; no object on it is alive then. The
 *             thread that takes a place out of a structure, or makes or frees an object there,
 *             stores its owner. The lock of the structure, or the program itself, keeps other
 *             threads away from the place meanwhile. */
#ifndef MALLOCTAPE_SHADOW_H
#define MALLOCTAPE_SHADOW_H

#include "common/atomic.h"
#include "common/check.h"
#include "stream/raw_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

#define SHADOW_PAGE_BITS     13
#define SHADOW_PAGE_BYTES    ((uintptr_t)1 << SHADOW_PAGE_BITS)
#define SHADOW_GRANULE_BYTES ((uintptr_t)16)
#define SHADOW_ADDRESS_BITS  ARCH_ADDRESS_BITS
#define SHADOW_REGION_BITS   30
#define SHADOW_REGIONS       (1u << (SHADOW_ADDRESS_BITS - SHADOW_REGION_BITS))
#define SHADOW_REGION_PAGES  (1u << (SHADOW_REGION_BITS - SHADOW_PAGE_BITS))
#define SHADOW_OWNERS_BYTES  ((uintptr_t)(RAW_PLACE_LIMIT * sizeof(uint16_t)))
#define SHADOW_CLASSES_BYTES ((uintptr_t)(RAW_PLACE_LIMIT / RAW_PLACE_BLOCK))

struct shadow_page {
    uint32_t base; /* place of index 0, which lies outside of the page */
    union {
        uint32_t inverse; /* 2^32 / size of the objects, rounded up; 1: one object; 0: not open */
        uint32_t marks;   /* of granules: SHADOW_OPEN and others; atomic */
    };
    union {
        uint32_t size_class; /* the front end's */
        uint32_t odd_base;   /* of granules: base for those at 8 modulo 16; 0: it has none */
    };
    uint16_t owner; /* of all places; SHADOW_MIXED; 0: nobody yet */
    /* Of granules: the owner, if it has the next page alone, too, or nobody has that; else 0. */
    uint16_t alone;
};

#define SHADOW_OPEN    1u
#define SHADOW_COVERED 2u /* an object that began on an earlier page has had its first bytes */
#define SHADOW_BLANK   4u /* one that began on an earlier page has all of it, or had it last */

/* In the owner of a granule on a mixed page: since the latest object began there, no other one has
 * had its bytes. */
#define SHADOW_SURE 0x8000u

/* Each place has an owner of its own. */
#define SHADOW_MIXED UINT16_MAX

/* Of a granule where a large object begins that is watched: large.h knows who has made it. No fast
 * path takes its free. */
#define SHADOW_WATCHED (SHADOW_SURE - 1u)

/* Where the entry of address 0 is; 0 until shadow_prepare(). */
extern uintptr_t shadow_window;

/* To be called before a start. `cover` calls shadow_cover() and shadow_open_pages() for the whole
 * heap. False: there is no memory, here or as `cover` says; nothing is kept. */
bool shadow_prepare(bool (*cover)(void));

/* After shadow_prepare(), when nothing will be recorded after all: nothing is kept. */
void shadow_cancel(void);

/* After shadow_prepare(), before anything is recorded. */
void shadow_begin(void);

bool shadow_has_begun(void);

/* After a recording: forgets all owners and gives their memory to the system. The addresses stay
 * reserved, so a thread that is late harms nobody. */
void shadow_end(void);

/* The heap has these addresses. To be called before an object there is recorded. False: there is no
 * memory, and no object there may be recorded. */
bool shadow_cover(uintptr_t address, size_t bytes);

/* Opens the page of `object` for objects of `size` bytes (0: one object, at its start). Objects
 * without an owner may be on it. Several threads may open the same page at once. False: there is no
 * memory, no place left, or no region. */
bool shadow_open(const void *object, size_t size, uint32_t size_class);

/* Makes sure that there is a place for an object of an opaque allocator at this address. There may
 * be objects on the page that nobody has. `*first`: the place of the first granule of the row, if
 * there was no row before, else 0. False: as above. */
bool shadow_open_granule(const void *object, uint32_t *first);

/* The lane of `owner` begins or ends an object on this page of an opaque allocator, whose entry is
 * mapped. */
void shadow_touch(uintptr_t number, uint16_t owner);

/* Opens, as shadow_open(), `pages` pages from page number `first`. Once shadow_begin() has been
 * called, there are no objects on them yet. False: not all could be opened. */
bool shadow_open_pages(uintptr_t first, uintptr_t pages, size_t size, uint32_t size_class);

/* `pages` pages from page number `first` go back to the page heap; with `size_class` 0 only the
 * first can have been open. Costs little when they have been closed already. */
void shadow_close(uintptr_t first, uintptr_t pages, uint32_t size_class);

extern bool shadow_covered[SHADOW_REGIONS];

/* Whether an address has an entry. */
static inline bool shadow_covers(const void *object)
{
    uintptr_t region = (uintptr_t)object >> SHADOW_REGION_BITS;
    return region < SHADOW_REGIONS && atomic_load_acquire(&shadow_covered[region]);
}

/* The same, of many addresses in turn, most of them in one region: `*region` is that of the latest
 * that had an entry, at first 0, where NULL has one. While a recording lasts, none is taken away. */
static inline bool shadow_covers_next(uintptr_t *region, const void *object)
{
    uintptr_t its = (uintptr_t)object >> SHADOW_REGION_BITS;
    if (__builtin_expect(its == *region, 1)) return true;
    if (!shadow_covers(object)) return false;
    *region = its;
    return true;
}

/* The entry of an address that has one; the caller knows the window. */
static inline struct shadow_page *shadow_page_in(uintptr_t window, const void *object)
{
    return (struct shadow_page *)window + ((uintptr_t)object >> SHADOW_PAGE_BITS);
}

static inline struct shadow_page *shadow_page_of(const void *object)
{
    return shadow_page_in(shadow_window, object);
}

static inline bool shadow_is_open(const struct shadow_page *page)
{
    return atomic_load_acquire(&page->inverse) != 0;
}

/* Place of the object, on a page that is open. Objects of one size start at distances of at least
 * that size, so the products of two differ in the upper half. */
static inline uint32_t shadow_place(const struct shadow_page *page, const void *object)
{
    return page->base + (uint32_t)(((uint64_t)(uint32_t)(uintptr_t)object * page->inverse) >> 32);
}

/* The same on a page of granules; 0: there is none. */
static inline uint32_t shadow_granule_place(const struct shadow_page *page, const void *object)
{
    uintptr_t address = (uintptr_t)object;
    uint32_t base = atomic_load_consume(&page->base);
    if (__builtin_expect((address & (SHADOW_GRANULE_BYTES / 2)) != 0, 0))
        base = atomic_load_consume(&page->odd_base);
    if (__builtin_expect(base == 0, 0)) return 0;
    base += (uint32_t)(address % SHADOW_PAGE_BYTES / SHADOW_GRANULE_BYTES);
    if (base == 0) __builtin_unreachable(); /* so that callers look once */
    return base;
}

/* The address of a place's owner. */
static inline uint16_t *shadow_owner_in(uintptr_t window, uint32_t place)
{
    return (uint16_t *)(window - SHADOW_OWNERS_BYTES) + place;
}

static inline uint16_t *shadow_owner(uint32_t place)
{
    return shadow_owner_in(shadow_window, place);
}

/* `owner` has the granule from now on, which stays sure if it was. */
static inline void shadow_take_granule(uint32_t place, uint16_t owner)
{
    uint16_t *at = shadow_owner(place);
    atomic_store_release(at, (uint16_t)(owner | (atomic_load_relaxed(at) & SHADOW_SURE)));
}

/* Whether the last owner of all bytes of an object on a page of granules is this one, which has
 * them now: the latest object of its granule was the owner's, with none inside, or the owner has
 * the page alone. False: perhaps; ranges.h knows more. `at`: the address of the granule's owner. */
static inline bool shadow_had_bytes(const struct shadow_page *page, uint16_t *at,
                                    const void *object, uint64_t bytes, uint16_t owner)
{
    uint64_t four, left = (bytes + SHADOW_GRANULE_BYTES - 1) / SHADOW_GRANULE_BYTES;
    if ((uintptr_t)object % SHADOW_PAGE_BYTES + bytes > SHADOW_PAGE_BYTES) return false;
    if (__builtin_expect((*at ^ SHADOW_SURE) != owner, 0)) { /* plain loads: fewer registers */
        if (atomic_load_relaxed(&page->owner) != owner) return false;
        atomic_store_relaxed(at, owner);
        return true;
    }
    if (atomic_load_operand(&page->odd_base)) return false;
    for (; left > 4; left -= 4, at += 4) {
        memcpy(&four, at + 1, sizeof four);
        if (four) return false;
    }
    while (left > 1)
        if (at[--left]) return false;
    return true;
}

/* An object of fewer than RANGES_SMALL bytes begins on a page of granules. If `owner` surely had all
 * of its bytes last, its granule is that owner's now. False: that is not known (ranges.h finds it
 * out), and nothing is stored. `at`: the address of the granule's owner. */
static inline bool shadow_begin_small(const struct shadow_page *page, uint16_t *at,
                                      const void *object, uint64_t bytes, uint16_t owner)
{
    if (__builtin_expect(atomic_load_relaxed(&page->alone) != owner, 0))
        return shadow_had_bytes(page, at, object, bytes, owner);
    atomic_store_relaxed(at, owner);
    return true;
}

/* The address of a block's size class. */
static inline uint8_t *shadow_block_class(uint32_t block)
{
    return (uint8_t *)(shadow_window - SHADOW_OWNERS_BYTES - SHADOW_CLASSES_BYTES) + block;
}

/* `owner` has the place on this page from now on; 0: nobody, though an object lives there. */
static inline void shadow_take(struct shadow_page *page, uint32_t place, uint16_t owner)
{
    uint16_t all = atomic_load_relaxed(&page->owner);
    atomic_store_relaxed(shadow_owner(place), owner);
    /* Stores nothing that is there already: other threads read the entry's cache line. */
    if (all == SHADOW_MIXED || page->size_class == 0) return;
    if (owner) { /* else the page is nobody's either */
        if (all == owner) return;
        if (all == 0 && atomic_swap_once_relaxed(&page->owner, &all, owner)) return;
    }
    atomic_store_relaxed(&page->owner, SHADOW_MIXED);
}

/* A place has one owner, who has its page, too, unless that is of several. */
static inline void shadow_check(const struct shadow_page *page, uint16_t owner)
{
    MUST_HOLD(page->size_class == 0 || atomic_load_relaxed(&page->owner) == owner ||
              atomic_load_relaxed(&page->owner) == SHADOW_MIXED);
    (void)page;
    (void)owner;
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
