/* shared - objects that several threads make and end, in a table of slots (slots.h).
 *
 *   bits of a slot     63..56       55..0
 *                      generation   address; 0: the allocator returned no object for a size of 0
 *
 * Addresses of programs have 47 bits, or 56 on machines with five levels of pages.
 *
 * In an instruction for such a thread, `object` is a slot; `operands` is the generation, of the
 * object that is put there or of the one that is taken from there. A realloc takes from there and
 * puts where its first operand says.
 *
 * A slot is written by one thread at a time (slots.h), with release, and read with acquire, so
 * whoever has the address has what was written to the object, too. */
#ifndef MALLOCTAPE_REPLAY_SHARED_H
#define MALLOCTAPE_REPLAY_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/atomic.h"

#define SHARED_GENERATION_SHIFT 56
#define SHARED_ADDRESS_MASK     ((UINT64_C(1) << SHARED_GENERATION_SHIFT) - 1)

/* The operand of a realloc. */
static inline uint64_t shared_operand(uint32_t slot, uint8_t generation)
{
    return (uint64_t)generation << 32 | slot;
}

static inline uint32_t shared_operand_slot(uint64_t operand)
{
    return (uint32_t)operand;
}

static inline uint8_t shared_operand_generation(uint64_t operand)
{
    return (uint8_t)(operand >> 32);
}

static inline void shared_put(void **slot, uint8_t generation, void *object)
{
    uint64_t word = (uint64_t)generation << SHARED_GENERATION_SHIFT | (uint64_t)(uintptr_t)object;
    atomic_store_release(slot, (void *)(uintptr_t)word);
}

/* False: the object is not there yet. */
static inline bool shared_get(void **slot, uint8_t generation, void **object)
{
    uint64_t word = (uint64_t)(uintptr_t)atomic_load_acquire(slot);
    *object = (void *)(uintptr_t)(word & SHARED_ADDRESS_MASK);
    return word >> SHARED_GENERATION_SHIFT == generation;
}

#endif
