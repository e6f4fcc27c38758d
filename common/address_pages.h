/* address_pages - live objects by their addresses, to find those that overlap others.
 *
 *   address / 8192 --> page --> starts   which object begins at each 8 bytes of the page
 *                           --> over     the object that covers its beginning
 *
 * An object is a number of its user's. It is in its pages up to 1 GiB from its beginning.
 *
 * Memory   4 KiB for each 8 KiB in which an object began.
 * Threads  one. */
#ifndef MALLOCTAPE_ADDRESS_PAGES_H
#define MALLOCTAPE_ADDRESS_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_PAGE_BITS  13
#define ADDRESS_PAGE_BYTES (UINT64_C(1) << ADDRESS_PAGE_BITS)
#define ADDRESS_STARTS     (ADDRESS_PAGE_BYTES / 8)

struct address_page {
    uint64_t number; /* plus one; 0: the entry is not used */
    uint32_t over;   /* object plus one; 0: none */
    struct address_starts {
        uint64_t bits[ADDRESS_STARTS / 64];
        uint32_t objects[ADDRESS_STARTS];
    } * starts; /* NULL: none there yet */
};

struct address_pages {
    struct address_page *pages; /* by a hash of their number */
    size_t room, count;
};

void address_pages_free(struct address_pages *pages);

/* How many pages an object has, from that of its address on. */
uint64_t address_pages_of(uint64_t address, uint64_t bytes);

/* NULL: no object has ever been there. */
const struct address_page *address_pages_find(const struct address_pages *pages, uint64_t number);

/* The last start in the page below `limit`; ADDRESS_STARTS: there is none. */
uint64_t address_pages_start_below(const struct address_page *page, uint64_t limit);

/* An object begins. False: no memory. */
bool address_pages_begin(struct address_pages *pages, uint64_t address, uint64_t bytes,
                         uint32_t object);

/* It ends, with the same address and bytes. */
void address_pages_end(struct address_pages *pages, uint64_t address, uint64_t bytes,
                       uint32_t object);

#endif
