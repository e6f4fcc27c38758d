/* units - the records of a lane, as the units that its thread writes into a slot (FORMAT.md 5).
 *
 *   a segment    units_begin_segment() -> records -> units_begin_segment()
 *
 * The writing half of the codec of raw units; raw_units.h is the reading half. It knows a
 * struct units_lane and the units of one slot, and nothing of threads, slots or the allocator.
 *
 * The usual records are written by inline functions, which a front end calls on its fast path
 * (units_fast_...), all others by functions in units.c.
 *
 * The slot must have room for RAW_UNITS_PER_RECORD_MAX units. The first unit of a record is stored
 * after the others, and the cursor after that.
 *
 * Threads   The lane's own. Another thread may read `head`, `first_allocation` and what
 *           a realloc announces. */
#ifndef MALLOCTAPE_UNITS_H
#define MALLOCTAPE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../common/atomic.h"
#include "../common/call_kind.h"
#include "raw_format.h"
#include "stack_definition.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocations on the fast path are smaller than this. */
#define UNITS_FAST_SIZE_LIMIT 1025u

/* How calls of one kind are recorded on the fast path. */
struct units_code {
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

/* Codes of kinds that are used together, as malloc and free, are neighbours. Allocations and
 * reallocs come in the order of their numbers, with frees between them. The first codes, among
 * them those of malloc, free and calloc, share a cache line with what else the fast path needs. */
#define UNITS_CODES (2 * (CALL_FREE - 1))

static inline unsigned units_code_at(unsigned kind)
{
    if (kind < CALL_REALLOC_ZERO) return 2 * (kind - CALL_MALLOC);
    return (2 * (kind - CALL_REALLOC_ZERO) + UNITS_CODES - 1) % UNITS_CODES;
}

/* Another lane, and how far it had got when an object of it was ended last in this segment. */
struct units_foreign {
    uint64_t bound;                /* raw_allocations(); 0: of nobody */
    const struct units_lane *lane; /* where to see how far it has got by now; NULL: not known */
    uint16_t owner;                /* that lane's */
    uint16_t unit;                 /* of frees that name this entry, less the place */
    /* Of an opaque allocator: the latest bound that the lane surely comes after. */
    uint64_t waited;
};

/* What the units of a lane's slot depend on. Only the lane's thread stores to it, but for `limit`.
 * All begins as zero. */
struct units_lane {
    /* One cache line, with the codes of malloc, free and calloc. */
    uint64_t head; /* units_head() of the next free unit; read by others (acquire) */
    /* Of the capture core, which needs them whenever it needs the rest of the line. Nothing else
     * in units.[ch] looks at them. */
    uint64_t limit;   /* the head at which the fast path must be left; 0: now */
    void *cache;      /* the front end's, which the stream follows; if NULL, `limit` is 0 */
    uintptr_t window; /* shadow_window, which has a page of its own */
    uint16_t owner;   /* of the places that the lane has: its number plus 1 */
    struct units_code codes[UNITS_CODES]; /* of the segment, from its profile */
    /* Allocations before the slot. Others read it, so it shares no line with what the thread stores
     * all the time. */
    uint64_t first_allocation;
    /* Of an opaque allocator: the place at which a call that is not recorded yet ends an object (0:
     * there is none), the number that the call will have, where the object's bytes end, and who has
     * had it. Read by others. */
    uint64_t ending;
    uintptr_t ending_limit;
    uint32_t ending_place;
    uint16_t ending_owner;

    /* Off the fast path. */
    uint8_t allocating __attribute__((aligned(64))); /* sequence numbers belong to the next event */
    bool wide;                                       /* many places are far: all are written so */
    uint32_t features;                               /* of the stream: RAW_FEATURE_... */
    uint8_t rounding; /* of an opaque allocator: sizes with the same (size + this) / 16 are alike */
    uint8_t profile[RAW_PROFILE_BYTES];
    uint64_t extra_units; /* written so far, that are not the first unit of an event */
    uint64_t last_address;
    uint64_t page_place, page_address; /* of the latest page of the segment */
    uint32_t next_code, next_node;     /* behind the latest that the segment has defined */
    struct units_foreign foreign[RAW_FOREIGN_ENTRIES];
    struct units_foreign *latest_foreign;          /* one of these; NULL: there is no slot */
    uint64_t announced[RAW_SIZE_CLASSES_MAX / 64]; /* a bit for each class that the stream knows */
    uint64_t sequences[RAW_SIZE_CLASSES_MAX + 1];  /* latest numbers; the last: of the page heap */
};

/* --- where a thread is ---
 *
 * A lane's head is one word, so that an allocation stores only once. It holds the address of the
 * slot's next free unit (48 bits) and below it the number of allocations so far, modulo
 * UNITS_HEAD_ALLOCATIONS_LIMIT. A slot has fewer allocations than the limit and begins below it, so
 * they never run over into the address. */
#define UNITS_HEAD_SHIFT             16
#define UNITS_HEAD_ALLOCATIONS_LIMIT UINT64_C(0x8000)
#define UNITS_HEAD_ALLOCATION        UINT64_C(1)
#define UNITS_HEAD_UNIT              ((uint64_t)sizeof(uint16_t) << UNITS_HEAD_SHIFT)

/* `allocations`: so far, or a head that has them. */
static inline uint64_t units_head(const uint16_t *cursor, uint64_t allocations)
{
    return (uint64_t)(uintptr_t)cursor << UNITS_HEAD_SHIFT |
           allocations % UNITS_HEAD_ALLOCATIONS_LIMIT;
}

static inline uint16_t *units_head_cursor(uint64_t head)
{
    return (uint16_t *)(uintptr_t)(head >> UNITS_HEAD_SHIFT);
}

/* Allocations so far, of which there were `first` when the slot of this head was begun. */
static inline uint64_t units_head_allocations(uint64_t head, uint64_t first)
{
    return first + (head - first) % UNITS_HEAD_ALLOCATIONS_LIMIT;
}

/* The lane's next call ends the object at the place before it is recorded, as the realloc of an
 * opaque allocator does: who takes bytes of it meanwhile, up to `limit`, comes after that call. */
static inline void units_announce(struct units_lane *lane, uint32_t place, uintptr_t limit,
                                  uint16_t owner)
{
    atomic_store_relaxed(&lane->ending_limit, limit);
    atomic_store_relaxed(&lane->ending_owner, owner);
    atomic_store_release(&lane->ending,
                         units_head_allocations(lane->head, lane->first_allocation) + 1);
    atomic_store_release(&lane->ending_place, place);
}

/* It has been recorded. */
static inline void units_announce_end(struct units_lane *lane)
{
    atomic_store_release(&lane->ending_place, RAW_PLACE_NONE);
}

/* Of a lane that the caller has. */
static inline uint16_t *units_cursor(const struct units_lane *lane)
{
    return units_head_cursor(lane->head);
}

/* Allocations so far, also of a lane whose thread goes on meanwhile. */
static inline uint64_t units_allocations_so_far(const struct units_lane *lane)
{
    uint64_t first, head;
    do {
        first = atomic_load_acquire(&lane->first_allocation);
        head = atomic_load_acquire(&lane->head);
    } while (atomic_load_relaxed(&lane->first_allocation) != first);
    return units_head_allocations(head, first);
}

/* The lane, which the caller has, goes on at the beginning of another slot. */
static inline void units_enter_slot(struct units_lane *lane, const uint16_t *units)
{
    uint64_t allocations = units_allocations_so_far(lane);
    atomic_store_release(&lane->first_allocation, allocations);
    atomic_store_release(&lane->head, units_head(units, allocations));
}

static inline const struct units_code *units_code_of(const struct units_lane *lane, unsigned kind)
{
    return &lane->codes[units_code_at(kind)];
}

/* --- usual records ---
 *
 * `cursor` is that of lane->head, which is below lane->limit. */

/* An allocation of the first object of its class in the cache. `size` is below the limit of the
 * code. */
static inline void units_fast_allocation(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                         uint64_t size)
{
    *cursor = (uint16_t)(units_code_of(lane, kind)->base + size);
    atomic_add_own_release(&lane->head, UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
}

/* The two units of a far place, at once: nobody finds the first without the second. */
static inline void units_put_far(uint16_t *cursor, uint32_t base, uint32_t place)
{
    uint32_t units = (place << 16 | place >> 16) + base;
    memcpy(cursor, &units, sizeof units);
}

/* Whether a place that has no short code has a far one. */
static inline bool units_code_has_far(const struct units_code *code, uint32_t place)
{
    return place >> 16 < code->far_end;
}

/* A free of an object that the lane has. `sized`: the kind is given the size. False: it has no
 * short code, and nothing is written. */
static inline bool units_fast_free(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                   uint32_t place, bool sized, uint64_t size)
{
    const struct units_code *code = units_code_of(lane, kind);
    if (sized && __builtin_expect(size >= RAW_NUMBER_MORE, 0)) return false;
    if (__builtin_expect(place >= code->limit, 0)) {
        if (!units_code_has_far(code, place)) return false;
        if (sized) cursor[2] = (uint16_t)size;
        atomic_fence_release();
        units_put_far(cursor, code->far_base, place);
        lane->extra_units += 1 + sized;
        atomic_add_own_release(&lane->head, (2 + sized) * UNITS_HEAD_UNIT);
        return true;
    }
    if (sized) cursor[1] = (uint16_t)size;
    atomic_store_release(cursor, (uint16_t)(code->base + place));
    if (sized) lane->extra_units++;
    atomic_add_own_release(&lane->head, (1 + sized) * UNITS_HEAD_UNIT);
    return true;
}

static inline bool units_is_announced(const struct units_lane *lane, uint32_t size_class)
{
    return lane->announced[size_class / 64] >> size_class % 64 & 1;
}

/* A free of an object that the lane of `owner` has. `kind` must have the first range, and that lane
 * be remembered and not have got far since. Otherwise returns false, and nothing is written.
 * `sized`: the kind has a size.
 *
 * `owner` has often to come from another processor's cache. What is read meanwhile, as how far the
 * other lane has got, is found without it: it is expected to be that of the free before. */
static inline bool units_fast_free_foreign(struct units_lane *lane, unsigned kind, uint32_t place,
                                           uint32_t size_class, uint32_t owner, bool sized,
                                           uint64_t size)
{
    struct units_foreign *latest = lane->latest_foreign;
    /* NULL in a child that was forked by a signal handler since the caller looked at the lane. */
    if (__builtin_expect(!latest || latest->owner != owner, 0)) {
        latest = lane->latest_foreign = &lane->foreign[(owner - 1) % RAW_FOREIGN_ENTRIES];
        if (latest->owner != owner) return false;
    }
    if (!latest->lane || lane->profile[RAW_FREE_1] != kind || place >= RAW_FOREIGN_LIMIT ||
        !units_is_announced(lane, size_class) || (sized && size >= RAW_NUMBER_MORE))
        return false;
    uint64_t bound = raw_allocations(owner - 1, units_allocations_so_far(latest->lane));
    uint64_t number = (bound - latest->bound) * RAW_FOREIGN_CLASSES + size_class;
    if (number >= RAW_NUMBER_MORE) return false;
    uint16_t *cursor = units_cursor(lane);
    latest->bound = bound;
    cursor[2] = (uint16_t)number;
    if (sized) cursor[3] = (uint16_t)size;
    atomic_fence_release();
    units_put_far(cursor, latest->unit, place);
    lane->extra_units += 2 + sized;
    atomic_add_own_release(&lane->head, (3 + sized) * UNITS_HEAD_UNIT);
    return true;
}

/* --- usual records of an opaque allocator ---
 *
 * An allocation says its place, and a free is a call that counts. */

/* Whether an allocation with this code has both its size and its place in two units; these two. */
static inline bool units_can_compact(unsigned base, uint64_t size, uint32_t place)
{
    return base == RAW_UNIT_ALLOCATION_1 && size < RAW_COMPACT_SIZE_LIMIT &&
           place >> RAW_COMPACT_PLACE_BITS == 0;
}

static inline uint32_t units_compact(uint64_t size, uint32_t place)
{
    uint32_t number =
        ((uint32_t)size << RAW_COMPACT_PLACE_BITS | place) + (RAW_COMPACT_FIRST << 16);
    return number << 16 | number >> 16;
}

/* An allocation at a place that the lane has. `size` is below the limit of the code. */
static inline void units_fast_opaque_allocation(struct units_lane *lane, uint16_t *cursor,
                                                unsigned kind, uint64_t size, uint32_t place)
{
    uint16_t base = units_code_of(lane, kind)->base;
    if (units_can_compact(base, size, place)) {
        uint32_t both = units_compact(size, place);
        memcpy(cursor, &both, sizeof both);
        lane->extra_units++;
        atomic_add_own_release(&lane->head, 2 * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
        return;
    }
    uint64_t units = (uint64_t)place << 16 | (uint16_t)(base + size);
    memcpy(cursor, &units, sizeof units);
    lane->extra_units += 2;
    atomic_add_own_release(&lane->head, 3 * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
}

/* A free, as units_fast_free(). */
static inline bool units_fast_opaque_free(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                          uint32_t place, bool sized, uint64_t size)
{
    const struct units_code *code = units_code_of(lane, kind);
    if (!units_code_has_far(code, place) || (sized && size >= RAW_NUMBER_MORE)) return false;
    if (sized) cursor[2] = (uint16_t)size;
    atomic_fence_release();
    units_put_far(cursor, code->far_base, place);
    lane->extra_units += 1 + sized;
    atomic_add_own_release(&lane->head, (2 + sized) * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
    return true;
}

/* Whether a realloc of the object that the lane has there is recorded by the function below. */
static inline bool units_fast_can_realloc(const struct units_lane *lane, unsigned kind,
                                          uint32_t place, uint64_t size)
{
    return units_code_has_far(units_code_of(lane, kind), place) && size < RAW_NUMBER_MORE;
}

/* If it moves the object, the new one was the first of the class of its size in the cache. */
static inline void units_fast_realloc(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                      uint32_t place, uint64_t size)
{
    unsigned extra = 2;
    cursor[2] = (uint16_t)size;
    if (kind == CALL_REALLOC_MOVED) cursor[++extra] = RAW_PLACE_NONE;
    atomic_fence_release();
    units_put_far(cursor, units_code_of(lane, kind)->far_base, place);
    lane->extra_units += extra;
    atomic_add_own_release(&lane->head, (1 + extra) * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
}

/* --- all records --- */

/* Begins a segment: forgets what the one before it remembered. Now and then chooses the profile
 * anew, from the `count` units of that one at `units`. `segments`: how many the lane has had; 0:
 * this is the first. `key`: sequence numbers start from 0 again. */
void units_begin_segment(struct units_lane *lane, const uint16_t *units, size_t count,
                         uint64_t segments, bool key);

/* An object as a record names it. */
struct units_object {
    uint32_t place;      /* 0: none is known */
    uint32_t size_class; /* of the place */
    uint64_t
        bound; /* raw_allocations() of another lane, which has it; 0: this lane has it, or nobody */
    bool unknown;                  /* nobody has it: its allocation was not recorded */
    const struct units_lane *lane; /* that of the bound, for units_fast_free_foreign(); or NULL */
};

/* An object that begins. */
struct units_allocation_of {
    struct units_object object; /* its place, and that one's class, announced unless 0 */
    const void *address;        /* written only if the lane records addresses */
    bool taken; /* it was the first of the class of its size in the cache that the stream follows */
};

/* Of an opaque allocator, before an allocation or a realloc: it comes after so many calls of another
 * lane (raw_allocations(), not 0). False: the lane has said so, and nothing is written. */
bool units_after(struct units_lane *lane, uint64_t bound, bool is_realloc);

void units_allocation(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                      const struct units_allocation_of *allocation);
void units_realloc(struct units_lane *lane, unsigned kind, const struct units_object *old,
                   uint64_t size, const struct units_allocation_of *allocation);
void units_free(struct units_lane *lane, unsigned kind, const struct units_object *object,
                uint64_t size, uint64_t alignment);
void units_heap_call(struct units_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second);

/* A call that failed; of `size`, `alignment`, `object` (may be NULL) those that the kind has. */
void units_failed(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  const struct units_object *object);

/* A size class and the size of its objects: before the class is mentioned. The lane remembers
 * that it has been. */
void units_class(struct units_lane *lane, unsigned size_class, uint64_t bytes);

/* The thread's cache (FORMAT.md 2.6): up to RAW_CACHED_MAX places that came into it; so many
 * that left. */
void units_cached(struct units_lane *lane, unsigned size_class, unsigned count,
                  const uint32_t *places);
void units_uncached(struct units_lane *lane, unsigned size_class, unsigned count);

/* thread_begin with the thread's id; thread_end, thread_cache_deleted, cache_begin with 0. */
void units_thread(struct units_lane *lane, unsigned record, uint64_t thread_id);
/* The thread has entered the structure, and `number` is its sequence number. It belongs to the next
 * event if the lane is allocating, else to the latest one. */
void units_sequence(struct units_lane *lane, unsigned structure, uint64_t number);
/* What happened inside a call (FORMAT.md 3). */
void units_inside(struct units_lane *lane, unsigned what, uint64_t amount);
/* With those, the allocations of a slot are still fewer than UNITS_HEAD_ALLOCATIONS_LIMIT. */
void units_lost(struct units_lane *lane, uint64_t events, uint64_t allocations);

/* Of an opaque allocator: where the granules of places from `first` on are (FORMAT.md 3). */
void units_page(struct units_lane *lane, uint32_t first, uintptr_t address);

/* The next call of the lane that is an allocation or a realloc, also if it fails, has the call stack
 * of this node, less than STACK_NUMBERS_LIMIT and not 0. Only in a stream with RAW_FEATURE_STACKS,
 * as what follows. */
void units_stack(struct units_lane *lane, uint32_t node);

/* What numbers mean, within the limits of stack_definition_is_valid(). It must be in the lane before
 * another lane can have the number. Of a text, one piece: the caller goes on with `offset` and
 * `piece`. */
void units_define(struct units_lane *lane, const struct stack_definition *definition);

/* How many of these records are events. `units` are whole records of a segment with that profile.
 * Any thread. */
uint64_t units_events(const uint8_t *profile, uint32_t features, const uint16_t *units,
                      size_t count);

/* How many of these units, at most `units_max`, are whole records. */
size_t units_whole(const uint8_t *profile, uint32_t features, const uint16_t *units, size_t count,
                   size_t units_max);

#ifdef __cplusplus
}
#endif
#endif
