#include "weak_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    OBJECTS_MAX = 48,
    STORES_MAX = 48,
    GRANULES_MAX = 1 << 12,
    CHOICES_MAX = 4096,
    STACK_BYTES = 64 * 1024,
    GRANULE_BYTES = 2 /* of plain accesses: that of a unit */
};

/* What a thread knows: how far each thread had got when it was ordered before this one, and the
 * oldest store of each object that it can still find. */
struct view {
    uint32_t clock[WEAK_THREADS_MAX];
    uint16_t oldest[OBJECTS_MAX];
};

struct store {
    uint64_t value;
    struct view gives; /* to who acquires it */
};

struct object {
    uintptr_t address;
    uint16_t stores_count;
    uint16_t oldest_seq_cst; /* the latest of these stores */
    struct store stores[STORES_MAX];
};

/* The latest accesses. */
struct granule {
    uintptr_t number; /* of the address; 0: none */
    uint32_t plain_write, atomic_write;
    uint8_t plain_writer, atomic_writer; /* 1 + thread */
    uint32_t plain_reads[WEAK_THREADS_MAX], atomic_reads[WEAK_THREADS_MAX];
};

struct thread {
    ucontext_t context;
    bool ended;
    struct view view;
    struct view released; /* by its latest fence */
    struct view acquires; /* with its next fence */
};

static struct {
    const struct weak_program *program;
    struct thread threads[WEAK_THREADS_MAX];
    unsigned current;
    bool is_running;
    unsigned switches_left;
    ucontext_t main;
    struct object objects[OBJECTS_MAX];
    unsigned objects_count;
    struct granule granules[GRANULES_MAX];
    uint16_t granules_used[GRANULES_MAX]; /* which of them */
    unsigned granules_count;
    struct view fences; /* of seq_cst fences */
    const char *wrong;
    /* What was chosen in this run, and of how many. */
    struct {
        uint16_t taken, count;
    } choices[CHOICES_MAX];
    unsigned choices_count, choices_known;
    uint8_t stacks[WEAK_THREADS_MAX][STACK_BYTES];
} weak;

static void give_up(const char *what)
{
    fprintf(stderr, "weak_memory: %s\n", what);
    abort();
}

static unsigned choose(unsigned count)
{
    if (count < 2) return 0;
    unsigned at = weak.choices_count++;
    if (at == CHOICES_MAX) give_up("a run without an end");
    if (at >= weak.choices_known) weak.choices[at].taken = 0;
    weak.choices[at].count = (uint16_t)count;
    return weak.choices[at].taken;
}

/* The next run. False: that was the last one. */
static bool next_choices(void)
{
    unsigned at = weak.choices_count;
    while (at > 0 && weak.choices[at - 1].taken + 1 == weak.choices[at - 1].count)
        at--;
    if (at == 0) return false;
    weak.choices[at - 1].taken++;
    weak.choices_known = at;
    return true;
}

static void join(struct view *to, const struct view *from)
{
    for (unsigned i = 0; i < WEAK_THREADS_MAX; i++)
        if (from->clock[i] > to->clock[i]) to->clock[i] = from->clock[i];
    for (unsigned i = 0; i < weak.objects_count; i++)
        if (from->oldest[i] > to->oldest[i]) to->oldest[i] = from->oldest[i];
}

/* --- threads --- */

static struct thread *self(void)
{
    return &weak.threads[weak.current];
}

static void leave(void)
{
    struct thread *thread = self();
    swapcontext(&thread->context, &weak.main);
}

static void stop(const char *wrong)
{
    if (!weak.wrong) weak.wrong = wrong;
    self()->ended = true;
    for (;;)
        leave();
}

void weak_fail(const char *what)
{
    stop(what);
    abort();
}

static void thread_main(void)
{
    weak.program->threads[weak.current]();
    self()->ended = true;
    leave();
}

static unsigned able(unsigned threads[WEAK_THREADS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < weak.program->threads_count; i++)
        if (!weak.threads[i].ended) threads[count++] = i;
    return count;
}

/* Before each atomic access. */
static void may_switch(void)
{
    unsigned threads[WEAK_THREADS_MAX], count = able(threads);
    self()->view.clock[weak.current]++;
    if (weak.switches_left == 0 || count < 2 || choose(2) == 0) return;
    weak.switches_left--;
    leave();
}

/* --- plain accesses, and races --- */

static struct granule *granule_at(uintptr_t number)
{
    uintptr_t at = number * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    for (unsigned i = 0; i < GRANULES_MAX; i++) {
        struct granule *granule = &weak.granules[(at + i) % GRANULES_MAX];
        if (granule->number == 0) {
            granule->number = number;
            weak.granules_used[weak.granules_count++] = (uint16_t)(granule - weak.granules);
        }
        if (granule->number == number) return granule;
    }
    give_up("too much memory");
    return NULL;
}

static bool is_before(unsigned thread, uint32_t clock)
{
    return clock == 0 || thread == weak.current || self()->view.clock[thread] >= clock;
}

static void look(uintptr_t address, size_t bytes, bool writes, bool is_atomic)
{
    const uint32_t now = self()->view.clock[weak.current];
    for (uintptr_t number = address / GRANULE_BYTES; number * GRANULE_BYTES < address + bytes;
         number++) {
        struct granule *granule = granule_at(number);
        bool good = granule->plain_writer == 0 ||
                    is_before(granule->plain_writer - 1u, granule->plain_write);
        if (!is_atomic && granule->atomic_writer)
            good = good && is_before(granule->atomic_writer - 1u, granule->atomic_write);
        for (unsigned i = 0; i < WEAK_THREADS_MAX && writes; i++) {
            good = good && is_before(i, granule->plain_reads[i]);
            if (!is_atomic) good = good && is_before(i, granule->atomic_reads[i]);
        }
        if (!good) stop("a race");
        if (writes && is_atomic) {
            granule->atomic_writer = (uint8_t)(weak.current + 1);
            granule->atomic_write = now;
        } else if (writes) {
            granule->plain_writer = (uint8_t)(weak.current + 1);
            granule->plain_write = now;
        } else {
            (is_atomic ? granule->atomic_reads : granule->plain_reads)[weak.current] = now;
        }
    }
}

static void plain(const void *address, size_t bytes, bool writes)
{
    if (weak.is_running) look((uintptr_t)address, bytes, writes, false);
}

void *weak_copy(void *to, const void *from, size_t bytes)
{
    plain(from, bytes, false);
    plain(to, bytes, true);
    return memcpy(to, from, bytes);
}

void *weak_set(void *to, int value, size_t bytes)
{
    plain(to, bytes, true);
    return memset(to, value, bytes);
}

/* --- atomic accesses --- */

static bool acquires(int order)
{
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST ||
           order == __ATOMIC_CONSUME;
}

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

/* What the object has when it is first seen was stored before all. */
static unsigned object_at(const volatile void *address, uint64_t value)
{
    unsigned at = 0;
    while (at < weak.objects_count && weak.objects[at].address != (uintptr_t)address)
        at++;
    if (at < weak.objects_count) return at;
    if (at == OBJECTS_MAX) give_up("too many objects");
    struct object *object = &weak.objects[weak.objects_count++];
    object->address = (uintptr_t)address;
    object->stores_count = 1;
    object->oldest_seq_cst = 0;
    object->stores[0] = (struct store){.value = value};
    return at;
}

static uint64_t load(unsigned at, bool latest, int order)
{
    struct object *object = &weak.objects[at];
    struct view *view = &self()->view;
    unsigned oldest = view->oldest[at], newest = object->stores_count - 1u;
    if (order == __ATOMIC_SEQ_CST && object->oldest_seq_cst > oldest)
        oldest = object->oldest_seq_cst;
    const unsigned found = latest ? newest : newest - choose(newest - oldest + 1);
    view->oldest[at] = (uint16_t)found;
    join(acquires(order) ? view : &self()->acquires, &object->stores[found].gives);
    return object->stores[found].value;
}

/* `follows`: part of an exchange, which hands on what the store before it gives. */
static void put(unsigned at, uint64_t value, bool follows, int order)
{
    struct object *object = &weak.objects[at];
    struct thread *thread = self();
    if (object->address == (uintptr_t)weak.program->weakened) order = __ATOMIC_RELAXED;
    if (object->stores_count == STORES_MAX) give_up("too many stores");
    struct store *store = &object->stores[object->stores_count];
    thread->view.oldest[at] = object->stores_count++;
    *store = (struct store){value, releases(order) ? thread->view : thread->released};
    store->gives.oldest[at] = thread->view.oldest[at];
    if (follows) join(&store->gives, &store[-1].gives);
    if (order == __ATOMIC_SEQ_CST) object->oldest_seq_cst = thread->view.oldest[at];
    thread->view.clock[weak.current]++;
}

static void fence(int order)
{
    struct thread *thread = self();
    if (weak.program->without_fences) return;
    if (acquires(order)) join(&thread->view, &thread->acquires);
    if (order == __ATOMIC_SEQ_CST) {
        join(&thread->view, &weak.fences);
        weak.fences = thread->view;
    }
    if (releases(order)) thread->released = thread->view;
    thread->view.clock[weak.current]++;
}

/* --- what GCC calls --- */

#define PLAIN(bytes)                                   \
    void __tsan_read##bytes(void *address);            \
    void __tsan_write##bytes(void *address);           \
    void __tsan_unaligned_read##bytes(void *address);  \
    void __tsan_unaligned_write##bytes(void *address); \
    void __tsan_read##bytes(void *address)             \
    {                                                  \
        plain(address, bytes, false);                  \
    }                                                  \
    void __tsan_write##bytes(void *address)            \
    {                                                  \
        plain(address, bytes, true);                   \
    }                                                  \
    void __tsan_unaligned_read##bytes(void *address)   \
    {                                                  \
        plain(address, bytes, false);                  \
    }                                                  \
    void __tsan_unaligned_write##bytes(void *address)  \
    {                                                  \
        plain(address, bytes, true);                   \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes)
{
    plain(address, bytes, false);
}
void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes)
{
    plain(address, bytes, true);
}
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    if (weak.is_running) fence(order);
}

/* Before the threads begin, and after they have ended, memory is what it is. */
#define ATOMIC(bits, type)                                                                   \
    type __tsan_atomic##bits##_load(const volatile type *object, int order);                 \
    void __tsan_atomic##bits##_store(volatile type *object, type value, int order);          \
    type __tsan_atomic##bits##_exchange(volatile type *object, type value, int order);       \
    type __tsan_atomic##bits##_fetch_add(volatile type *object, type value, int order);      \
    type __tsan_atomic##bits##_fetch_or(volatile type *object, type value, int order);       \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *object, type *expected, \
                                                      type value, int order, int failed);    \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *object, type *expected,   \
                                                    type value, int order, int failed);      \
    type __tsan_atomic##bits##_load(const volatile type *object, int order)                  \
    {                                                                                        \
        if (!weak.is_running) return *object;                                                \
        may_switch();                                                                        \
        look((uintptr_t)object, sizeof *object, false, true);                                \
        return (type)load(object_at(object, *object), false, order);                         \
    }                                                                                        \
    void __tsan_atomic##bits##_store(volatile type *object, type value, int order)           \
    {                                                                                        \
        if (weak.is_running) {                                                               \
            may_switch();                                                                    \
            look((uintptr_t)object, sizeof *object, true, true);                             \
            put(object_at(object, *object), value, false, order);                            \
        }                                                                                    \
        *object = value;                                                                     \
    }                                                                                        \
    static type change##bits(volatile type *object, type value, char how, int order)         \
    {                                                                                        \
        type before = *object;                                                               \
        if (weak.is_running) {                                                               \
            may_switch();                                                                    \
            look((uintptr_t)object, sizeof *object, true, true);                             \
            before = (type)load(object_at(object, *object), true, order);                    \
        }                                                                                    \
        if (how == '+') value = (type)(before + value);                                      \
        if (how == '|') value = (type)(before | value);                                      \
        if (weak.is_running) put(object_at(object, *object), value, true, order);            \
        *object = value;                                                                     \
        return before;                                                                       \
    }                                                                                        \
    type __tsan_atomic##bits##_exchange(volatile type *object, type value, int order)        \
    {                                                                                        \
        return change##bits(object, value, '=', order);                                      \
    }                                                                                        \
    type __tsan_atomic##bits##_fetch_add(volatile type *object, type value, int order)       \
    {                                                                                        \
        return change##bits(object, value, '+', order);                                      \
    }                                                                                        \
    type __tsan_atomic##bits##_fetch_or(volatile type *object, type value, int order)        \
    {                                                                                        \
        return change##bits(object, value, '|', order);                                      \
    }                                                                                        \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *object, type *expected, \
                                                      type value, int order, int failed)     \
    {                                                                                        \
        if (weak.is_running) may_switch();                                                   \
        const bool same = *object == *expected;                                              \
        if (weak.is_running) {                                                               \
            look((uintptr_t)object, sizeof *object, same, true);                             \
            load(object_at(object, *object), true, same ? order : failed);                   \
            if (same) put(object_at(object, *object), value, true, order);                   \
        }                                                                                    \
        *expected = *object;                                                                 \
        if (same) *object = value;                                                           \
        return same;                                                                         \
    }                                                                                        \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *object, type *expected,   \
                                                    type value, int order, int failed)       \
    {                                                                                        \
        return __tsan_atomic##bits##_compare_exchange_strong(object, expected, value, order, \
                                                             failed);                        \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

/* --- runs --- */

static void run_once(void)
{
    const struct weak_program *program = weak.program;
    unsigned threads[WEAK_THREADS_MAX], count;
    program->begin();
    while (weak.granules_count > 0)
        weak.granules[weak.granules_used[--weak.granules_count]] = (struct granule){0};
    memset(weak.threads, 0, sizeof weak.threads);
    memset(&weak.fences, 0, sizeof weak.fences);
    weak.objects_count = weak.choices_count = 0;
    weak.switches_left = program->switches;
    weak.wrong = NULL;
    for (unsigned i = 0; i < program->threads_count; i++) {
        ucontext_t *context = &weak.threads[i].context;
        getcontext(context);
        context->uc_stack.ss_sp = weak.stacks[i];
        context->uc_stack.ss_size = STACK_BYTES;
        makecontext(context, thread_main, 0);
    }
    unsigned latest = WEAK_THREADS_MAX;
    while ((count = able(threads)) > 0 && !weak.wrong) {
        /* Whoever has just left does not go on at once, if there is another one. */
        unsigned others = 0;
        for (unsigned i = 0; i < count; i++)
            if (threads[i] != latest) threads[others++] = threads[i];
        latest = weak.current = others ? threads[choose(others)] : latest;
        weak.is_running = true;
        swapcontext(&weak.main, &self()->context);
        weak.is_running = false;
    }
    if (!weak.wrong) weak.wrong = program->end();
}

struct weak_result weak_run(const struct weak_program *program)
{
    struct weak_result result = {0, NULL};
    weak.program = program;
    weak.choices_known = 0;
    do {
        run_once();
        result.runs++;
        result.wrong = weak.wrong;
    } while (!result.wrong && next_choices());
    return result;
}
