/* live - the live objects of one class (a size, an age, a thread), now and at the peak.
 *
 * The peak is the instruction after which the most bytes were alive, which is known only at the
 * end. Copying all classes at each new peak would cost too much: there are
 * millions of new peaks while a program grows. So each new peak gets a number, its epoch, and a
 * class is copied only when it first changes in an epoch:
 *
 *   class.epoch == epoch    the class has changed since the peak; its peak_... are right
 *   class.epoch != epoch    it has not: what is alive now was alive at the peak
 *
 * This is exact, for any number of classes, at the price of one comparison for each change. */
#ifndef MALLOCTAPE_LIVE_H
#define MALLOCTAPE_LIVE_H

#include <stdint.h>

struct live {
    uint64_t objects, bytes;
    uint64_t peak_objects, peak_bytes;
    uint64_t epoch;
};

/* Call before each change, and at the end before `peak_...` is read. */
static inline void live_settle(struct live *live, uint64_t epoch)
{
    if (live->epoch == epoch) return;
    live->peak_objects = live->objects;
    live->peak_bytes = live->bytes;
    live->epoch = epoch;
}

static inline void live_begin(struct live *live, uint64_t epoch, uint64_t bytes)
{
    live_settle(live, epoch);
    live->objects++;
    live->bytes += bytes;
}

/* Both must be settled. */
static inline void live_add(struct live *to, const struct live *one)
{
    to->objects += one->objects;
    to->bytes += one->bytes;
    to->peak_objects += one->peak_objects;
    to->peak_bytes += one->peak_bytes;
}

static inline void live_end(struct live *live, uint64_t epoch, uint64_t bytes)
{
    live_settle(live, epoch);
    live->objects--;
    live->bytes -= bytes;
}

#endif
