#include "batch.h"

#include "../common/atomic.h"
#include "os.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The allocator moves so many at a time, and the first is found without a note. */
#define NOTED_MAX   31
#define BATCHES_LOG 11
/* Objects lie at multiples of this. */
#define UNIT_BYTES  8

/* Two cache lines. */
struct batch {
    uint32_t first;            /* number of the first object */
    int32_t others[NOTED_MAX]; /* units from there to each of the others; 0: there are no more */
};

static struct batch *batches;

/* Different for objects that are less than 32 GiB apart. */
static uint32_t number_of(const void *object)
{
    return (uint32_t)((uintptr_t)object / UNIT_BYTES);
}

static struct batch *batch_of(uint32_t first)
{
    return &batches[first * UINT32_C(0x9e3779b1) >> (32 - BATCHES_LOG)];
}

void batch_begin(void)
{
    if (!batches) batches = os_memory_reserve_per_process(sizeof *batches << BATCHES_LOG);
}

void batch_note(const void *first, unsigned count)
{
    if (!batches) return;
    uint32_t number = number_of(first);
    struct batch *batch = batch_of(number);
    unsigned others = count - 1 < NOTED_MAX ? count - 1 : NOTED_MAX;
    const void *object = first;
    atomic_store_relaxed(&batch->first, number);
    for (unsigned i = 0; i < others; i++) {
        memcpy(&object, object, sizeof object);
        atomic_store_relaxed(&batch->others[i], (int32_t)(number_of(object) - number));
    }
    if (others < NOTED_MAX) atomic_store_relaxed(&batch->others[others], 0);
}

unsigned batch_fetch(const void *first)
{
    uint32_t number = number_of(first);
    struct batch *batch = batches ? batch_of(number) : NULL;
    if (!batch || atomic_load_relaxed(&batch->first) != number) return 0;
    unsigned count = 0;
    for (; count < NOTED_MAX; count++) {
        int32_t other = atomic_load_relaxed(&batch->others[count]);
        if (other == 0) break;
        atomic_prefetch((const char *)first + (intptr_t)other * UNIT_BYTES);
    }
    return count;
}
