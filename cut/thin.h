/* thin - what `cut --thin` does: fewer objects, chosen by their lives, so that memory stays; cut*.c
 * only.
 *
 *   objects alive at one of K moments, evenly spaced in bytes allocated, at the peak of live bytes, or
 *   at the end                                 K as large as 1 / N of the calls allows
 *   still too many: a sample of them, 1 of F   every F-th of those of a size, in the order of birth;
 *                                              large ones all, with 1 / F of their size
 *
 * The result of a replay stands for the whole times F, which the metadata have: thin=F. */
#ifndef MALLOCTAPE_CUT_THIN_H
#define MALLOCTAPE_CUT_THIN_H

#include <stdbool.h>
#include <stdint.h>

struct thin_options {
    const char *trace, *output;
    uint64_t divisor; /* N */
    bool quiet;
};

/* Returns an exit status. */
int thin_run(const struct thin_options *options);

#endif
