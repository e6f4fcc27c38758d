/* capture - record what the threads of this process ask of their allocator.
 *
 *   traced thread --units--> its slot in the spool --writer thread--> chunks --lz4--> output
 *
 * This is the one interface under every front end. A front end replaces the allocator's entry
 * points; around each real call it records one event:
 *
 *     if (!malloctape_ready()) {  // not recording, or no room and no way to get any
 *         malloctape_unrecorded();
 *         return real_malloc(size);
 *     }
 *     malloctape_lane->allocating = 1;  // entries into shared structures belong to what follows
 *     void *object = real_malloc(size);
 *     malloctape_lane->allocating = 0;
 *     malloctape_allocated(CALL_MALLOC, size, 0, object, taken);
 *
 * A free is recorded before the real call (afterwards another thread may own the address), an allocation
 * after it. Hot paths do the same with the inline functions below on a lane they hold.
 *
 * Identity   An object is named by its place (shadow.h). An allocation on the hot path does not even say that: whoever reads the
 *            stream follows the thread's cache (FORMAT.md 2.6), of which all changes off the hot path are recorded while the
 *            lane has one (`cache`). The lane that has a place stands in the shadow table; who ends an object that another
 *            lane has says how many allocations that lane has had.
 * Lane       One per living thread, found by one thread-local pointer. Only its thread writes to
 *            it, but for `limit`; others read `head` and `first_allocation`. Lanes lie in memory that a forked child finds
 *            zeroed: there, head == limit, so a child leaves the hot path at once and stops
 *            recording, or begins a recording of its own.
 * Life       UNDECIDED -> OFF <-> RECORDING, any number of times (recording.h). A thread that is late, in the
 *            middle of an event of a recording that has ended, writes where it harms nobody.
 * Slot       Invariant: slot start <= cursor <= slot end, where the cursor is the address in `head`; units below it are
 *            whole records (FORMAT.md 5), units from it on are zero. head >= limit sends the thread to
 *            malloctape_ready().
 * Threads    All functions may be called from any thread, also before main and during thread exit.
 * Cost       Inline functions: a few plain instructions. malloctape_ready() takes a new slot every
 *            few thousand events and may then wait for the writer.
 * Errors     None to the caller: recording ends with one line on standard error. */
#ifndef MALLOCTAPE_CAPTURE_H
#define MALLOCTAPE_CAPTURE_H

#include "../common/atomic.h"
#include "../common/call_kind.h"
#include "raw_format.h"
#include "shadow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing here is visible outside the library. */
#pragma GCC visibility push(hidden)

/* Allocations on the hot path are smaller than this. */
#define MALLOCTAPE_HOT_SIZE_LIMIT 1025u

/* How calls of one kind are recorded on the hot path. */
struct malloctape_code {
    union {
        uint64_t size_limit;   /* of an allocation: sizes below it have a unit; 0: none has */
        struct {               /* of a free or realloc */
            uint32_t limit;    /* places below it have a unit */
            uint16_t far_end;  /* and those whose upper half is below this two */
            uint16_t far_base; /* the first of these, of an upper half of 0 */
        };
    };
    uint16_t base; /* the unit less the size or place */
} __attribute__((packed, aligned(2)));

/* Codes of kinds that are used together, as malloc and free, are neighbours, and the first three, with that of calloc, lie with
 * what else the hot path needs of a lane: allocations and reallocs, and between them frees, in the order of their numbers. */
#define MALLOCTAPE_CODES (2 * (CALL_FREE - 1))

static inline unsigned malloctape_code_at(unsigned kind)
{
    if (kind < CALL_REALLOC_ZERO) return 2 * (kind - CALL_MALLOC);
    return (2 * (kind - CALL_REALLOC_ZERO) + MALLOCTAPE_CODES - 1) % MALLOCTAPE_CODES;
}

struct malloctape_lane {
    /* Hot: the owner's; a cache line with the codes of malloc, free and calloc. */
    uint64_t head;    /* malloctape_head() of the next free unit; read by others (acquire) */
    uint64_t limit;   /* the head at which the hot path must be left; 0 to leave it now */
    void *cache;      /* the front end's, which the stream follows; if NULL, `limit` is 0 */
    uintptr_t window; /* shadow_window, which has a page of its own */
    uint16_t owner;   /* of the places that the lane has: its number plus 1 */
    struct malloctape_code codes[MALLOCTAPE_CODES]; /* of the run, from its profile */
    /* Allocations before the slot; read by others, so what is stored more often than that is on other lines. */
    uint64_t first_allocation;

    /* The owner's, off the hot path. */
    uint8_t allocating __attribute__((aligned(
        64)));    /* sequence numbers belong to the event that follows, not to the latest one */
    uint8_t busy; /* taking a slot: a nested call takes none, and is not recorded */
    uint8_t unrecorded;   /* in a call that is not recorded: nothing in the stream may be for it */
    uint64_t extra_units; /* written so far, that are not the first unit of an event */
    uint16_t
        *room; /* last position at which an event still fits; behind it only sequence numbers */

    /* The run: units.c. */
    uint8_t profile[RAW_PROFILE_BYTES];
    bool wide;      /* many places are far: all are written so */
    bool addresses; /* recorded with each allocation */
    uint64_t last_address;
    uint64_t ways[RAW_FOREIGN_WAYS]; /* latest other lanes, and their bounds: raw_allocations() */
    uint64_t
        announced[RAW_SIZE_CLASSES_MAX / 64]; /* a bit for each size class: the stream knows it */
    uint64_t sequences[RAW_SIZE_CLASSES_MAX + 1]; /* latest numbers; the last is the page heap's */

    /* Cold: lane.c and record.c. */
    uint16_t *start; /* of the slot's units */
    uint16_t *end;
    uint32_t slot;   /* number of the slot in the spool */
    uint32_t number; /* of this lane */
    int32_t thread_id;
    uint32_t state;       /* enum lane_state; changed under the registry's lock */
    uint32_t exit_rounds; /* how often this thread's destructor has run */
    uint32_t ended;       /* the record of the thread's end has been written already */
    /* The record of the thread's beginning is yet to be written; 2: and before it that of the end of the one before. */
    uint32_t unbegun;
    uint32_t recording;   /* of which all this is; 0: none yet */
    uint64_t slots;       /* how many it has had */
    uint64_t calm_slots;  /* how many it must have had to be followed again, after a loss */
    uint64_t units;       /* in the slots before this one */
    uint64_t lost_events; /* since the last record of a loss */
    uint64_t lost_events_total;
    /* The writer's. */
    uint32_t read_slot;
    uint16_t *read_from; /* next unit to write out */
    uint64_t written;    /* units that are in the stream */
    struct pack_lane *followed;
} __attribute__((aligned(128)));

#define MALLOCTAPE_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* This thread's lane; never NULL. Threads that do not record have a lane without room. */
extern MALLOCTAPE_THREAD_LOCAL struct malloctape_lane *malloctape_lane;

/* --- where a thread is ---
 *
 * A lane's head is the address of the slot's next free unit (48 bits), and below it the allocations so far modulo
 * MALLOCTAPE_HEAD_ALLOCATIONS_LIMIT: in one word, which an allocation need store only once. A slot has fewer allocations than the limit, and
 * begins with fewer there, so that they never run over into the address. */
#define MALLOCTAPE_HEAD_SHIFT             16
#define MALLOCTAPE_HEAD_ALLOCATIONS_LIMIT UINT64_C(0x8000)
#define MALLOCTAPE_HEAD_ALLOCATION        UINT64_C(1)
#define MALLOCTAPE_HEAD_UNIT              ((uint64_t)sizeof(uint16_t) << MALLOCTAPE_HEAD_SHIFT)

/* `allocations`: so far, or a head that has them. */
static inline uint64_t malloctape_head(const uint16_t *cursor, uint64_t allocations)
{
    return (uint64_t)(uintptr_t)cursor << MALLOCTAPE_HEAD_SHIFT |
           allocations % MALLOCTAPE_HEAD_ALLOCATIONS_LIMIT;
}

static inline uint16_t *malloctape_head_cursor(uint64_t head)
{
    return (uint16_t *)(uintptr_t)(head >> MALLOCTAPE_HEAD_SHIFT);
}

/* Allocations so far, of which there were `first` when the slot of this head was begun. */
static inline uint64_t malloctape_head_allocations(uint64_t head, uint64_t first)
{
    return first + (head - first) % MALLOCTAPE_HEAD_ALLOCATIONS_LIMIT;
}

/* Of a lane that the caller has. */
static inline uint16_t *malloctape_lane_cursor(const struct malloctape_lane *lane)
{
    return malloctape_head_cursor(lane->head);
}

/* Whether an event fits into its slot. */
static inline bool malloctape_lane_has_room(const struct malloctape_lane *lane)
{
    return malloctape_lane_cursor(lane) < lane->room;
}

/* Allocations so far, also of a lane whose thread goes on meanwhile. */
static inline uint64_t malloctape_lane_allocations(const struct malloctape_lane *lane)
{
    uint64_t first, head;
    do {
        first = atomic_load_acquire(&lane->first_allocation);
        head = atomic_load_acquire(&lane->head);
    } while (atomic_load_relaxed(&lane->first_allocation) != first);
    return malloctape_head_allocations(head, first);
}

/* The lane, which the caller has, goes on at the beginning of another slot. */
static inline void malloctape_lane_enter(struct malloctape_lane *lane, const uint16_t *units)
{
    uint64_t allocations = malloctape_lane_allocations(lane);
    atomic_store_release(&lane->first_allocation, allocations);
    atomic_store_release(&lane->head, malloctape_head(units, allocations));
}

static inline const struct malloctape_code *malloctape_code_of(const struct malloctape_lane *lane,
                                                               unsigned kind)
{
    return &lane->codes[malloctape_code_at(kind)];
}

/* --- recording, hot ---
 *
 * The lane must have room: lane->head, whose cursor is `cursor`, is below lane->limit. */

/* An allocation whose size is below the limit of its code, of the object that was the first of its class in the cache. */
static inline void malloctape_lane_allocation(struct malloctape_lane *lane, uint16_t *cursor,
                                              unsigned kind, uint64_t size)
{
    *cursor = (uint16_t)(malloctape_code_of(lane, kind)->base + size);
    atomic_add_own_release(&lane->head, MALLOCTAPE_HEAD_UNIT + MALLOCTAPE_HEAD_ALLOCATION);
}

/* The two units of a far place, at once: nobody finds the first without the second. */
static inline void malloctape_put_far(uint16_t *cursor, uint32_t base, uint32_t place)
{
    uint32_t units = (place << 16 | place >> 16) + base;
    memcpy(cursor, &units, sizeof units);
}

/* Whether a place that has no short code has a far one. */
static inline bool malloctape_code_has_far(const struct malloctape_code *code, uint32_t place)
{
    return place >> 16 < code->far_end;
}

/* A free of an object that the lane has, if its place has a short code; else false, and nothing is written. */
static inline bool malloctape_lane_free(struct malloctape_lane *lane, uint16_t *cursor,
                                        unsigned kind, uint32_t place)
{
    const struct malloctape_code *code = malloctape_code_of(lane, kind);
    if (__builtin_expect(place >= code->limit, 0)) {
        if (!malloctape_code_has_far(code, place)) return false;
        malloctape_put_far(cursor, code->far_base, place);
        lane->extra_units++;
        atomic_add_own_release(&lane->head, 2 * MALLOCTAPE_HEAD_UNIT);
        return true;
    }
    *cursor = (uint16_t)(code->base + place);
    atomic_add_own_release(&lane->head, MALLOCTAPE_HEAD_UNIT);
    return true;
}

/* The same for a kind that is told the size. */
static inline bool malloctape_lane_free_sized(struct malloctape_lane *lane, uint16_t *cursor,
                                              unsigned kind, uint32_t place, uint64_t size)
{
    const struct malloctape_code *code = malloctape_code_of(lane, kind);
    if (__builtin_expect(size >= RAW_NUMBER_MORE, 0)) return false;
    if (__builtin_expect(place >= code->limit, 0)) {
        if (!malloctape_code_has_far(code, place)) return false;
        cursor[2] = (uint16_t)size;
        atomic_fence_release();
        malloctape_put_far(cursor, code->far_base, place);
        lane->extra_units += 2;
        atomic_add_own_release(&lane->head, 3 * MALLOCTAPE_HEAD_UNIT);
        return true;
    }
    cursor[1] = (uint16_t)size;
    atomic_store_release(cursor, (uint16_t)(code->base + place));
    lane->extra_units++;
    atomic_add_own_release(&lane->head, 2 * MALLOCTAPE_HEAD_UNIT);
    return true;
}

/* A free of an object that another lane has, of the kind that has the first range: if the latest one of that lane which this run
 * has named is not too far behind its `bound`; else false, and nothing is written. `sized`: the kind is told the size. */
static inline bool malloctape_lane_free_foreign(struct malloctape_lane *lane, unsigned kind,
                                                uint32_t place, uint32_t size_class, uint64_t bound,
                                                bool sized, uint64_t size)
{
    unsigned way = raw_allocations_lane(bound) % RAW_FOREIGN_WAYS, extra = 2;
    uint64_t latest = lane->ways[way];
    uint64_t number = (bound - latest) * RAW_FOREIGN_CLASSES + size_class;
    if (lane->profile[RAW_FREE_1] != kind || !latest || number >= RAW_NUMBER_MORE ||
        raw_allocations_lane(latest) != raw_allocations_lane(bound) || place >= RAW_FOREIGN_LIMIT ||
        size >= RAW_NUMBER_MORE)
        return false;
    uint16_t *cursor = malloctape_lane_cursor(lane);
    lane->ways[way] = bound;
    cursor[1] = (uint16_t)place;
    cursor[2] = (uint16_t)number;
    if (sized) cursor[++extra] = (uint16_t)size;
    atomic_store_release(
        cursor, (uint16_t)(RAW_UNIT_FOREIGN + (way << RAW_FOREIGN_WAY_SHIFT) + (place >> 16)));
    lane->extra_units += extra;
    atomic_add_own_release(&lane->head, (1 + extra) * MALLOCTAPE_HEAD_UNIT);
    return true;
}

/* The `number`th entry into a structure, on behalf of the event that follows if the lane is allocating, else of the latest one;
 * if it is not too far from the latest one of this lane there; else false, and nothing is written. The lane has room. */
static inline bool malloctape_lane_sequence(struct malloctape_lane *lane, unsigned structure,
                                            uint64_t number)
{
    unsigned entry = structure < RAW_SIZE_CLASSES_MAX ? structure : RAW_SIZE_CLASSES_MAX;
    unsigned first = lane->allocating ? RAW_UNIT_SEQUENCE_BEFORE : RAW_UNIT_SEQUENCE_AFTER;
    uint64_t difference = number - lane->sequences[entry];
    uint16_t *cursor = malloctape_lane_cursor(lane);
    if (difference >= RAW_NUMBER_MORE) return false;
    lane->sequences[entry] = number;
    cursor[1] = (uint16_t)difference;
    atomic_store_release(cursor, (uint16_t)(first + structure));
    lane->extra_units += 2;
    atomic_add_own_release(&lane->head, 2 * MALLOCTAPE_HEAD_UNIT);
    return true;
}

/* Whether a realloc of the object that the lane has there is recorded by the function below. */
static inline bool malloctape_lane_can_realloc(const struct malloctape_lane *lane, unsigned kind,
                                               uint32_t place, uint64_t size)
{
    return malloctape_code_has_far(malloctape_code_of(lane, kind), place) && size < RAW_NUMBER_MORE;
}

/* If it moves the object, the new one was the first of the class of its size in the cache. */
static inline void malloctape_lane_realloc(struct malloctape_lane *lane, uint16_t *cursor,
                                           unsigned kind, uint32_t place, uint64_t size)
{
    unsigned extra = 2;
    cursor[2] = (uint16_t)size;
    if (kind == CALL_REALLOC_MOVED) cursor[++extra] = RAW_PLACE_NONE;
    atomic_fence_release();
    malloctape_put_far(cursor, malloctape_code_of(lane, kind)->far_base, place);
    lane->extra_units += extra;
    atomic_add_own_release(&lane->head,
                           (1 + extra) * MALLOCTAPE_HEAD_UNIT + MALLOCTAPE_HEAD_ALLOCATION);
}

/* Whether the lane has the place, which is on this page. No object of a page without a size class is so found. */
static inline bool malloctape_lane_has(const struct malloctape_lane *lane,
                                       const struct shadow_page *page, uint32_t place)
{
    uint16_t owner = atomic_load_relaxed(&page->owner);
    if (__builtin_expect(owner == lane->owner, 1)) return true;
    return owner == SHADOW_MIXED && atomic_load_relaxed(shadow_owner(place)) == lane->owner;
}

/* --- recording, general --- */

enum malloctape_state {
    MALLOCTAPE_UNDECIDED = 0, /* the environment has not been read yet */
    MALLOCTAPE_OFF,
    MALLOCTAPE_RECORDING,
    MALLOCTAPE_ENDING,   /* the writer is finishing the stream; nothing is recorded any more */
    MALLOCTAPE_STARTING, /* nothing is recorded yet */
    MALLOCTAPE_PAUSED    /* nothing is recorded for a while */
};

extern uint32_t malloctape_state;

/* Whether that is not known yet: before the first call that is the program's. */
static inline bool malloctape_is_undecided(void)
{
    return atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_UNDECIDED;
}

/* Whether nothing is, or will be, recorded: one load, for the way past the capture core. */
static inline bool malloctape_is_off(void)
{
    return atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_OFF;
}

/* Between these two nothing is recorded, no recording begins, and calls may be led past the capture core. False: not
 * now; also when the latest recording has ended but a moment ago. */
bool malloctape_begin_idle(void);
void malloctape_end_idle(void);

/* Makes sure that the calling thread can record one event. False: record nothing for this call.
 * Starts recording if the environment asks for it and this is the first call. Keeps errno. */
bool malloctape_ready(void);

/* Records an allocation; `object` NULL: the call failed; else its page is open (shadow_open).
 * `alignment` only for kinds that have one, else 0. `taken`: if the thread's cache is followed, the object was the first there
 * of the size class that `size` has.
 * To be called after malloctape_ready() returned true, even if the lane has been filled since. */
void malloctape_allocated(unsigned kind, uint64_t size, uint64_t alignment, const void *object,
                          bool taken);

/* The same without an alignment, on the hot path: of an object that was the first of its class in the cache, which any size and
 * any kind that has no code may have. The lane must have room. */
void malloctape_allocated_in_cache(unsigned kind, uint64_t size, const void *object);

/* An object came into being without a record: forgets what the shadow table may say about an earlier object there. */
void malloctape_allocated_unrecorded(const void *object);

/* Records a free. `size` and `alignment` as the kind has them, else 0. The place is the thread's from now on. */
void malloctape_freeing(unsigned kind, const void *object, uint64_t size, uint64_t alignment);

/* The same, with a size if the kind is `sized` and no alignment, for an object that another lane has and the usual case; `object`
 * may be anything. False: nothing is recorded. */
bool malloctape_foreign_freeing(unsigned kind, const void *object, bool sized, uint64_t size);

/* Records a realloc that ended `old`. `object` NULL: it failed and ended nothing. `taken` as above. */
void malloctape_reallocated(unsigned kind, const void *old, uint64_t size, const void *object,
                            bool taken);

/* Records a heap-wide call with `count` (0 to 2) numbers. */
void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second);

/* The calling thread holds the lock of `structure` (FORMAT.md 3) and enters it. Never allocates;
 * may wait for the writer, which never needs a lock of the allocator. */
void malloctape_sequence(unsigned structure);

/* The calling thread has this thread cache; NULL: none. If the stream does not follow it yet, the front end is asked for what it
 * holds (malloctape_front_end.tell_cache), and it does. */
void malloctape_thread_cache_is(void *cache);

/* `count` objects of a class, linked by their first words, have come into a thread cache behind those that are there; or all
 * that were first have left it. Of no consequence unless it is the cache that the calling thread's lane follows. */
void malloctape_cached(const void *cache, unsigned size_class, const void *first, unsigned count);
void malloctape_uncached(const void *cache, unsigned size_class, unsigned count);

/* The calling thread has, or is about to have, another thread cache or none. */
void malloctape_thread_cache_changed(void);

/* The calling thread is about to do a call, or has done it, that is not recorded (it got false from malloctape_ready()):
 * what happens to its cache goes by unseen, and until malloctape_ready() returns true, so do its entries into structures, which
 * would be taken for those of another event. */
void malloctape_unrecorded(void);

/* The calling thread's cache is about to be destroyed; recorded. */
void malloctape_thread_cache_deleted(void);

/* Every call is to be recorded off the hot path from now on, because there is more to do in it. */
void malloctape_disable_fast_path(void);

/* There is no memory for the places of some objects: recording ends. */
void malloctape_out_of_memory(void);

/* What a front end tells about its allocator. All called by the writer thread or at the start; must
 * take no lock and no memory. */
struct malloctape_front_end {
    const char *allocator; /* name and version */
    const char *const
        *settings; /* names of environment variables that change it, NULL at the end */
    uint64_t (*heap_bytes)(void); /* address space it has taken from the system, approximately */
    bool (*cover_heap)(void);     /* the shadow table for all that it has; false: no memory */
    void (*divert)(void);         /* recording begins: calls must come to the capture core */
    void (*tell_cache)(const void *cache);        /* malloctape_cached() for each class */
    uint64_t (*class_bytes)(unsigned size_class); /* of its objects */
    uint32_t (*class_of_size)(
        uint64_t size);    /* 0: pages of their own; classes are multiples of 8 */
    uint64_t own_bytes[4]; /* objects that the library makes when it is loaded, unrecorded; 0 at the
                              end */
};

/* Before the first recorded call: the C++ runtime has taken memory only because the library needs
 * it. */
void malloctape_runtime_took(uint64_t bytes);

/* Defined by the front end. */
extern const struct malloctape_front_end malloctape_front_end;

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
