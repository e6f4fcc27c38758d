/* capture - record what the threads of this process ask of their allocator.
 *
 *   traced thread --units--> its slot in the spool --writer thread--> chunks --lz4--> output
 *
 * This is the one interface under every front end. A front end replaces the allocator's entry
 * points. Around each real call it records one event:
 *
 *     if (!malloctape_ready()) {  // not recording, or no room and no way to get any
 *         malloctape_unrecorded();
 *         return real_malloc(size);
 *     }
 *     malloctape_lane->units.allocating = 1;  // sequence numbers belong to what follows
 *     void *object = real_malloc(size);
 *     malloctape_lane->units.allocating = 0;
 *     malloctape_allocated(CALL_MALLOC, size, 0, object, taken);
 *
 * It records a free before the real call, because afterwards another thread may own the address,
 * and an allocation after it. Fast paths do the same on a lane that they hold, with the inline
 * functions of units.h.
 *
 * Identity   An object is named by its place; the shadow table says which lane has it (shadow.h).
 *            An allocation on the fast path does not name its place: readers follow the thread's
 *            cache (FORMAT.md 2.6), and the lane records every change of it that is not made there.
 * Lane       One for each living thread, found by one thread-local pointer (state.h).
 * Life       recording_begin.h, recording.h. A thread may be late, in the middle of an event of a recording that has
 *            ended: what it writes harms nobody.
 * Slot       Invariant: slot start <= cursor <= slot end. The cursor is the address in `head`.
 *            Units below it are whole records (FORMAT.md 5), units from it on are zero. A thread
 *            whose head is not below its limit calls malloctape_ready().
 * Threads    All functions may be called from any thread, also before main and during thread exit.
 * Cost       Inline functions: a few plain instructions. malloctape_ready() takes a new slot every
 *            few thousand events and may then wait for the writer.
 * Errors     None to the caller: recording ends with one line on standard error. */
#ifndef MALLOCTAPE_CAPTURE_H
#define MALLOCTAPE_CAPTURE_H

#include "common/atomic.h"
#include "common/call_kind.h"
#include "stream/units.h"
#include "tracing/core/hooks.h"
#include "tracing/data/front_end.h"
#include "tracing/data/lane.h"
#include "tracing/data/shadow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing here is visible outside the library. */
#pragma GCC visibility push(hidden)

/* Whether the lane has this place on this page. Pages without a size class have no owner. */
static inline bool malloctape_lane_has(const struct malloctape_lane *lane,
                                       const struct shadow_page *page, uint32_t place)
{
    uint16_t owner = atomic_load_relaxed(&page->owner);
    if (__builtin_expect(owner == lane->units.owner, 1)) return true;
    return owner == SHADOW_MIXED && atomic_load_relaxed(shadow_owner(place)) == lane->units.owner;
}

/* The program asks how large an object is, which is no event: it is counted. */
static inline void malloctape_size_asked(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane == &recording_no_lane)
        atomic_add_relaxed(&lane->sizes_asked, 1);
    else
        atomic_add_own_release(&lane->sizes_asked, 1);
}

/* The program frees NULL, which is no event either. To be called like malloctape_freeing(). */
void malloctape_freed_nothing(void);

/* ---- recording, general ---- */

/* Whether it is not known yet if anything will be recorded: before the first call that is the
 * program's. */
static inline bool malloctape_is_undecided(void)
{
    return atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_UNDECIDED;
}

/* Whether nothing is, or will be, recorded: one load, for the way past the capture core. */
static inline bool malloctape_is_off(void)
{
    return atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_OFF;
}

/* Whether, in addition, nobody has ever asked for a recording, or can ask for one from outside. A
 * call that begins in this state need not check at its end whether a recording has begun meanwhile:
 * only the very first malloctape_start() of a program can come in between, and then an object that
 * two threads had within that instant may be reported as freed twice. */
static inline bool malloctape_is_idle(void)
{
    return malloctape_is_off() && !atomic_load_relaxed(&malloctape_may_begin);
}

/* Between these two nothing is recorded, no recording begins, and the front end may lead calls past
 * the capture core. False: not now, perhaps because the latest recording has only just ended. */
bool malloctape_begin_idle(void);
void malloctape_end_idle(void);

/* Ensures that the calling thread can record one event. False: record nothing for this call.
 * Starts recording if the environment asks for it and this is the first call. Keeps errno. */
bool malloctape_ready(void);

/* The same in a call for which that has returned true. */
bool malloctape_makes_room(void);

/* Records an allocation. `object` NULL: the call failed; else its page is open (shadow_open).
 * `alignment`: 0 for kinds that have none. `taken`: the object was the first one in the thread's
 * cache of the size class that `size` has; only if that cache is followed.
 * To be called after malloctape_ready() returned true, even if the lane has been filled since. */
void malloctape_allocated(unsigned kind, uint64_t size, uint64_t alignment, const void *object,
                          bool taken);

/* The same on the fast path, without an alignment: the object was the first of its class in the
 * cache. Any kind and size, even those without a code of their own. The lane must have room. */
void malloctape_allocated_in_cache(unsigned kind, uint64_t size, const void *object);

/* An object was allocated without a record: forgets what the shadow table says about an earlier
 * object there. */
void malloctape_allocated_unrecorded(const void *object);

/* Records a free. `size` and `alignment`: as the kind has them, else 0. From now on the place is
 * the thread's. */
void malloctape_freeing(unsigned kind, const void *object, uint64_t size, uint64_t alignment);

/* The same for an object that another lane has, in the usual case. The kind has a size if it is
 * `sized`, and no alignment. `object` may be anything. False: nothing is recorded. */
bool malloctape_remote_freeing(unsigned kind, const void *object, bool sized, uint64_t size);

/* Records a realloc that ended `old`. `object` NULL: it failed and ended nothing. `taken`: as
 * above. */
void malloctape_reallocated(unsigned kind, const void *old, uint64_t size, const void *object,
                            bool taken);

/* ---- of an opaque allocator: nothing is known of it but addresses ---- */

/* As malloctape_allocated(), malloctape_allocated_unrecorded() and malloctape_freeing(). */
void malloctape_opaque_allocated(unsigned kind, uint64_t size, uint64_t alignment,
                                 const void *object);
void malloctape_opaque_allocated_unrecorded(const void *object);
void malloctape_opaque_freeing(unsigned kind, const void *object, uint64_t size,
                               uint64_t alignment);

/* Records an allocation without an alignment, where nothing but its stack
 * keeps it off the fast path: malloctape_lane_is_fast(), and all allocations have stacks. False:
 * nothing is recorded, so malloctape_ready() and malloctape_opaque_allocated() have to do it. Keeps
 * errno. */
bool malloctape_allocated_as_usual(unsigned kind, uint64_t size, const void *object);

/* A realloc of the allocator ends the old object itself: another thread may
 * get its place before the call returns. So a realloc of `old` is announced before the call, and
 * recorded after it. The first fills `*ending` for the second; false: nothing is recorded. The
 * result decides the kind of event; a new size of 0 and no object is a free. */
struct malloctape_ending {
    const void *address;
    struct units_object object;
    uint16_t owner;     /* who has had its place */
    uint32_t recording; /* in which it has been announced */
};
bool malloctape_reallocating(const void *old, struct malloctape_ending *ending);
void malloctape_reallocated_from(const struct malloctape_ending *ending, uint64_t size,
                                 const void *object);

/* ---- any call ---- */

/* Records a heap-wide call with `count` (0 to 2) numbers. */
void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second);

/* The calling thread has this thread cache; NULL: none. If the stream does not follow it yet, the
 * front end is asked for its contents (malloctape_front_end.announce_cache), and it is followed. */
void malloctape_thread_cache_is(void *cache);

/* The calling thread makes, or has made, a call that is not recorded: malloctape_ready() returned
 * false. Nobody sees what happens to its cache. Until malloctape_ready() returns true, its entries
 * into structures are not recorded either, because readers would take them for those of another
 * event. */
void malloctape_unrecorded(void);

/* From now on every call is recorded off the fast path, because there is more to do in it. */
void malloctape_disable_fast_path(void);

/* There is no memory for the places of some objects: recording ends. */
void malloctape_out_of_memory(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
