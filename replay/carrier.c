#include "replay/carrier.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "common/pages.h"
#include "replay/new_handler.h"
#include "replay/shared.h"

/* How many instructions ahead the object table is prefetched once it has outgrown a second-level cache: enough to hide a
 * miss behind a few calls. The objects themselves are not: that miss is the allocator's, and was the program's. */
#define PREFETCH_AHEAD      16u
#define PREFETCH_FROM_BYTES (1024u * 1024)

_Static_assert(PREFETCH_AHEAD <= INSTRUCTION_BATCH_SLACK, "there is something to look at");

#define CACHES_BYTES (INSTRUCTION_LANES_MAX * sizeof(void *))

#define PAGE 4096u /* of the system: x86-64 */

/* ---- opening and closing ---- */

/* Chooses the next instruction that will be timed: 1 to 2 * sample_every - 1 further on. */
static void carrier_draw_sample(struct carrier *carrier)
{
    if (carrier->latency == NULL) return;
    carrier->random ^= carrier->random << 13;
    carrier->random ^= carrier->random >> 7;
    carrier->random ^= carrier->random << 17;
    carrier->until_sample = (carrier->random >> 20) % (2 * carrier->sample_every - 1);
}

static void carrier_init(struct carrier *carrier, const struct allocator *allocator,
                         const struct policy *policy, struct latency *latency)
{
    *carrier = (struct carrier){
        .allocator = allocator,
        .latency = policy->sample_every > 0 ? latency : NULL,
        .sample_every = policy->sample_every,
        .random = UINT64_C(88172645463325252),
        .touch = policy->touch,
        .heap_calls = policy->heap_calls,
    };
}

bool carrier_open(struct carrier *carrier, const struct allocator *allocator,
                  const struct policy *policy, struct latency *latency, struct error *error)
{
    carrier_init(carrier, allocator, policy, latency);
    carrier->switching = policy->switching && allocator->set_cache != NULL;
    carrier->caches = pages_map(CACHES_BYTES);
    if (carrier->caches == NULL) return error_set_system(error, "no memory for thread caches");
    if (carrier->switching) carrier->caches[0] = allocator->first_cache;
    carrier_draw_sample(carrier);
    return true;
}

void carrier_open_shared(struct carrier *carrier, const struct allocator *allocator,
                         const struct policy *policy, struct latency *latency, uint32_t number,
                         carrier_await *await)
{
    carrier_init(carrier, allocator, policy, latency);
    carrier->await = await;
    carrier->random += number * UINT64_C(0x9e3779b97f4a7c15);
    carrier_draw_sample(carrier);
}

void carrier_close(struct carrier *carrier)
{
    pages_unmap(carrier->caches, CACHES_BYTES);
    pages_unmap(carrier->objects, carrier->objects_count * sizeof(void *));
    *carrier = (struct carrier){0};
}

bool carrier_prepare(struct carrier *carrier, const struct instruction_batch *batch,
                     struct error *error)
{
    if (batch->registers <= carrier->objects_count) return true;
    uint64_t count = carrier->objects_count == 0 ? INSTRUCTION_BLOCK_MAX : carrier->objects_count;
    while (count < batch->registers)
        count *= 2;
    void **objects = pages_grow(carrier->objects, carrier->objects_count * sizeof(void *),
                                count * sizeof(void *));
    if (objects == NULL)
        return error_set_system(error, "no memory for %llu registers", (unsigned long long)count);
    carrier->objects = objects;
    carrier->objects_count = count;
    return true;
}

/* ---- thread caches ---- */

static inline void carrier_set_cache(struct carrier *carrier, void *cache)
{
    carrier->allocator->set_cache(cache);
    if (carrier->allocator->in_force != NULL) carrier->allocator = carrier->allocator->in_force();
}

void carrier_attach(struct carrier *carrier)
{
    if (!carrier->switching) return;
    carrier->own_cache = carrier->allocator->release_cache();
    carrier_set_cache(carrier, carrier->caches[carrier->lane]);
}

void carrier_detach(struct carrier *carrier)
{
    if (!carrier->switching) return;
    carrier->caches[carrier->lane] = carrier->allocator->release_cache();
    carrier->allocator->set_cache(carrier->own_cache);
}

static inline void carrier_switch(struct carrier *carrier, uint64_t lane)
{
    if (carrier->switching) {
        carrier->caches[carrier->lane] = carrier->allocator->release_cache();
        carrier_set_cache(carrier, carrier->caches[lane]);
    }
    carrier->lane = lane;
}

/* Destroys the cache of the current lane, if it has one. */
static inline void carrier_drop_cache(struct carrier *carrier)
{
    if (carrier->switching) carrier->allocator->set_cache(NULL);
}

/* ---- calls ---- */

/* INSTRUCTIONS.md 5.1, HEAP. What the allocator does not have was counted, and is reported as substituted. */
static void carrier_call_heap(struct carrier *carrier, unsigned kind, const uint64_t *numbers,
                              unsigned count)
{
    static const char *const properties[] = {NULL, "tcmalloc.max_total_thread_cache_bytes",
                                             "tcmalloc.aggressive_memory_decommit",
                                             "tcmalloc.heap_limit_mb"};
    const struct allocator_heap_calls *heap = &carrier->allocator->heap;
    uint64_t first = count > 0 ? numbers[0] : 0, second = count > 1 ? numbers[1] : 0;
    if (!carrier->heap_calls || carrier->allocator->substituted[kind]) return;
    switch (kind) {
    case CALL_RELEASE_MEMORY: heap->release_memory(first); break;
    case CALL_THREAD_IDLE: heap->mark_thread_idle(); break;
    case CALL_THREAD_TEMPORARILY_IDLE: heap->mark_thread_temporarily_idle(); break;
    case CALL_THREAD_BUSY: heap->mark_thread_busy(); break;
    case CALL_SET_PROPERTY:
        if (first >= 1 && first <= 3) heap->set_property(properties[first], second);
        break;
    case CALL_SET_RELEASE_RATE: heap->set_release_rate((double)first / 1000); break;
    case CALL_MALLOPT: heap->mallopt((int)(int64_t)first, (int)(int64_t)second); break;
    case CALL_MALLOC_TRIM: heap->malloc_trim(first); break;
    default: break;
    }
}

/* realloc() to nothing frees, and some allocators then return a new, empty object, which nobody owns. */
static inline void carrier_realloc_zero(const struct allocator *call, void *object)
{
    void *left = call->realloc(object, 0);
    if (left != NULL) call->free(left);
}

/* Writes to a new object what the policy says (REPORT.md, `touch`). */
static void carrier_touch(enum touch touch, void *object, size_t size)
{
    volatile char *const bytes = object;
    if (object == NULL || size == 0) return;
    switch (touch) {
    case TOUCH_NONE:
    case TOUCH_KINDS: return;
    case TOUCH_LINE: bytes[0] = 1; return;
    case TOUCH_PAGES:
        bytes[0] = 1;
        for (size_t at = PAGE - (uintptr_t)object % PAGE; at < size; at += PAGE)
            bytes[at] = 1;
        return;
    case TOUCH_ALL: memset(object, 1, size); return;
    }
}

static void carrier_extras(const struct carrier *carrier, size_t at, void *object, size_t size)
{
    if (carrier->addresses != NULL) carrier->addresses[at] = (uint64_t)(uintptr_t)object;
    carrier_touch(carrier->touch, object, size);
}

/* What a loop does; constants wherever it is used. */
enum loop {
    LOOP_REAL = 1,     /* calls the allocator */
    LOOP_PREFETCH = 2, /* the object table is large */
    LOOP_EXTRAS = 4,   /* objects are touched or their addresses noted */
    LOOP_TIMED = 8,    /* every call is timed; for a single instruction */
    LOOP_SHARED = 16   /* objects are shared with other carriers (shared.h) */
};

/* The object that instruction `at` ends or changes, from where others put it. False: it will not come. */
static inline bool carrier_take_shared(struct carrier *carrier, size_t at,
                                       const struct instruction *one, void **object)
{
    void **slot = &carrier->objects[one->object];
    if (__builtin_expect(shared_get(slot, one->operands, object), 1)) return true;
    return carrier->await(carrier, at) && shared_get(slot, one->operands, object);
}

/* Asks for the entry of an object that will end soon; for births nothing: theirs are next to each other. Where the row of
 * objects ends now, `end`, is near enough. No branch: it would be guessed wrong. */
static inline void carrier_prefetch(void **end, uint8_t opcode, uint64_t value)
{
    const uint64_t ends = (uint64_t)(int64_t)(instruction_effects[opcode] >> 1);
    __builtin_prefetch(end - 1 - (value & ends), 1);
}

/* The loop of all engines. */
static inline __attribute__((always_inline)) size_t carrier_loop(
    struct carrier *carrier, const struct instruction_batch *batch, size_t from, size_t to,
    enum loop loop)
{
    const bool real = loop & LOOP_REAL, prefetch = loop & LOOP_PREFETCH;
    const bool extras = loop & LOOP_EXTRAS, timed = loop & LOOP_TIMED, shared = loop & LOOP_SHARED;
    const struct allocator *call = carrier->allocator;
    const uint8_t *const opcodes = batch->opcodes;
    const uint16_t *const values = batch->values;
    const struct instruction *one = NULL, *next = batch->at + (shared ? from : carrier->taken);
    const char tag = 0; /* std::nothrow_t has no contents */
    void **const objects = carrier->objects;
    uint64_t live = carrier->live; /* without `shared` */
    uint64_t begin = 0;
    size_t i;

    for (i = from; i < to; i++) {
        uint8_t opcode = shared ? next->opcode : opcodes[i];
        uint64_t size = shared ? 0 : values[i]; /* if it is plain: of a birth */
        uint64_t place = size;                  /* likewise: of a death */
        void **entry, *object;

        if (prefetch && !shared)
            carrier_prefetch(objects + live, opcodes[i + PREFETCH_AHEAD],
                             values[i + PREFETCH_AHEAD]);

#define TAKE_RECORD() \
    one = next++;     \
    size = one->size; \
    if (!shared) place = live - 1 - one->object
        if (shared) {
            TAKE_RECORD();
        }
        uint8_t generation = shared ? one->operands : 0;

#define OPERAND(index) (batch->operands[one->operand_at + (index)])
#define TIMED(expression)                               \
    if (timed) begin = latency_begin(carrier->latency); \
    expression;                                         \
    if (timed) carrier->sample_ticks = latency_end(carrier->latency) - begin
        /* Without the allocator the table keeps what it has: what would be written there goes to `carrier->nowhere`. */
#define BRING(expression)                           \
    if (real) {                                     \
        TIMED(object = (expression));               \
    } else {                                        \
        object = NULL;                              \
        TIMED(__asm__ volatile("" : "+r"(object))); \
    }                                               \
    goto brought
#define BIRTH(expression)                                      \
    entry = shared ? &objects[one->object] : &objects[live++]; \
    BRING(expression)
#define BIRTH_MAY_THROW(expression) \
    carrier->at = i;                \
    BIRTH(expression)
        /* Some allocators end the program for an alignment that cannot be, which no C++ program can have had. */
#define BIRTH_ALIGNED(expression)                                 \
    if (real && __builtin_popcountll(OPERAND(0)) != 1) goto stop; \
    BIRTH_MAY_THROW(expression)
#define TAKE()                                               \
    entry = shared ? NULL : &objects[live - 1 - place];      \
    if (!shared)                                             \
        object = *entry;                                     \
    else if (!carrier_take_shared(carrier, i, one, &object)) \
    goto stop
        /* The last object takes the position of the one that ends. */
#define DEATH(expression)                            \
    TAKE();                                          \
    if (!shared) {                                   \
        void *last = objects[--live];                \
        *(real ? entry : &carrier->nowhere) = last;  \
    }                                                \
    if (real) {                                      \
        TIMED(expression);                           \
    } else {                                         \
        TIMED(__asm__ volatile("" : : "r"(object))); \
    }                                                \
    continue

        /* The most frequent ones by comparisons, one after another: an indirect jump that is guessed wrong costs more than
         * all of them, and the compiler must not make one of them (nor of the rest: -fno-jump-tables). Each is expected, so
         * that it is carried out where it is compared, with one taken branch for an instruction instead of three. */
#define FREQUENT(kind, carry_out)                \
    if (__builtin_expect(opcode == (kind), 1)) { \
        carry_out;                               \
    }                                            \
    __asm__ volatile("")
#define RECORDED(kind, carry_out) \
    case (kind):                  \
        carry_out
#define FREQUENT_CALLS(HOW)                                 \
    HOW(CALL_FREE, DEATH(call->free(object)));              \
    HOW(CALL_MALLOC, BIRTH(call->malloc(size)));            \
    HOW(CALL_CALLOC, BIRTH(call->calloc(1, size)));         \
    HOW(CALL_NEW, BIRTH_MAY_THROW(call->new_object(size))); \
    HOW(CALL_DELETE, DEATH(call->delete_object(object)))
        FREQUENT_CALLS(FREQUENT);
        if (!shared && instruction_effects[opcode] == INSTRUCTION_NOT_PLAIN) {
            TAKE_RECORD();
            opcode = one->opcode;
        }
        FREQUENT(CALL_DELETE_SIZED, DEATH(call->delete_sized(object, size)));
        switch (opcode) {
            FREQUENT_CALLS(RECORDED);
        case CALL_REALLOC_NULL: BIRTH(call->realloc(NULL, size));
        case CALL_NEW_NOTHROW: BIRTH_MAY_THROW(call->new_nothrow(size, &tag));
        case CALL_NEW_ARRAY: BIRTH_MAY_THROW(call->new_array(size));
        case CALL_NEW_ARRAY_NOTHROW: BIRTH_MAY_THROW(call->new_array_nothrow(size, &tag));
        case CALL_MALLOC_SKIP_NEW_HANDLER: BIRTH(call->malloc_skip_new_handler(size));
        case CALL_MEMALIGN: BIRTH(call->memalign(OPERAND(0), size));
        case CALL_ALIGNED_ALLOC: BIRTH(call->aligned_alloc(OPERAND(0), size));
        case CALL_POSIX_MEMALIGN: BIRTH(call->posix_memalign(OPERAND(0), size));
        case CALL_VALLOC: BIRTH(call->valloc(size));
        case CALL_PVALLOC: BIRTH(call->pvalloc(size));
        case CALL_NEW_ALIGNED: BIRTH_ALIGNED(call->new_aligned(size, OPERAND(0)));
        case CALL_NEW_ALIGNED_NOTHROW:
            BIRTH_ALIGNED(call->new_aligned_nothrow(size, OPERAND(0), &tag));
        case CALL_NEW_ARRAY_ALIGNED: BIRTH_ALIGNED(call->new_array_aligned(size, OPERAND(0)));
        case CALL_NEW_ARRAY_ALIGNED_NOTHROW:
            BIRTH_ALIGNED(call->new_array_aligned_nothrow(size, OPERAND(0), &tag));

        case CALL_REALLOC_MOVED:
        case CALL_REALLOC_IN_PLACE:
            /* A recorded size of 0 made an object; here it must not end one. */
            TAKE();
            if (shared) {
                entry = &objects[shared_operand_slot(OPERAND(0))];
                generation = shared_operand_generation(OPERAND(0));
            }
            BRING(call->realloc(object, size != 0 ? size : 1));
        case CALL_REALLOC_MOVED | INSTRUCTION_UNKNOWN:
        case CALL_REALLOC_IN_PLACE | INSTRUCTION_UNKNOWN: BIRTH(call->realloc(NULL, size));

        case CALL_REALLOC_ZERO: DEATH(carrier_realloc_zero(call, object));
        case CALL_CFREE: DEATH(call->cfree(object));
        case CALL_DELETE_NOTHROW: DEATH(call->delete_nothrow(object, &tag));
        case CALL_DELETE_ARRAY: DEATH(call->delete_array(object));
        case CALL_DELETE_ARRAY_NOTHROW: DEATH(call->delete_array_nothrow(object, &tag));
        case CALL_FREE_SIZED: DEATH(call->free_sized(object, size));
        case CALL_DELETE_ARRAY_SIZED: DEATH(call->delete_array_sized(object, size));
        case CALL_DELETE_ALIGNED: DEATH(call->delete_aligned(object, OPERAND(0)));
        case CALL_DELETE_ALIGNED_NOTHROW:
            DEATH(call->delete_aligned_nothrow(object, OPERAND(0), &tag));
        case CALL_DELETE_ARRAY_ALIGNED: DEATH(call->delete_array_aligned(object, OPERAND(0)));
        case CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
            DEATH(call->delete_array_aligned_nothrow(object, OPERAND(0), &tag));
        case CALL_FREE_ALIGNED_SIZED: DEATH(call->free_aligned_sized(object, size, OPERAND(0)));
        case CALL_DELETE_SIZED_ALIGNED: DEATH(call->delete_sized_aligned(object, size, OPERAND(0)));
        case CALL_DELETE_ARRAY_SIZED_ALIGNED:
            DEATH(call->delete_array_sized_aligned(object, size, OPERAND(0)));

        case INSTRUCTION_LANE:
            if (real) carrier_switch(carrier, OPERAND(0));
            call = carrier->allocator;
            continue;
        case INSTRUCTION_THREAD_BEGIN:
        case INSTRUCTION_THREAD_END:
        case INSTRUCTION_THREAD_CACHE_DELETED:
            if (real) carrier_drop_cache(carrier);
            continue;
        case CALL_RELEASE_MEMORY:
        case CALL_THREAD_IDLE:
        case CALL_THREAD_TEMPORARILY_IDLE:
        case CALL_THREAD_BUSY:
        case CALL_SET_PROPERTY:
        case CALL_SET_RELEASE_RATE:
        case CALL_MALLOPT:
        case CALL_MALLOC_TRIM:
            if (real) carrier_call_heap(carrier, opcode, &OPERAND(0), one->operands);
            continue;
        default:
            /* Failed calls, unknown deaths, ticks, losses: counted by the reader, nothing to carry out. */
            continue;
        }
    brought:
        if (real && __builtin_expect(object == NULL && size != 0, 0)) goto stop;
        /* Before anybody else may end the object. */
        if (extras) carrier_extras(carrier, i, object, size);
        if (shared)
            shared_put(entry, generation, object);
        else
            *(real ? entry : &carrier->nowhere) = object;
#undef TAKE_RECORD
#undef OPERAND
#undef FREQUENT
#undef RECORDED
#undef FREQUENT_CALLS
#undef TIMED
#undef BRING
#undef BIRTH
#undef BIRTH_MAY_THROW
#undef BIRTH_ALIGNED
#undef TAKE
#undef DEATH
    }
stop:
    carrier->live = live;
    carrier->taken = (size_t)(next - batch->at);
    return i;
}

static enum loop carrier_choose_loop(const struct carrier *carrier, bool real)
{
    bool prefetch = carrier->objects_count * sizeof(void *) > PREFETCH_FROM_BYTES;
    bool extras = carrier->touch != TOUCH_NONE || carrier->addresses != NULL;
    if (!real) return prefetch ? LOOP_PREFETCH : 0;
    if (carrier->await != NULL)
        return LOOP_REAL | LOOP_PREFETCH | LOOP_SHARED | (extras ? LOOP_EXTRAS : 0);
    return extras ? LOOP_REAL | LOOP_PREFETCH | LOOP_EXTRAS
                  : LOOP_REAL | (prefetch ? LOOP_PREFETCH : 0);
}

static size_t carrier_run_untimed(struct carrier *carrier, const struct instruction_batch *batch,
                                  size_t from, size_t to, enum loop loop)
{
    switch ((unsigned)loop) {
    case 0: return carrier_loop(carrier, batch, from, to, 0);
    case LOOP_PREFETCH: return carrier_loop(carrier, batch, from, to, LOOP_PREFETCH);
    case LOOP_REAL: return carrier_loop(carrier, batch, from, to, LOOP_REAL);
    case LOOP_REAL | LOOP_PREFETCH:
        return carrier_loop(carrier, batch, from, to, LOOP_REAL | LOOP_PREFETCH);
    case LOOP_REAL | LOOP_PREFETCH | LOOP_SHARED:
        return carrier_loop(carrier, batch, from, to, LOOP_REAL | LOOP_PREFETCH | LOOP_SHARED);
    case LOOP_REAL | LOOP_PREFETCH | LOOP_SHARED | LOOP_EXTRAS:
        return carrier_loop(carrier, batch, from, to,
                            LOOP_REAL | LOOP_PREFETCH | LOOP_SHARED | LOOP_EXTRAS);
    default: return carrier_loop(carrier, batch, from, to, LOOP_REAL | LOOP_PREFETCH | LOOP_EXTRAS);
    }
}

static size_t carrier_run_one_timed(struct carrier *carrier, const struct instruction_batch *batch,
                                    size_t at, enum loop loop)
{
    if (!(loop & LOOP_REAL)) return carrier_loop(carrier, batch, at, at + 1, LOOP_TIMED);
    if (loop & LOOP_SHARED)
        return carrier_loop(carrier, batch, at, at + 1,
                            LOOP_REAL | LOOP_EXTRAS | LOOP_TIMED | LOOP_SHARED);
    return carrier_loop(carrier, batch, at, at + 1, LOOP_REAL | LOOP_EXTRAS | LOOP_TIMED);
}

/* A single instruction, timed. What was no call is counted under 0, which is no kind. */
static size_t carrier_run_timed(struct carrier *carrier, const struct instruction_batch *batch,
                                size_t at, enum loop loop)
{
    unsigned kind =
        loop & LOOP_REAL ? instruction_batch_opcode(batch, at) & INSTRUCTION_NUMBER_MASK : 0;
    carrier->sample_ticks = CARRIER_NO_SAMPLE;
    size_t done = carrier_run_one_timed(carrier, batch, at, loop);
    if (carrier->sample_ticks == CARRIER_NO_SAMPLE) return done;
    if (carrier->samples != NULL)
        latency_list_add(carrier->samples, kind, carrier->sample_ticks);
    else
        latency_add(carrier->latency, kind, carrier->sample_ticks);
    return done;
}

/* A slice: stretches that are not timed, with single instructions between them that are. */
static size_t carrier_run_slice(struct carrier *carrier, const struct instruction_batch *batch,
                                size_t from, size_t to, bool real)
{
    const enum loop loop = carrier_choose_loop(carrier, real);
    if (from == 0) carrier->taken = 0;
    if (carrier->latency == NULL) return carrier_run_untimed(carrier, batch, from, to, loop);
    while (to - from > carrier->until_sample) {
        size_t at = from + carrier->until_sample;
        size_t done = carrier_run_untimed(carrier, batch, from, at, loop);
        if (done < at) return done;
        if (carrier_run_timed(carrier, batch, at, loop) == at) return at;
        carrier_draw_sample(carrier);
        from = at + 1;
    }
    carrier->until_sample -= to - from;
    return carrier_run_untimed(carrier, batch, from, to, loop);
}

size_t carrier_run(struct carrier *carrier, const struct instruction_batch *batch, size_t from,
                   size_t to)
{
    /* An operator new that finds no memory calls the handler rather than throw through C. */
    jmp_buf out_of_memory;
    if (setjmp(out_of_memory) != 0) return carrier->at;
    new_handler_arm(&out_of_memory);
    size_t done = carrier_run_slice(carrier, batch, from, to, true);
    new_handler_arm(NULL);
    return done;
}

size_t carrier_run_null(struct carrier *carrier, const struct instruction_batch *batch, size_t from,
                        size_t to)
{
    return carrier_run_slice(carrier, batch, from, to, false);
}
