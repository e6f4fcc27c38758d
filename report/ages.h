/* ages - live objects by when they were made: the calls of a trace, in at most AGES_MAX pieces of
 * the same number of calls.
 *
 * When there are too many pieces, neighbours are merged in pairs. Memory is fixed. */
#ifndef MALLOCTAPE_REPORT_AGES_H
#define MALLOCTAPE_REPORT_AGES_H

#include "common/live.h"

enum { AGES_MAX = 1024 };

struct ages {
    struct live pieces[AGES_MAX];
    unsigned shift; /* a piece has 1 << shift calls */
};

/* Makes pieces twice as large until `call` is in one. */
void ages_stretch(struct ages *ages, uint64_t call, uint64_t epoch);

/* The piece of an object that was made by `call`, which is not in the future. */
static inline struct live *ages_find(struct ages *ages, uint64_t call)
{
    return &ages->pieces[call >> ages->shift];
}

/* The same for the current call, which may need longer pieces. */
static inline struct live *ages_present(struct ages *ages, uint64_t call, uint64_t epoch)
{
    if (__builtin_expect(call >> ages->shift >= AGES_MAX, 0)) ages_stretch(ages, call, epoch);
    return ages_find(ages, call);
}

#endif
