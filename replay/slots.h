/* slots - where a replay by many threads keeps the addresses of objects.
 *
 * After a free, the next lane in the global order takes the register again. If addresses were kept
 * by register, that lane would have to wait until another thread has carried out the free. So the
 * dispatcher gives each allocation a slot:
 *
 *   register --> slot, generation --> objects[slot] --> generation of the object in it, address
 *
 * A free by lane A gives its slot to A's own free slots, for allocations that A's thread carries
 * out later. If A has enough of them, or the generation is the last of its epoch, the slot goes to
 * the job, and to all lanes when the job has been carried out. An allocation takes a slot of its
 * lane, else one that is free for all, else a new one. A realloc is a free and an allocation. Thus
 *
 *   - an allocation never waits: the object before it in the slot was freed earlier by the same
 *     thread, or in a job that is done;
 *   - a free waits until the slot holds its generation. All generations of a slot that are waited
 *     for at any one time belong to one epoch, or are the last one of the previous epoch. So 8 bits
 *     tell them apart.
 *
 * Memory   slots <= live objects + SLOTS_KEPT for each lane + frees that are not yet carried out.
 * Threads  the dispatcher's only. Errors: see each function. */
#ifndef MALLOCTAPE_REPLAY_SLOTS_H
#define MALLOCTAPE_REPLAY_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/atomic.h"
#include "common/check.h"

#define SLOTS_EPOCH    128u /* generations */
#define SLOTS_KEPT     256u /* free slots that a lane keeps to itself */
#define SLOTS_PER_LINE 8u   /* a cache line of 64 bytes: new slots of two lanes do not share one */
#define SLOTS_MAX      (UINT64_C(1) << 31)
#define SLOT_NONE      UINT32_MAX

/* Free slots of a lane. */
struct slots_lane {
    uint32_t first; /* with `count` > 0 */
    uint32_t count; /* <= SLOTS_KEPT + SLOTS_PER_LINE */
};

/* The slot and generation of a register's object, and the lane that puts it there. */
struct slots_object {
    uint32_t slot;
    uint16_t maker;
    uint8_t generation;
};

struct slot {
    uint32_t next;      /* the next free one */
    uint8_t generation; /* of the latest object, modulo 256; the first one is 1 */
    bool live;          /* that has not ended */
};

struct slots {
    struct slots_object *objects; /* by register */
    uint64_t registers;           /* entries of `objects` */
    struct slot *slots;
    uint64_t capacity; /* entries of `slots` */
    uint64_t used;     /* slots ever used */
    uint32_t free;     /* the first one that is free for all, or SLOT_NONE */
};

bool slots_open(struct slots *slots);
void slots_close(struct slots *slots);

/* Makes room for registers below `registers` and `allocations` more allocations. False: no memory,
 * see errno. */
bool slots_reserve(struct slots *slots, uint64_t registers, uint64_t allocations);

uint32_t slots_take_line(struct slots *slots, struct slots_lane *lane);

static inline void slots_keep(struct slots *slots, struct slots_lane *lane, uint32_t slot)
{
    slots->slots[slot].next = lane->first;
    lane->first = slot;
    lane->count++;
}

/* A slot for an allocation in lane number `maker`. There must be room for it. */
static inline struct slots_object slots_take(struct slots *slots, struct slots_lane *lane,
                                             uint32_t maker)
{
    uint32_t slot;
    if (lane->count > 0) {
        slot = lane->first;
        lane->first = slots->slots[slot].next;
        lane->count--;
    } else if (slots->free != SLOT_NONE) {
        slot = slots->free;
        slots->free = slots->slots[slot].next;
    } else {
        slot = slots_take_line(slots, lane);
    }
    MUST_HOLD(!slots->slots[slot].live);
    slots->slots[slot].live = true;
    return (struct slots_object){
        .slot = slot,
        .maker = (uint16_t)maker,
        .generation = ++slots->slots[slot].generation,
    };
}

/* Ends the object of a slot in a lane, which keeps the slot if it may. False: the slot is free for
 * all lanes, but only once the free has been carried out. */
static inline bool slots_end(struct slots *slots, struct slots_lane *lane, uint32_t slot)
{
    MUST_HOLD(slots->slots[slot].live);
    slots->slots[slot].live = false;
    if (lane->count >= SLOTS_KEPT || slots->slots[slot].generation % SLOTS_EPOCH == SLOTS_EPOCH - 1)
        return false;
    slots_keep(slots, lane, slot);
    return true;
}

/* Makes a slot that nobody uses any more free for all lanes. */
static inline void slots_give_to_all(struct slots *slots, uint32_t slot)
{
    MUST_HOLD(!slots->slots[slot].live);
    slots->slots[slot].next = slots->free;
    slots->free = slot;
}

/* ---- objects that several threads make and end ----
 *
 *   bits of a slot     63..56       55..0
 *                      generation   address; 0: the allocator returned no object for a size of 0
 *
 * Addresses of programs have 47 bits on x86-64 and 48 on aarch64; up to 56 if they ask for more.
 *
 * In an instruction for such a thread (work.h), `slot` and `generation` name the object that is put
 * there or taken from there. A realloc takes the old object from there, and puts the new one where
 * its operand says.
 *
 * A slot is written by one thread at a time (see above), with release, and read with acquire, so
 * whoever reads the address also sees what was written to the object. */

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
