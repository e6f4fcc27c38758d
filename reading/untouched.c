#include "reading/untouched.h"

#include <math.h>

/* A look with so much of the peak is at it: what it says is exact, the peak of ticks is not. */
#define UNTOUCHED_NEAR 0.95

/* What the heap had is known less well than what the process had. */
#define UNTOUCHED_LEAST_BYTES (1024.0 * 1024)

double untouched_heap_bytes(const struct others *others, double peak)
{
    double most = 0, heap = NAN;
    for (size_t i = 0; i < others->count; i++) {
        const double all = others->bytes[i] + others->heap[i];
        if (all <= most) continue;
        most = all;
        heap = all > UNTOUCHED_NEAR * peak ? others->heap[i] : peak - others->bytes[i];
    }
    return heap;
}

bool untouched_is_needed(const struct others *others, double peak, double replayed)
{
    const double heap = untouched_heap_bytes(others, peak);
    return untouched_is_much(replayed, peak) ||
           replayed > UNTOUCHED_REPLAYED_MOST * heap + UNTOUCHED_LEAST_BYTES;
}

double untouched_share(const struct others *others, double peak,
                       const struct untouched_replayed *replayed)
{
    const double heap = untouched_heap_bytes(others, peak), all = replayed->all,
                 beginning = replayed->beginning;
    return beginning < heap && heap < all ? (heap - beginning) / (all - beginning) : 0;
}
