/* rounding - how many bytes an allocator takes for an object of a given size, by its own rules
 * (`size` of struct allocator_facts).
 *
 * Metadata apart from the objects (lists, bitmaps, page headers) is not included, but the 8 bytes
 * of a glibc chunk are, because they lie between the objects. The rules are those of objects
 * without a special alignment, on x86-64; tests compare them with what the allocators report. */
#ifndef MALLOCTAPE_REPORT_ROUNDING_H
#define MALLOCTAPE_REPORT_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "allocators/known.h"
#include "report/sizes.h"

enum { ROUNDINGS = ALLOCATORS };

/* Objects of one size class, or of all; what they asked for and what the allocator takes. */
struct rounded_class {
    uint64_t size;
    uint64_t made, bytes, taken;
    uint64_t peak_objects, peak_bytes, peak_taken;
};

struct rounded {
    struct rounded_class all; /* `size` is 0 */
    struct rounded_class *classes;
    size_t count;
};

/* Applies each rule to the objects of `sizes`, all and those at the peak; for a class of sizes, to
 * their mean. Classes ascend. False: no memory. */
bool rounding_count(struct rounded rounded[ROUNDINGS], const struct sizes *sizes);
void rounding_free(struct rounded rounded[ROUNDINGS]);

#endif
