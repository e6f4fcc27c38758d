/* rounding - how many bytes an allocator takes for an object of a given size, by its own rules.
 *
 * What stands beside objects (lists, bitmaps, headers of pages) is not in it, with one exception:
 * the 8 bytes of a chunk of glibc lie between the objects. The rules are those of objects without a
 * special alignment, on x86-64; tests compare them with what the allocators say. */
#ifndef MALLOCTAPE_REPORT_ROUNDING_H
#define MALLOCTAPE_REPORT_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "report/sizes.h"

enum { ROUNDINGS = 4 };

struct rounding {
    const char *name; /* with the version whose rules they are */
    uint64_t (*size)(uint64_t size);
};
extern const struct rounding roundings[ROUNDINGS];

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

/* Both kinds of objects of `sizes`, under each rule; of a class of sizes, by their mean. Classes
 * ascend. False: no memory. */
bool rounding_count(struct rounded rounded[ROUNDINGS], const struct sizes *sizes);
void rounding_free(struct rounded rounded[ROUNDINGS]);

#endif
