/* thin - what `cut --thin` does: fewer objects, chosen by their lives, so that memory stays; cut*.c
 * only.
 *
 *   objects alive at one of 4 096 moments, evenly spaced in bytes allocated, at the peak of live
 *   bytes (and those between two moments, if one of 16 can stay then), or at the end
 *   still too many: a sample of them           of each class of sizes (thin_class.h) those that live alike
 *                                              in turn; all of a class that has few
 *
 * What one object stands for, the metadata have: thin=F on average, thin.weights=CLASS F CLASS F ...
 * thin_expand() makes as many objects again: each call as often as that says, spread over time. */
#ifndef MALLOCTAPE_CUT_THIN_H
#define MALLOCTAPE_CUT_THIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thin_options {
    const char *trace, *output;
    uint64_t divisor; /* N */
    bool quiet;
};

/* Returns an exit status. */
int thin_run(const struct thin_options *options);

/* Whether a file is a thinned trace that has not been expanded. */
bool thin_is(const char *path);

/* Writes what a thinned trace stands for. False: `why`. */
bool thin_expand(const char *path, const char *output, char *why, size_t why_bytes);

#endif
