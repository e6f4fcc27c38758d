/* compare/untouched - changes of code in a program that leaves much of what it allocates untouched.
 *
 *   replays write to all of an object (--touch pages)   P   more than the program's heap had: H
 *   further ones to its beginning (--touch line)        L   less
 *   each row has                                        L + (H - L) / (P - L) * (its own P - its own L)
 *
 * A recording does not have which pages were written to, but how many in all, where it says what was
 * resident. H is what the heap had at the look with most (others.h); or, if that was not near the
 * peak, the peak less what others had then. */
#ifndef MALLOCTAPE_COMPARE_UNTOUCHED_H
#define MALLOCTAPE_COMPARE_UNTOUCHED_H

#include "compare/comparison.h"

/* Replays each row once more, if needed, and corrects the memory in all its reports; sets
 * original->touched. Call after all replays, before compare_expect(). */
void compare_untouched_correct(struct compare *compare);

#endif
