/* calls - carries out single calls on the allocator under test, for every engine.
 *
 *   instruction --> calls_allocate(), calls_free(), ... --> allocator
 *                   one call in `sample_every` is timed by itself
 *
 * `how` says what is done besides the call. It is a constant in every caller, so what is off costs
 * nothing.
 *
 * The calls to time are chosen at random, so that sampling cannot fall in step with a pattern of
 * the program. Every replay of a stream with the same policy chooses the same calls. The clock is
 * read right before the call and right after it. */
#ifndef MALLOCTAPE_REPLAY_CALLS_H
#define MALLOCTAPE_REPLAY_CALLS_H

#include "replay/allocator.h"
#include "replay/latency.h"
#include "replay/policy.h"
#include "replay/promises.h"
#include "stream/instruction_reader.h"

enum how {
    HOW_NULL = 1,   /* the allocator is not called */
    HOW_EXTRAS = 2, /* objects are touched and checked, or their addresses noted */
    HOW_TIMED = 4   /* the call is timed */
};

/* Pages of an object that were ever resident: so many that were not, then so many that were, and so
 * on (INSTRUCTIONS.md 5.3, *touched*); of none it is not known. */
struct calls_runs {
    const uint64_t *at;
    size_t count;
    uint64_t page_bytes; /* of the system where it was recorded */
};

struct calls {
    const struct allocator *allocator;
    enum touch touch;
    bool heap_calls;
    uint64_t page_bytes; /* of the system where it was recorded */
    uint64_t *addresses; /* receives objects' addresses, by index in the batch; NULL: not wanted */
    uint64_t realigned;  /* calls whose alignment the allocator refused */
    uint64_t untouched;  /* bytes of large objects that the trace says were never resident */
    uint64_t reallocs, moved;  /* how many reallocs there were, and how many moved their object */
    struct promises *promises; /* NULL: not checked */
    uint64_t watched_below;    /* of the promises; 0: not checked */

    struct latency *latency;      /* NULL: no call is timed by itself */
    struct latency_list *samples; /* where they go: latency->list, or a thread's own */
    uint64_t sample_every;
    uint64_t until_sample; /* instructions before the one that will be timed */
    uint64_t random;       /* state of a xorshift generator */
};

/* `latency` may be NULL. `seed`: of the random choice of calls to time. */
void calls_open(struct calls *calls, const struct allocator *allocator, const struct policy *policy,
                struct promises *promises, struct latency *latency, uint64_t seed);

/* Chooses the next instruction that will be timed: 1 to 2 * sample_every - 1 further on. */
void calls_draw_sample(struct calls *calls);

/* What to do for an opcode with its flags. ACTION_NONE: also for a call that failed and for a free
 * of an unknown object. */
enum call_action {
    ACTION_NONE = 0,
    ACTION_ALLOCATE,
    ACTION_ALLOCATE_ALIGNED,
    ACTION_REALLOC,
    ACTION_FREE,
    ACTION_FREE_SIZED, /* with a size, an alignment or both */
    ACTION_HEAP,
    ACTION_LANE,
    ACTION_BORDER /* a thread begins or ends, or its cache is deleted */
};
extern const uint8_t call_actions[256];

/* For the functions below. */
void *calls_allocate_realigned(struct calls *calls, unsigned opcode, size_t size, size_t alignment);
void calls_realloc_zero(const struct allocator *allocator, void *object);
void calls_touch(enum touch touch, void *object, size_t size);
void calls_touch_runs(struct calls *calls, void *object, size_t size, struct calls_runs touched);

#define CALLS_INLINE static inline __attribute__((always_inline))

/* What is known of the object of the instruction that has just been taken, if it is of use. */
CALLS_INLINE struct calls_runs calls_runs_of(const struct calls *calls, enum how how,
                                             const struct instruction_walk *walk,
                                             const struct instruction *one)
{
    struct calls_runs touched = {NULL, 0, calls->page_bytes};
    if (how & HOW_EXTRAS) touched.count = instruction_walk_touched(walk, one, &touched.at);
    return touched;
}

CALLS_INLINE void calls_add_sample(struct calls *calls, unsigned opcode, uint64_t ticks)
{
    latency_list_add(calls->samples, opcode & INSTRUCTION_NUMBER_MASK, ticks);
}

/* Makes a call, and times it if `how` says so. */
#define CALLS_MAKE(call)                                                                           \
    do {                                                                                           \
        uint64_t begin = how & HOW_TIMED ? latency_begin(calls->latency) : 0;                      \
        call;                                                                                      \
        if (how & HOW_TIMED) calls_add_sample(calls, opcode, latency_end(calls->latency) - begin); \
    } while (0)

/* Called before an object is ended. */
CALLS_INLINE void calls_note_end(const struct calls *calls, enum how how, const void *object)
{
    const uint64_t address = (uint64_t)(uintptr_t)object;
    if ((how & HOW_EXTRAS) && promises_watch(calls->watched_below, address))
        promises_take(calls->promises, address);
}

/* A std::nothrow_t has no contents. */
static const char calls_nothrow;

/* The arguments that are passed for each argument list of allocator.h. */
#define ARGUMENTS_allocation             (size)
#define ARGUMENTS_allocation_tag         (size, &calls_nothrow)
#define ARGUMENTS_allocation_aligned     (size, alignment)
#define ARGUMENTS_allocation_aligned_tag (size, alignment, &calls_nothrow)
#define ARGUMENTS_memalign               (alignment, size)
#define ARGUMENTS_free                   (object)
#define ARGUMENTS_free_tag               (object, &calls_nothrow)
#define ARGUMENTS_free_sized             (object, size)
#define ARGUMENTS_free_aligned           (object, alignment)
#define ARGUMENTS_free_aligned_tag       (object, alignment, &calls_nothrow)
#define ARGUMENTS_free_sized_aligned     (object, size, alignment)

#define CASE_ALLOCATION(kind, member, arguments, symbols, substitute) \
    case CALL_##kind:                                                 \
        CALLS_MAKE(object = to->member ARGUMENTS_##arguments);        \
        break;
#define CASE_FREE(kind, member, arguments, symbols, substitute) \
    case CALL_##kind: CALLS_MAKE(to->member ARGUMENTS_##arguments); break;

/* An allocation without an alignment. */
CALLS_INLINE void *calls_allocate(struct calls *calls, enum how how, unsigned opcode, size_t size)
{
    const struct allocator *const to = calls->allocator;
    void *object = NULL;
    if (opcode == CALL_MALLOC) {
        CALLS_MAKE(object = to->malloc(size));
        return object;
    }
    switch (opcode) {
        ALLOCATOR_ALLOCATION_LIST(CASE_ALLOCATION)
        ALLOCATOR_C_ALLOCATION_LIST(CASE_ALLOCATION)
    case CALL_CALLOC: CALLS_MAKE(object = to->calloc(1, size)); break;
    default: /* a realloc of nothing, or of an unknown object */
        CALLS_MAKE(object = to->realloc(NULL, size));
    }
    return object;
}

/* An allocation with an alignment. For C++ operators it is always a power of two: with any other,
 * some allocators end the program. */
CALLS_INLINE void *calls_allocate_aligned(struct calls *calls, enum how how, unsigned opcode,
                                          size_t size, size_t alignment)
{
    const struct allocator *const to = calls->allocator;
    void *object = NULL;
    if (opcode >= CALL_NEW_ALIGNED && __builtin_popcountll(alignment) != 1) return NULL;
    switch (opcode) {
        ALLOCATOR_ALIGNED_LIST(CASE_ALLOCATION)
        ALLOCATOR_C_ALIGNED_LIST(CASE_ALLOCATION)
    default: CALLS_MAKE(object = to->posix_memalign(alignment, size));
    }
    if (object == NULL) object = calls_allocate_realigned(calls, opcode, size, alignment);
    return object;
}

/* With size 0, the recorded realloc() returned an object, so this one must not just free the old
 * one. */
CALLS_INLINE void *calls_realloc(struct calls *calls, enum how how, unsigned opcode, void *object,
                                 size_t size)
{
    void *moved;
    calls_note_end(calls, how, object);
    CALLS_MAKE(moved = calls->allocator->realloc(object, size != 0 ? size : 1));
    calls->reallocs++;
    calls->moved += moved != object;
    return moved;
}

/* A free that is passed the object only. */
CALLS_INLINE void calls_free(struct calls *calls, enum how how, unsigned opcode, void *object)
{
    const struct allocator *const to = calls->allocator;
    calls_note_end(calls, how, object);
    if (opcode == CALL_FREE) {
        CALLS_MAKE(to->free(object));
        return;
    }
    switch (opcode) {
        ALLOCATOR_FREE_LIST(CASE_FREE)
    default: /* CALL_REALLOC_ZERO */ CALLS_MAKE(calls_realloc_zero(to, object));
    }
}

/* A free that is passed a size, an alignment or both, too. */
CALLS_INLINE void calls_free_sized(struct calls *calls, enum how how, unsigned opcode, void *object,
                                   size_t size, size_t alignment)
{
    const struct allocator *const to = calls->allocator;
    calls_note_end(calls, how, object);
    switch (opcode) {
        ALLOCATOR_SIZED_FREE_LIST(CASE_FREE)
    default: CALLS_MAKE(to->free(object));
    }
}

#undef CALLS_MAKE

/* Checks and touches a new object and notes its address, if `how` and the policy say so. `alignment`
 * 0: that of any object. False: the allocator has broken a promise. */
CALLS_INLINE bool calls_note_object(struct calls *calls, enum how how, size_t at, void *object,
                                    size_t size, uint64_t alignment, struct calls_runs touched)
{
    if (!(how & HOW_EXTRAS)) return true;
    const uint64_t address = (uint64_t)(uintptr_t)object;
    if (calls->addresses != NULL) calls->addresses[at] = address;
    if (promises_ask_alignment(address, alignment) && calls->promises != NULL &&
        !promises_aligned(calls->promises, address, size, alignment))
        return false;
    if (promises_watch(calls->watched_below, address) &&
        !promises_put(calls->promises, address, size))
        return false;
    if (touched.count > 0 && calls->touch == TOUCH_PAGES)
        calls_touch_runs(calls, object, size, touched);
    else
        calls_touch(calls->touch, object, size);
    return true;
}

/* A call on the whole heap (INSTRUCTIONS.md 5.1, HEAP). */
void calls_heap(const struct calls *calls, unsigned kind, const uint64_t *numbers, unsigned count);

/* The extras that this replay has. */
static inline enum how calls_how(const struct calls *calls)
{
    return calls->touch != TOUCH_NONE || calls->addresses != NULL || calls->promises != NULL
               ? HOW_EXTRAS
               : 0;
}

#endif
