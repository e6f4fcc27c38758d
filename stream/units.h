/* units - the codec of raw units (FORMAT.md 5.2 and 5.6): the records of a lane, as the units that
 * its thread writes into a slot. raw_format.h (RAW_CODE_LIST) says which unit means what.
 *
 *   a call --units_fast_...(), units_...()--> units --units_read()--> struct units_record
 *
 * Writing   a segment: units_begin_segment() (units_profile.h), then records. It knows a struct
 *           units_lane and the units of one slot, and nothing of threads, slots or the allocator.
 *           The usual records are written by inline functions, which a front end calls on its fast
 *           path (units_fast_...), all others by functions (units_own.h has the files). The slot must have room for
 *           RAW_UNITS_PER_RECORD_MAX units. The first unit of a record is stored after the others,
 *           and the cursor after that.
 * Reading   units_read.h.
 *
 * No memory, no system calls.
 *
 * Threads   The lane's own. Another thread may read `head`, `first_allocation` and what a realloc
 *           announces. Any thread may read units that have been written. */
#ifndef MALLOCTAPE_UNITS_H
#define MALLOCTAPE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/atomic.h"
#include "common/call_table.h"
#include "stream/raw_format.h"
#include "stream/stack_definition.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocations on the fast path are smaller than this. */
#define UNITS_FAST_SIZE_LIMIT 1025u

/* How calls of one kind are recorded on the fast path. */
struct units_code {
    union {
        uint64_t size_limit;    /* of an allocation: sizes below it have a unit; 0: none has */
        struct {                /* of a free or realloc */
            uint32_t limit;     /* places below it have a unit */
            uint16_t long_end;  /* others whose upper half is below this have two units */
            uint16_t long_base; /* the first of the two, less the upper half */
        };
    };
    uint16_t base; /* the unit, less the size or place */
} __attribute__((packed, aligned(2)));

/* A code of a range (RAW_CODE_LIST): its first unit, and the limit of its operands. */
struct units_range_code {
    uint16_t first;
    uint32_t limit;
};
extern const struct units_range_code units_range_codes[RAW_RANGES][RAW_CODE_FORMS];

/* Codes of kinds that are used together, as malloc and free, are neighbours. Allocations and
 * reallocs come in the order of their numbers, with frees between them. The first codes, among
 * them those of malloc, free and calloc, share a cache line with what else the fast path needs. */
#define UNITS_CODES (2 * (CALL_FREE - 1))

static inline unsigned units_code_at(unsigned kind)
{
    if (kind < CALL_REALLOC_ZERO) return 2 * (kind - CALL_MALLOC);
    return (2 * (kind - CALL_REALLOC_ZERO) + UNITS_CODES - 1) % UNITS_CODES;
}

/* Another lane, and how far it had got when one of its objects was last ended in this segment. */
struct units_remote {
    uint64_t bound;                /* raw_allocations(); 0: of nobody */
    const struct units_lane *lane; /* where to see how far it has got by now; NULL: not known */
    uint16_t owner;                /* that lane's */
    uint16_t unit;                 /* of frees that name this entry, less the place */
    /* Of an opaque allocator: the latest bound that the lane surely comes after. */
    uint64_t waited;
};

/* What the streams of one kind of allocator have (units_own.h). */
struct units_dialect;

/* What the units of a lane's slot depend on. Only the lane's thread stores to it, but for `limit`.
 * All begins as zero. */
struct units_lane {
    /* One cache line, with the codes of malloc, free and calloc. */
    uint64_t head; /* units_head() of the next free unit; read by others (acquire) */
    /* These belong to the capture core, which needs them whenever it needs the rest of the line.
     * Nothing in units.[ch] uses them. */
    uint64_t limit;   /* the head at which the fast path must be left; 0: now */
    void *cache;      /* the front end's, which the stream follows; if NULL, `limit` is 0 */
    uintptr_t window; /* shadow_window, which has a page of its own */
    uint16_t owner;   /* of the places that the lane has: its number plus 1 */
    struct units_code codes[UNITS_CODES]; /* of the segment, from its profile */
    /* Allocations before the slot. Others read it, so it shares no line with what the thread stores
     * all the time. */
    uint64_t first_allocation;
    /* Of an opaque allocator: a call that ends an object but is not recorded yet. The number that
     * the call will have, where the object's bytes end, its place (0: there is no such call), and
     * the owner before. Read by others. */
    uint64_t ending;
    uintptr_t ending_limit;
    uint32_t ending_place;
    uint16_t ending_owner;

    /* Off the fast path. */
    uint8_t allocating __attribute__((aligned(64))); /* sequence numbers belong to the next event */
    bool long_frees;        /* many places have no short code: all frees are written long */
    bool all_have_stacks;   /* allocations and reallocs come off the fast path */
    bool frees_have_stacks; /* frees, too */
    uint32_t features;      /* of the stream: RAW_FEATURE_... */
    uint8_t rounding; /* of an opaque allocator: sizes with the same (size + this) / 16 are alike */
    uint8_t profile[RAW_PROFILE_BYTES];
    /* Of the capture core, on the fast path of an opaque allocator: the owner of place 0, which is
     * far from the window, and the region of the latest object. */
    uint16_t *owners;
    uintptr_t region;
    uint64_t extra_units; /* units written so far that are not the first one of an event */
    uint64_t last_address;
    uint64_t page_place, page_address; /* of the latest page of the segment */
    uint32_t next_code, next_node;     /* after the latest that the segment has defined */
    const struct units_dialect *dialect;
    struct units_remote remote[RAW_REMOTE_ENTRIES];
    struct units_remote *latest_remote;            /* one of these; NULL: there is no slot */
    uint64_t announced[RAW_SIZE_CLASSES_MAX / 64]; /* a bit for each class that the stream knows */
    uint64_t sequences[RAW_SIZE_CLASSES_MAX + 1];  /* latest numbers; the last: of the page heap */
};

/* ---- where a thread is ----
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
 * opaque allocator does: a lane that gets bytes of it meanwhile, up to `limit`, comes after that
 * call. */
static inline void units_announce(struct units_lane *lane, uint32_t place, uintptr_t limit,
                                  uint16_t owner)
{
    /* Whoever sees one of these stores also sees that the announcement before is over. */
    atomic_fence_release();
    atomic_store_relaxed(&lane->ending_limit, limit);
    atomic_store_relaxed(&lane->ending_owner, owner);
    atomic_store_release(&lane->ending,
                         units_head_allocations(lane->head, lane->first_allocation) + 1);
    atomic_store_release(&lane->ending_place, place);
}

/* The announced call has been recorded. */
static inline void units_announce_end(struct units_lane *lane)
{
    atomic_store_release(&lane->ending_place, RAW_PLACE_NONE);
}

/* The cursor of a lane that the caller has. */
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
    /* Whoever sees extra units also sees that the lane has a slot. */
    atomic_fence_release();
}

static inline const struct units_code *units_code_of(const struct units_lane *lane, unsigned kind)
{
    return &lane->codes[units_code_at(kind)];
}

/* ---- usual records ----
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

/* Store two or four units: whoever sees the first sees the others. Only a signal handler may look,
 * or whoever reads the spool of a thread that was killed: so the order of instructions is enough,
 * or a single store. */
static inline void units_put_two(uint16_t *cursor, uint32_t units)
{
#if ARCH_STORES_AT_ONCE
    memcpy(cursor, &units, sizeof units);
#else
    cursor[1] = (uint16_t)(units >> 16);
    atomic_store_release(cursor, (uint16_t)units);
#endif
}

static inline void units_put_four(uint16_t *cursor, uint64_t units)
{
#if ARCH_STORES_AT_ONCE
    memcpy(cursor, &units, sizeof units);
#else
    cursor[1] = (uint16_t)(units >> 16);
    units_put_two(cursor + 2, (uint32_t)(units >> 32));
    atomic_store_release(cursor, (uint16_t)units);
#endif
}

/* The two units of a long code. */
static inline void units_put_long(uint16_t *cursor, uint32_t base, uint32_t place)
{
    units_put_two(cursor, (place << 16 | place >> 16) + base);
}

/* Whether a place that has no short code has a long one. */
static inline bool units_code_has_long(const struct units_code *code, uint32_t place)
{
    return place >> 16 < code->long_end;
}

/* A free of an object that the lane has. `sized`: the kind is given the size. False: it has no
 * short code, and nothing is written. */
static inline bool units_fast_free(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                   uint32_t place, bool sized, uint64_t size)
{
    const struct units_code *code = units_code_of(lane, kind);
    if (sized && __builtin_expect(size >= RAW_NUMBER_MORE, 0)) return false;
    if (__builtin_expect(place >= code->limit, 0)) {
        if (!units_code_has_long(code, place)) return false;
        if (sized) cursor[2] = (uint16_t)size;
        atomic_fence_release();
        units_put_long(cursor, code->long_base, place);
        atomic_add_own_relaxed(&lane->extra_units, 1 + sized);
        atomic_add_own_release(&lane->head, (2 + sized) * UNITS_HEAD_UNIT);
        return true;
    }
    if (sized) cursor[1] = (uint16_t)size;
    atomic_store_release(cursor, (uint16_t)(code->base + place));
    if (sized) atomic_add_own_relaxed(&lane->extra_units, 1);
    atomic_add_own_release(&lane->head, (1 + sized) * UNITS_HEAD_UNIT);
    return true;
}

static inline bool units_is_announced(const struct units_lane *lane, uint32_t size_class)
{
    return lane->announced[size_class / 64] >> size_class % 64 & 1;
}

/* A free of an object that the lane of `owner` has. `kind` must have the first range, and that lane
 * must be remembered and not have got far since. Otherwise returns false, and nothing is written.
 * `sized`: the kind has a size.
 *
 * `owner` often has to come from another processor's cache. It is expected to be that of the free
 * before, so what else is read, such as how far the other lane has got, does not wait for it. */
static inline bool units_fast_free_remote(struct units_lane *lane, unsigned kind, uint32_t place,
                                          uint32_t size_class, uint32_t owner, bool sized,
                                          uint64_t size)
{
    struct units_remote *latest = lane->latest_remote;
    /* NULL in a child that was forked by a signal handler since the caller looked at the lane. */
    if (__builtin_expect(latest == NULL || latest->owner != owner, 0)) {
        latest = lane->latest_remote = &lane->remote[(owner - 1) % RAW_REMOTE_ENTRIES];
        if (latest->owner != owner) return false;
    }
    if (latest->lane == NULL || lane->profile[RAW_FREE_1] != kind || place >= RAW_REMOTE_LIMIT ||
        !units_is_announced(lane, size_class) || (sized && size >= RAW_NUMBER_MORE))
        return false;
    uint64_t bound = raw_allocations(owner - 1, units_allocations_so_far(latest->lane));
    uint64_t number = (bound - latest->bound) * RAW_REMOTE_CLASSES + size_class;
    if (number >= RAW_NUMBER_MORE) return false;
    uint16_t *cursor = units_cursor(lane);
    latest->bound = bound;
    cursor[2] = (uint16_t)number;
    if (sized) cursor[3] = (uint16_t)size;
    atomic_fence_release();
    units_put_long(cursor, latest->unit, place);
    atomic_add_own_relaxed(&lane->extra_units, 2 + sized);
    atomic_add_own_release(&lane->head, (3 + sized) * UNITS_HEAD_UNIT);
    return true;
}

/* ---- usual records of an opaque allocator ----
 *
 * An allocation names its place, and a free is a call that bounds count. */

/* Whether an allocation with this code has both its size and its place in two units; the next
 * function returns the two. */
static inline bool units_can_compact(unsigned base, uint64_t size, uint32_t place)
{
    return base == RAW_UNIT_ALLOCATION_1_SHORT && size < RAW_COMPACT_SIZE_LIMIT &&
           place >> RAW_COMPACT_PLACE_BITS == 0;
}

static inline uint32_t units_compact(uint64_t size, uint32_t place)
{
    uint32_t number =
        ((uint32_t)size << RAW_COMPACT_PLACE_BITS | place) + (RAW_COMPACT_FIRST << 16);
    return number << 16 | number >> 16;
}

/* What the two units hold. */
struct units_size_place {
    uint32_t size, place;
};

static inline struct units_size_place units_uncompact(uint32_t first, uint32_t second)
{
    uint32_t number = (first - RAW_COMPACT_FIRST) << 16 | second;
    struct units_size_place both = {number >> RAW_COMPACT_PLACE_BITS,
                                    number & ((1u << RAW_COMPACT_PLACE_BITS) - 1)};
    return both;
}

/* An allocation at a place that the lane has. `size` is below the limit of the code. */
static inline void units_fast_opaque_allocation(struct units_lane *lane, uint16_t *cursor,
                                                unsigned kind, uint64_t size, uint32_t place)
{
    uint16_t base = units_code_of(lane, kind)->base;
    if (units_can_compact(base, size, place)) {
        units_put_two(cursor, units_compact(size, place));
        atomic_add_own_relaxed(&lane->extra_units, 1);
        atomic_add_own_release(&lane->head, 2 * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
        return;
    }
    units_put_four(cursor, (uint64_t)place << 16 | (uint16_t)(base + size));
    atomic_add_own_relaxed(&lane->extra_units, 2);
    atomic_add_own_release(&lane->head, 3 * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
}

/* A free, as units_fast_free(). */
static inline bool units_fast_opaque_free(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                          uint32_t place, bool sized, uint64_t size)
{
    const struct units_code *code = units_code_of(lane, kind);
    if (!units_code_has_long(code, place) || (sized && size >= RAW_NUMBER_MORE)) return false;
    if (sized) cursor[2] = (uint16_t)size;
    atomic_fence_release();
    units_put_long(cursor, code->long_base, place);
    atomic_add_own_relaxed(&lane->extra_units, 1 + sized);
    atomic_add_own_release(&lane->head, (2 + sized) * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
    return true;
}

/* Whether a realloc of the object that the lane has there is recorded by the function below. */
static inline bool units_fast_can_realloc(const struct units_lane *lane, unsigned kind,
                                          uint32_t place, uint64_t size)
{
    return units_code_has_long(units_code_of(lane, kind), place) && size < RAW_NUMBER_MORE;
}

/* A realloc. If it moves the object, the new one was the first of the class of its size in the
 * cache. */
static inline void units_fast_realloc(struct units_lane *lane, uint16_t *cursor, unsigned kind,
                                      uint32_t place, uint64_t size)
{
    unsigned extra = 2;
    cursor[2] = (uint16_t)size;
    if (kind == CALL_REALLOC_MOVED) cursor[++extra] = RAW_PLACE_NONE;
    atomic_fence_release();
    units_put_long(cursor, units_code_of(lane, kind)->long_base, place);
    atomic_add_own_relaxed(&lane->extra_units, extra);
    atomic_add_own_release(&lane->head, (1 + extra) * UNITS_HEAD_UNIT + UNITS_HEAD_ALLOCATION);
}

/* ---- usual records of a stream with the stacks of all allocations ----
 *
 * These have no code on the fast path (struct units_code), but mostly the units of one. */

/* units_stack(), below, of a node that is less than RAW_STACK_LIMIT. */
static inline void units_fast_stack(struct units_lane *lane, uint32_t node)
{
    units_put_long(units_cursor(lane), RAW_UNIT_STACK, node);
    atomic_add_own_relaxed(&lane->extra_units, 2);
    atomic_add_own_release(&lane->head, 2 * UNITS_HEAD_UNIT);
}

/* Whether an allocation has the units that it would have on the fast path. */
static inline bool units_is_usual(const struct units_lane *lane, unsigned kind, uint64_t size)
{
    return units_code_of(lane, kind)->base && size < UNITS_FAST_SIZE_LIMIT &&
           call_shapes[kind] != SHAPE_ALLOCATION_ALIGNED &&
           !(lane->features & RAW_FEATURE_ADDRESSES);
}

/* Write an allocation with these: those of units_fast_allocation(), of an object that was the first
 * of its class in the cache, or of units_fast_opaque_allocation(). False: it has no such units, and
 * nothing is written. */
static inline bool units_usual_allocation(struct units_lane *lane, unsigned kind, uint64_t size)
{
    if (!units_is_usual(lane, kind, size)) return false;
    units_fast_allocation(lane, units_cursor(lane), kind, size);
    return true;
}

static inline bool units_opaque_usual_allocation(struct units_lane *lane, unsigned kind,
                                                 uint64_t size, uint32_t place)
{
    if (!units_is_usual(lane, kind, size)) return false;
    units_fast_opaque_allocation(lane, units_cursor(lane), kind, size, place);
    return true;
}

/* ---- all records ---- */

/* A part of units_begin_segment(): forgets what the segment before remembered. `key`: sequence
 * numbers start from 0 again. */
void units_forget_segment(struct units_lane *lane, bool key);

/* An object as a record names it. */
struct units_object {
    uint32_t place;      /* 0: none is known */
    uint32_t size_class; /* of the place */
    uint64_t
        bound; /* raw_allocations() of another lane, which has it; 0: this lane has it, or nobody */
    bool unknown;                  /* nobody has it: its allocation was not recorded */
    const struct units_lane *lane; /* that of the bound, for units_fast_free_remote(); or NULL */
};

/* An object that begins. */
struct units_allocation_of {
    struct units_object object; /* its place, and that one's class, announced unless 0 */
    const void *address;        /* written only if the lane records addresses */
    bool taken; /* it was the first of its size's class in the cache that the stream follows */
};

void units_allocation(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                      const struct units_allocation_of *allocation);
void units_realloc(struct units_lane *lane, unsigned kind, const struct units_object *old,
                   uint64_t size, const struct units_allocation_of *allocation);
void units_free(struct units_lane *lane, unsigned kind, const struct units_object *object,
                uint64_t size, uint64_t alignment);
/* A call that failed; of `size`, `alignment`, `object` (may be NULL) those that the kind has. */
void units_failed(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  const struct units_object *object);

/* An allocation of an opaque allocator. */
void units_opaque_allocation(struct units_lane *lane, unsigned kind, uint64_t size,
                             uint64_t alignment, const struct units_allocation_of *allocation);

/* Of an opaque allocator, before an allocation or a realloc: it comes after this many calls of
 * another lane (raw_allocations(), not 0). False: that has been written already, and nothing is
 * written. */
bool units_after(struct units_lane *lane, uint64_t bound, bool is_realloc);

void units_heap_call(struct units_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second);

/* A size class and the size of its objects: before the class is mentioned. The lane remembers
 * that it has been. */
void units_class(struct units_lane *lane, unsigned size_class, uint64_t bytes);

/* The thread's cache (FORMAT.md 2.6): up to RAW_CACHED_MAX places that came into it; how many left
 * it. */
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
/* Events were lost, and among them allocations. With these, the allocations of a slot must still be
 * fewer than UNITS_HEAD_ALLOCATIONS_LIMIT. */
void units_lost(struct units_lane *lane, uint64_t events, uint64_t allocations);

/* Of an opaque allocator: where the granules of places from `first` on are (FORMAT.md 3). */
void units_page(struct units_lane *lane, uint32_t first, uintptr_t address);

/* The next allocation or realloc of the lane, also one that fails, has the call stack of this node,
 * which is less than STACK_NUMBERS_LIMIT and not 0; with RAW_FEATURE_FREE_STACKS, so has a free
 * that comes next. This function and the next are only for streams with RAW_FEATURE_STACKS. */
void units_stack(struct units_lane *lane, uint32_t node);

/* What numbers mean, within the limits of stack_definition_is_valid(). It must be in the lane before
 * another lane can have the number. Of a text, one piece: the caller goes on with `offset` and
 * `piece`. */
void units_define(struct units_lane *lane, const struct stack_definition *definition);

#ifdef __cplusplus
}
#endif
#endif
