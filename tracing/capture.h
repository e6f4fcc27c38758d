/* capture - record what the threads of this process ask of their allocator.
 *
 *   traced thread --words--> its slot in the spool --writer thread--> chunks --lz4--> output
 *
 * This is the one interface under every front end. A front end replaces the allocator's entry points;
 * around each real call it records one event:
 *
 *     if (!malloctape_ready())                      // not recording, or no room and no way to get any
 *         return real_malloc(size);
 *     malloctape_allocating(true);                  // shared structures are entered for what follows
 *     void *object = real_malloc(size);
 *     malloctape_allocating(false);
 *     malloctape_born(CALL_MALLOC, size, 0, object, index);
 *
 * A death is recorded before the real call (afterwards another thread may own the address), a birth
 * after it. Hot paths do the same with the inline functions below on a lane they hold.
 *
 * Identity     Every birth of a lane gets the next serial number; lane and serial are the object's
 *              token (FORMAT.md 2.5). The token of a live object stands in the shadow table, found by
 *              the object's address, so a death can name it without a header on the object.
 * Lane         One per living thread, found by one thread-local pointer. Only its thread writes to it;
 *              the writer thread reads `cursor`. Lanes lie in memory that a forked child finds zeroed:
 *              there, cursor == limit, so a child leaves the hot path at once and stops recording.
 * Slot         Invariant: slot start <= cursor <= slot end; words below the cursor are whole records,
 *              words from the cursor on are zero. cursor >= limit sends the thread to malloctape_ready().
 * Threads      All functions may be called from any thread, also before main and during thread exit.
 * Cost         Inline functions: a few plain instructions. malloctape_ready() takes a new slot every
 *              few thousand events and may then wait for the writer.
 * Errors       None to the caller: recording ends with one line on standard error. */
#ifndef MALLOCTAPE_CAPTURE_H
#define MALLOCTAPE_CAPTURE_H

#include "../common/call_kind.h"
#include "atomic.h"
#include "raw_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing here is visible outside the library. */
#pragma GCC visibility push(hidden)

struct malloctape_lane {
    /* Hot: the owner's, on one cache line. */
    uint64_t *cursor;    /* next free word of the slot; read by the writer (acquire) */
    uint64_t *limit;     /* last position at which an event still fits; NULL to leave the hot path */
    uint64_t next_token; /* of the next birth */
    uint32_t allocating; /* stamps belong to the event that follows, not to the latest one */
    uint32_t busy;       /* inside the capture core: nested calls are not recorded */
    /* Cold: see lane.c. */
    uint64_t *end;   /* end of the slot; stamps may use what lies between limit and end */
    uint32_t slot;   /* number of the slot in the spool */
    uint32_t number; /* of this lane */
    int32_t thread_id;
    uint32_t state;       /* enum lane_state; changed under the registry's lock */
    uint32_t exit_rounds; /* how often this thread's destructor has run */
    uint32_t ended;       /* the record of the thread's end has been written already */
    uint64_t slots;       /* how many it has had */
    /* The writer's. */
    uint32_t read_slot;
    uint64_t *read_from; /* next word to encode */
} __attribute__((aligned(128)));

#define MALLOCTAPE_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* This thread's lane; never NULL. Threads that do not record have a lane without room. */
extern MALLOCTAPE_THREAD_LOCAL struct malloctape_lane *malloctape_lane;

/* Most words that one event takes (FORMAT.md 7). */
#define MALLOCTAPE_EVENT_WORDS_MAX RAW_WORDS_PER_RECORD_MAX

/* --- the shadow table ---
 *
 * One 64-bit token for each object, where the object starts; page by page, so that memory is used
 * where the heap is used. A front end numbers the places of a page at which objects can start
 * ("index"): for size classes that is offset / size, so that the tokens of one page lie together and a
 * page of large objects needs few of them. The index of an object must be the same at birth and
 * death, and unique among the live objects of its page.
 *
 *   address  | region, 21 bits | group, 10 bits | page, 3 bits | offset in page, 13 bits |
 *   shadow   region's table + group * 64 KiB + index * 64 + page * 8
 *
 * So one cache line holds the tokens of one index in eight neighbouring pages, and a group of eight 8 KiB pages takes
 * 4 KiB of shadow when its objects are 128 bytes and more, at most 64 KiB when they are 8 bytes. */
#define SHADOW_PAGE_BITS 13
#define SHADOW_GROUP_BITS 16
#define SHADOW_REGION_BITS 26
#define SHADOW_ADDRESS_BITS 47
#define SHADOW_REGIONS (UINT64_C(1) << (SHADOW_ADDRESS_BITS - SHADOW_REGION_BITS))
#define SHADOW_REGION_BYTES (UINT64_C(1) << SHADOW_REGION_BITS)
#define SHADOW_INDEX_MAX (((1u << SHADOW_PAGE_BITS) / 8) - 1)

extern uint8_t **malloctape_shadow_regions;

/* Table of the region of `object`, NULL if the region has none yet. Only while recording. */
static inline uint8_t *malloctape_shadow_region(const void *object)
{
    return atomic_load_relaxed(&malloctape_shadow_regions[(uintptr_t)object >> SHADOW_REGION_BITS]);
}

static inline uint64_t *malloctape_shadow_entry(uint8_t *region, const void *object, unsigned index)
{
    uintptr_t address = (uintptr_t)object;
    uintptr_t group = address & ((SHADOW_REGION_BYTES - 1) & ~(((uintptr_t)1 << SHADOW_GROUP_BITS) - 1));
    uintptr_t page = (address >> (SHADOW_PAGE_BITS - 3)) & 0x38;
    return (uint64_t *)(void *)(region + group + page + ((uintptr_t)index << 6));
}

/* --- recording, hot ---
 *
 * The lane must have room: lane->cursor < lane->limit. */

static inline void malloctape_lane_birth(struct malloctape_lane *lane, unsigned kind, uint64_t size,
                                         uint64_t *entry)
{
    uint64_t *cursor = lane->cursor;
    *cursor = raw_word(kind, size);
    atomic_store_release(&lane->cursor, cursor + 1);
    *entry = lane->next_token++;
}

static inline void malloctape_lane_death(struct malloctape_lane *lane, unsigned kind, uint64_t token)
{
    uint64_t *cursor = lane->cursor;
    *cursor = raw_word(kind, token);
    atomic_store_release(&lane->cursor, cursor + 1);
}

static inline void malloctape_lane_death_sized(struct malloctape_lane *lane, unsigned kind,
                                               uint64_t token, uint64_t size)
{
    uint64_t *cursor = lane->cursor;
    cursor[1] = size;
    atomic_store_release(cursor, raw_word(kind, token));
    atomic_store_release(&lane->cursor, cursor + 2);
}

/* --- recording, general --- */

enum malloctape_state {
    MALLOCTAPE_UNDECIDED = 0, /* the environment has not been read yet */
    MALLOCTAPE_OFF,
    MALLOCTAPE_RECORDING,
    MALLOCTAPE_ENDING /* the writer is finishing the stream; nothing is recorded any more */
};

extern uint32_t malloctape_state;

/* Whether nothing is, or will be, recorded: one load, for the way past the capture core. */
static inline bool malloctape_is_off(void)
{
    return atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_OFF;
}

/* Makes sure that the calling thread can record one event. False: record nothing for this call.
 * Starts recording if the environment asks for it and this is the first call. Keeps errno. */
bool malloctape_ready(void);

/* Before (true) and after (false) a real call that may allocate. */
static inline void malloctape_allocating(bool allocating)
{
    malloctape_lane->allocating = allocating;
}

/* Records a birth; `object` NULL: the call failed. `alignment` only for kinds that have one, else 0.
 * To be called after malloctape_ready() returned true, even if the lane has been filled since. */
void malloctape_born(unsigned kind, uint64_t size, uint64_t alignment, const void *object, unsigned index);

/* An object came into being without a record (the caller got false from malloctape_ready()): forgets
 * what the shadow table may say about an earlier object there. */
void malloctape_born_unrecorded(const void *object, unsigned index);

/* Token of the live object at this address, RAW_TOKEN_UNKNOWN if its birth was not recorded. */
uint64_t malloctape_token_of(const void *object, unsigned index);

/* Records a death. `size` and `alignment` as the kind has them, else 0. */
void malloctape_dies(unsigned kind, uint64_t token, uint64_t size, uint64_t alignment);

/* Records a realloc that ended `token`. `object` NULL: it failed and ended nothing. */
void malloctape_reallocated(unsigned kind, uint64_t token, uint64_t size, const void *object, unsigned index);

/* Records a heap-wide call with `count` (0 to 2) numbers. */
void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second);

/* The calling thread holds the lock of `structure` (FORMAT.md 3) and enters it. Never allocates; may
 * wait for the writer, which never needs a lock of the allocator. */
void malloctape_stamp(unsigned structure);

/* The allocator is about to destroy the thread cache of the calling thread. */
void malloctape_thread_cache_deleted(void);

/* What a front end tells about its allocator. All called by the writer thread or at the start; must
 * take no lock and no memory. */
struct malloctape_front_end {
    const char *allocator;           /* name and version */
    const char *const *settings;     /* names of environment variables that change it, NULL at the end */
    uint64_t (*heap_bytes)(void);    /* address space it has taken from the system, approximately */
};

/* Defined by the front end. */
extern const struct malloctape_front_end malloctape_front_end;

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
