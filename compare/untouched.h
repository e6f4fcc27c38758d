/* compare/untouched - changes of code in a program that leaves much of what it allocates untouched:
 * replays of each row are corrected by the share of that which counts (reading/untouched.h). */
#ifndef MALLOCTAPE_COMPARE_UNTOUCHED_H
#define MALLOCTAPE_COMPARE_UNTOUCHED_H

#include "compare/comparison.h"

/* Replays each row once more, if needed, and corrects the memory in all its reports; sets
 * original->touched. Call after all replays, before compare_expect(). */
void compare_untouched_correct(struct compare *compare);

#endif
