/* placement - where in memory the places of an opaque stream are (FORMAT.md 2.7), and how many bytes
 * the objects there have.
 *
 * Memory   16 bytes for each 512 places, 4 for each register. If there is none, `failed` is set.
 * Threads  one. */
#ifndef MALLOCTAPE_PLACEMENT_H
#define MALLOCTAPE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct placement_run;
struct placement {
    struct placement_run *runs; /* by their first place / 512 */
    size_t runs_room;
    uint32_t *bytes; /* by register; UINT32_MAX: that or more */
    size_t bytes_room;
    bool failed;
};

void placement_free(struct placement *placement);

/* 512 places from this one on are the granules from that address on. */
void placement_note_page(struct placement *placement, uint32_t place, uint64_t address);

/* The address of a place; 0: it is not known. */
uint64_t placement_address(const struct placement *placement, uint32_t place);

void placement_make_room(struct placement *placement, uint32_t register_number);

/* An object begins. */
static inline void placement_note_object(struct placement *placement, uint32_t register_number,
                                         uint64_t bytes)
{
    if (__builtin_expect(register_number >= placement->bytes_room, 0)) {
        placement_make_room(placement, register_number);
        if (placement->failed) return;
    }
    placement->bytes[register_number] = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* Whether two objects, given by their places and how many bytes they have, would overlap. Where an
 * address is not known, places count as if all were in a row. */
bool placement_meet(const struct placement *placement, uint32_t place, uint64_t bytes,
                    uint32_t other, uint64_t other_bytes);

#endif
