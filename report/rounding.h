/* rounding - how many bytes an allocator takes for an object of a given size, by its own rules.
 *
 * What stands beside objects (lists, bitmaps, headers of pages) is not in it, with one exception:
 * the 8 bytes of a chunk of glibc lie between the objects. The rules are those of objects without a
 * special alignment, on x86-64; tests compare them with what the allocators say. */
#ifndef MALLOCTAPE_REPORT_ROUNDING_H
#define MALLOCTAPE_REPORT_ROUNDING_H

#include <stdint.h>

struct rounding {
    const char *name; /* with the version whose rules they are */
    uint64_t (*size)(uint64_t size);
};

/* Ends with an entry without a name. */
extern const struct rounding roundings[];

#endif
