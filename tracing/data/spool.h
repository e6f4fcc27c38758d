/* spool - the slots between traced threads and the writer thread, in a shared file (FORMAT.md 8).
 *
 * At most SPOOL_SLOTS_MAX slots. The file grows when threads find no free slot, and its space is
 * allocated before it is mapped. state.h says who has which slot. */
#ifndef MALLOCTAPE_SPOOL_H
#define MALLOCTAPE_SPOOL_H

#include "tracing/data/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first 4 MiB are resident at once, so that threads take no page faults there. More is needed by
 * many threads, most of which fill little of their slots, or where the writer cannot keep up. */
#define SPOOL_SLOTS_TOUCHED 256u

_Static_assert(SPOOL_SLOT_BYTES % SPOOL_SLOT_ALIGNMENT == 0, "slots are mapped page by page");
_Static_assert(SPOOL_SLOT_BYTES <= SPOOL_SLOT_BYTES_MAX, "FORMAT.md 8");

/* Writes the header of the new file and maps its first extent; its cells are for the recording with
 * this number. Writer thread. Returns 0 or a negative errno. */
int spool_open(struct spool *spool, int file, const uint8_t *recording_id, int process_id,
               uint64_t features, uint32_t of_recording);

/* At the end of a stream: the file is not used any more. Its addresses stay, for threads that are
 * late and for the next file. Writer thread. */
void spool_close(struct spool *spool);

/* In a forked child, which has not inherited the file's mappings. */
void spool_forget(struct spool *spool);

/* Whether somebody has cut the file to nothing: its header is not there. Writer thread. */
bool spool_is_cut(const struct spool *spool);

/* Adds an extent unless `spool` has `slots_max` slots already. Writer thread. 0 or a negative
 * errno: -EFAULT if somebody has cut the file. */
int spool_grow(struct spool *spool, uint32_t slots_max);

/* The extent that this address is in, or the cells, and their length; NULL: none. Any thread. */
void *spool_extent_at(const struct spool *spool, uintptr_t address, size_t *bytes);

/* Takes a free slot, SPOOL_NO_SLOT if there is none. Any thread. */
uint32_t spool_take(struct spool *spool);

/* Makes a taken slot one for the segment, with all its units zero. */
void spool_begin(struct spool *spool, uint32_t slot, const struct spool_segment *segment);

/* The header that spool_begin() wrote. */
struct spool_segment spool_segment_of(const struct spool *spool, uint32_t slot);

/* The owner leaves the slot: it has used `units` of it, and its lane goes on in `next`. */
void spool_end(struct spool *spool, uint32_t slot, uint32_t units, uint32_t next);

/* Frees a slot. Its note says how many units were used. Writer thread. */
void spool_give(struct spool *spool, uint32_t slot);

/* Marks the slot: its thread goes on, but the stream has ended (FORMAT.md 8, *incomplete*). Any
 * thread. */
void spool_note_incomplete(struct spool *spool, uint32_t slot);

static inline uint8_t *spool_slot(const struct spool *spool, uint32_t slot)
{
    return spool->extents[slot / SPOOL_EXTENT_SLOTS] +
           (size_t)(slot % SPOOL_EXTENT_SLOTS) * SPOOL_SLOT_BYTES;
}

static inline uint16_t *spool_units(const struct spool *spool, uint32_t slot)
{
    return (uint16_t *)(void *)(spool_slot(spool, slot) + SPOOL_SLOT_HEADER_BYTES);
}

#endif
