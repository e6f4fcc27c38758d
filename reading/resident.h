/* resident - divides what was resident of a process among those who have it (INSTRUCTIONS.md 4.8):
 * each KiB belongs to one part, and all parts together have the kernel's RSS.
 *
 *   area of the kernel --+-- the recorder's, a file's, a stack's: as it says itself
 *                        `-- memory without a name: by the pieces of the table that lie in it
 *                               own              the heap's
 *                               others           of the code that made them
 *                               none             mapped by libc itself, by a bare system call, or
 *                                                before the recording: resident_unknown.c judges what
 *                                                it may be
 *
 * Of an area that several mappings share, each has the pages that are resident in it, if the
 * residency has them as runs, else a part by its length (`is_estimate`).
 *
 *     wrong = resident_divide(&dividing, &table, &residency, at, end);
 *
 * Memory: what the pieces of the largest area take. One thread. */
#ifndef MALLOCTAPE_READING_RESIDENT_H
#define MALLOCTAPE_READING_RESIDENT_H

#include "reading/mapping_table.h"
#include "reading/resident_part.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of an allocator by its name, as recorded ("glibc 2.36"); of a text of `bytes`. */
void resident_allocator(struct resident_dividing *dividing, const char *name, size_t bytes);

/* Calls put() for each part. NULL, or what is wrong with the residency. */
const char *resident_divide(struct resident_dividing *dividing, const struct mapping_table *table,
                            const struct residency *residency, const uint8_t *at,
                            const uint8_t *end);

#ifdef __cplusplus
}
#endif
#endif
