/* overlaps - the objects of an attached recording by their addresses: those that overlap an object
 * that begins were freed, by calls that were missed (FORMAT.md 2.9).
 *
 * Objects whose address is not known, because the record that says it comes later, are not here.
 *
 * Memory   that of address_pages.h, and 24 bytes for each register. If there is none, `failed` is set
 *          and nothing is found any more.
 * Threads  one. */
#ifndef MALLOCTAPE_OVERLAPS_H
#define MALLOCTAPE_OVERLAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/address_pages.h"

#define OVERLAPS_NONE UINT32_MAX

struct overlaps_object {
    uint64_t address, bytes; /* bytes 0: it is not here */
    uint32_t place;
};

struct overlaps {
    struct address_pages pages;
    struct overlaps_object *objects; /* by register */
    size_t objects_room;
    bool failed;
};

void overlaps_free(struct overlaps *overlaps);

/* The register of an object that overlaps `bytes` bytes from the address on, and its own place; or
 * OVERLAPS_NONE, also if the address is 0. */
uint32_t overlaps_find(const struct overlaps *overlaps, uint64_t address, uint64_t bytes,
                       uint32_t *its_place);

/* An object begins at the place, which has that address; 0: it is not known. Those that overlap it
 * have ended. */
void overlaps_begin(struct overlaps *overlaps, uint32_t place, uint64_t address, uint64_t bytes,
                    uint32_t register_number);

void overlaps_end(struct overlaps *overlaps, uint32_t register_number);

#endif
