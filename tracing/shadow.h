/* shadow - the token of every live object, found by the object's address, without a byte on the
 * heap.
 *
 *   address >> 13 --> shadow_page --> tokens of one page of the heap
 *                                     index = lower half of the address / size of its objects
 *
 * A page of the heap that holds objects of one size gets as many tokens as objects can start in
 * it, so the tokens of a page lie together: 8 bytes for each object, and 16 for each 8 KiB page.
 * A page whose object starts at its beginning (a large one) has one.
 *
 * The pages' entries lie at a fixed distance for each address, in a window of 256 GiB where nobody else
 * maps anything. Only the parts for regions with heap in them are mapped (2 MiB for 1 GiB), because programs
 * limit their address space; and those for NULL, the stack, this library and what is before the heap, where
 * most addresses are that programs free by mistake.
 *
 * Pages of small objects are opened when the allocator makes them, so that an object on such a page
 * always has a place for its token; those of large ones with the object.
 *
 * Life        prepare, begin ... end, any number of times. A forked child finds the table as before all that;
 *            what it says of the parent's objects would mean nothing there. After the end, and in a child, all
 *            calls but prepare do nothing.
 * Invariant   size_class != 0: `tokens` has room for every index of the page.
 *             A page that was ever opened, and is not now, has size_class 0 and tokens that may be
 *             written but mean nothing.
 * Order       `tokens` is stored before `inverse`, and that before `size_class` (release).
 * Threads     a page is opened by the thread that makes it (or a large object on it), and closed by
 *             the one that returns its span to the page heap, when no object on it lives. */
#ifndef MALLOCTAPE_SHADOW_H
#define MALLOCTAPE_SHADOW_H

#include "atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

#define SHADOW_PAGE_BITS    13
#define SHADOW_PAGE_BYTES   ((uintptr_t)1 << SHADOW_PAGE_BITS)
/* User addresses of x86-64 with four levels of page tables. */
#define SHADOW_ADDRESS_BITS 47
#define SHADOW_REGION_BITS  30
#define SHADOW_REGIONS      (1u << (SHADOW_ADDRESS_BITS - SHADOW_REGION_BITS))
#define SHADOW_REGION_PAGES (1u << (SHADOW_REGION_BITS - SHADOW_PAGE_BITS))

struct shadow_page {
    uint64_t *tokens;    /* of index 0, which lies outside of the page */
    uint32_t inverse;    /* 2^32 / size of the objects, rounded up; 1: one object; 0: not open */
    uint32_t size_class; /* the front end's; 0 also if the page is not open */
};

/* Where the entry of address 0 is; 0 until shadow_prepare(). */
extern uintptr_t shadow_window;

/* Before a start. `cover` calls shadow_cover() and shadow_open_pages() for all that the heap has; false: no
 * memory. The same is returned then, and nothing is kept. */
bool shadow_prepare(bool (*cover)(void));

/* After shadow_prepare(), when nothing will be recorded after all: nothing is kept. */
void shadow_cancel(void);

/* After shadow_prepare(), before anything is recorded. */
void shadow_begin(void);

bool shadow_has_begun(void);

/* Nothing is recorded any more: forgets all tokens and gives their memory to the system. Addresses are kept,
 * so a thread that is late harms nobody. */
void shadow_end(void);

/* The heap has, or has got, these addresses. Before any object there is recorded. False: no memory;
 * nothing may be recorded of objects there. */
bool shadow_cover(uintptr_t address, size_t bytes);

/* Makes the page of `object` ready for objects of `size` bytes (0: one object, at its start). Any
 * number of threads may ask for the same. False: no memory, or no region; tokens that are stored
 * there are lost, and nothing else happens. */
bool shadow_open(const void *object, size_t size, uint32_t size_class);

/* shadow_open() for `pages` pages from page number `first`. */
void shadow_open_pages(uintptr_t first, uintptr_t pages, size_t size, uint32_t size_class);

/* `pages` pages from page number `first` go back to the page heap; with `size_class` 0 only the
 * first can have been open. */
void shadow_close(uintptr_t first, uintptr_t pages, uint32_t size_class);

/* Whether an address has an entry. */
bool shadow_covers(const void *object);

/* The entry of an address that has one. */
static inline struct shadow_page *shadow_page_of(const void *object)
{
    return (struct shadow_page *)shadow_window + ((uintptr_t)object >> SHADOW_PAGE_BITS);
}

static inline bool shadow_is_open(const struct shadow_page *page)
{
    return atomic_load_acquire(&page->inverse) != 0;
}

/* Objects of one size start at distances of at least that size, so the products of two differ in the
 * upper half. */
static inline size_t shadow_index(uint32_t inverse, const void *object)
{
    return (size_t)(((uint64_t)(uint32_t)(uintptr_t)object * inverse) >> 32);
}

/* Place of the object's token, on a page that is open or was once. */
static inline uint64_t *shadow_token(const struct shadow_page *page, const void *object)
{
    return page->tokens + shadow_index(page->inverse, object);
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
