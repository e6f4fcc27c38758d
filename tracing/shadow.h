/* shadow - the token of every live object, found by the object's address, without a byte on the
 * heap.
 *
 *   address >> 32 --> shadow_regions[] --> pages of 4 GiB
 *   address >> 13 --> shadow_page      --> tokens of one page of the heap
 *                                          index = offset in page / size of its objects
 *
 * A page of the heap that holds objects of one size gets as many tokens as objects can start in
 * it, so the tokens of a page lie together: 8 bytes for each object, and 16 for each 8 KiB page.
 * A page whose objects start at its beginning (large ones) has one.
 *
 * A region where the heap is not shares one that is all zeros, so that nobody has to ask. Address
 * space is taken in proportion to the heap (8 MiB for 4 GiB), because programs limit it.
 *
 * Life       prepare, begin ... end, any number of times. A forked child finds the table as before all that;
 *             what it says of the parent's objects would mean nothing there. After the end, and in a child, all
 *             calls but prepare do nothing.
 * Invariant   tokens of a page are NULL or have room for every index that `inverse` gives.
 * Order       `tokens` is stored with release after the other fields, and loaded with acquire.
 * Threads     a page is opened by any thread that made an object on it, and closed by the one that
 *             returns its span to the page heap, when no object on it lives. */
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
/* User addresses of x86-64 and AArch64 with four levels of page tables. */
#define SHADOW_ADDRESS_BITS 47
#define SHADOW_REGION_BITS  32
#define SHADOW_REGIONS      (1u << (SHADOW_ADDRESS_BITS - SHADOW_REGION_BITS))
#define SHADOW_REGION_PAGES (1u << (SHADOW_REGION_BITS - SHADOW_PAGE_BITS))

struct shadow_page {
    uint64_t *tokens;
    uint32_t inverse;      /* 2^32 / size of the objects, rounded up; 0: they start at the page */
    uint8_t size_class;    /* the front end's */
    uint8_t capacity_bits; /* room for 2^capacity_bits tokens */
};

/* Each NULL until shadow_prepare(). Index: address >> SHADOW_REGION_BITS. */
extern struct shadow_page *shadow_regions[SHADOW_REGIONS];

/* Before a start. `cover` calls shadow_cover() for all that the heap has. False: no memory, and nothing is kept. */
bool shadow_prepare(void (*cover)(void));

/* After shadow_prepare(), when nothing will be recorded after all: nothing is kept. */
void shadow_cancel(void);

/* After shadow_prepare(), before anything is recorded. */
void shadow_begin(void);

bool shadow_has_begun(void);

/* Nothing is recorded any more: forgets all tokens and gives their memory to the system. Addresses are kept,
 * so a thread that is late harms nobody. */
void shadow_end(void);

/* The heap has, or has got, these addresses. Before any object there is recorded. */
void shadow_cover(uintptr_t address, size_t bytes);

/* Makes the page of `object` ready for objects of `size` bytes (0: one object, at its start). Any
 * number of threads may ask for the same. False: no memory. */
bool shadow_open(const void *object, size_t size, uint8_t size_class);

/* `pages` pages from page number `first` go back to the page heap; with `size_class` 0 only the
 * first can have been open. */
void shadow_close(uintptr_t first, uintptr_t pages, unsigned size_class);

static inline struct shadow_page *shadow_page_of(const void *object)
{
    uintptr_t address = (uintptr_t)object;
    return shadow_regions[address >> SHADOW_REGION_BITS] + ((uint32_t)address >> SHADOW_PAGE_BITS);
}

/* Objects of one size start at distances of that size, so the products of two in a page differ in
 * the upper half. */
static inline size_t shadow_index(const struct shadow_page *page, const void *object)
{
    return (size_t)((((uintptr_t)object & (SHADOW_PAGE_BYTES - 1)) * page->inverse) >> 32);
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
