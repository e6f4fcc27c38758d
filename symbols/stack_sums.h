/* stack_sums - sums of what stack_tally.h has counted, for groups of stacks (functions, files ...).
 *
 * If all calls have stacks, sums are exact. If only some were sampled, totals are still exact: each
 * class of sizes is counted completely, and its samples only say how to divide it.
 *
 *   estimate for a group, of a class = all * samples of the group / samples of the class
 *   its variance                     = all^2 * that of a ratio:
 *                                      sum over samples of (x - share * all samples)^2 / sum^2
 *
 * with one additional sample inside and one outside of the group, so that it is not 0 when all
 * samples agree. A sample that stands for w objects counts w (w - 1) instead of w^2, because one
 * of the w is known; 1 / w is the chance of a call of that size (struct stack_chance). With few
 * samples of unequal weight the variance itself is uncertain: the interval is that of Student's
 * distribution, with Satterthwaite's degrees of freedom. Classes with few samples of what is
 * estimated (objects made, alive at the end ...) are estimated together with the next greater ones.
 * If there are no samples, all goes to stack 0.
 *
 * A group may also have objects in classes without a sample of it: over all of these together, its
 * variance is that of one sample. So a number is exact only if all calls have stacks.
 *
 * A value without its variance is a sum of what each cell stands for (struct stack_scales): so values
 * of stacks add up to those of any group.
 *
 * Memory: 640 bytes a group while they are summed up; of scales 2 MiB. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_STACK_SUMS_H
#define MALLOCTAPE_SYMBOLS_STACK_SUMS_H

#include "symbols/stack_tally.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An estimate, or an exact number (variance 0). */
struct stack_sum {
    double value, variance;
    double doubt; /* sum of variance^2 / degrees of freedom: how uncertain the variance is */
};

struct stack_sums {
    struct stack_sum objects[STACK_MEASURES], bytes[STACK_MEASURES];
};

/* Which groups each stack belongs to: stack s to groups[first[s]] ... groups[first[s + 1] - 1],
 * each once. */
struct stack_groups {
    const uint32_t *first, *groups;
    size_t count; /* of groups */
};

/* Sums up each group; `sums` has `groups->count` elements, all zero. False: no memory. */
bool stack_tally_sum(const struct stack_tally *tally, const struct stack_groups *groups,
                     struct stack_sums *sums);

/* Half the width of the 95 % confidence interval. */
double stack_sum_margin(const struct stack_sum *sum);

/* What one object, and one byte, of a class stands for. */
struct stack_scale {
    double objects, bytes;
    bool is_of_none; /* there is no sample: all counts for stack 0 */
    bool is_exact;   /* each stands for itself, also those of stack 0 */
};

/* By measure, and then by class; NULL: each stands for itself. */
struct stack_scales {
    struct stack_scale *of[STACK_MEASURES];
};

/* False: no memory. */
bool stack_scales_make(struct stack_scales *scales, const struct stack_tally *tally);
void stack_scales_free(struct stack_scales *scales);

struct stack_scale stack_scale_of(const struct stack_scales *scales, enum stack_measure measure,
                                  uint32_t stack, unsigned size_class);

/* Whether a cell has this measure, and if so, its share of the sums of its stack. */
bool stack_cell_value(const struct stack_scales *scales, const struct stack_cell *cell,
                      enum stack_measure measure, double *objects, double *bytes);

#ifdef __cplusplus
}
#endif

#endif
