/* races_test - the capture core under ThreadSanitizer, over a fake system.
 *
 *   races_test [SEED]    one run, or some; each in a process of its own
 *
 * Threads of a program allocate, free, hand objects to each other, begin and end, while another one
 * pauses the recording, ends it and begins the next. They are real threads, but take turns as the
 * seed has it, so that a run is repeatable; ThreadSanitizer sees nothing of the turns (fake_os.h).
 * It knows which accesses are ordered by the core's own atomics, in the terms of C11, and by what
 * orders them in any program: the lock of the allocator, and how objects come from thread to thread.
 * Everything else is a race, also where a processor would never show it. What it does not know are
 * fences; so what needs one is atomic on both sides.
 *
 * Compiled with RACES_OPAQUE the allocator is one of which nothing is known but addresses. The fast
 * paths are those of the front ends, in short. */
#include "tests/fake_os.h"

#include "common/call_kind.h"
#include "tracing/core/capture.h"
#include "tracing/core/recording_begin.h"
#include "tracing/recording/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before the run begins there is no environment. */
extern char **capture_environ;
char **capture_environ;

#ifdef RACES_OPAQUE
#define IS_OPAQUE true
#else
#define IS_OPAQUE false
#endif

enum {
    PROGRAM_THREADS = 3, /* at a time */
    PROGRAM_THREADS_MAX = 16,
    RECORDINGS_MAX = 40,
    STEPS = 4000,
    OBJECTS = 48,
    MAILBOXES = 8,
    RUNS = 6,
    RUNS_LONG = 200
};

static void fail(const char *what)
{
    printf("# %s\n# said: %s\n", what, fake_messages());
    fflush(stdout);
    fake_exit(1);
}

/* Of one thread. */
struct random {
    uint64_t state;
};

static uint32_t below(struct random *random, uint32_t limit)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random->state >> 33) % limit;
}

/* --- the allocator --- */

#define HEAP_BYTES (UINT64_C(1) << 20)

static uint8_t *heap;
static uint32_t heap_lock;

static void lock(void)
{
    while (atomic_exchange_acquire(&heap_lock, 1))
        fake_sleep(1000);
}

static void unlock(void)
{
    atomic_store_release(&heap_lock, 0);
}

static void heap_begin(void)
{
    heap = mmap(NULL, HEAP_BYTES + SHADOW_PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) fail("no heap");
    heap += -(uintptr_t)heap % SHADOW_PAGE_BYTES;
}

struct object {
    void *address;
    size_t bytes;
};

struct thread {
    struct random random;
    struct object objects[OBJECTS];
    void *cache; /* if there is one */
};

#ifdef RACES_OPAQUE

/* Splits and merges: any free bytes will do. */
#define CELL_BYTES 16
#define CELLS      (HEAP_BYTES / CELL_BYTES / 16) /* on few pages */
static bool used[CELLS];

static size_t cells_in(size_t bytes)
{
    return bytes ? (bytes + CELL_BYTES - 1) / CELL_BYTES : 1;
}

static void *take_bytes(struct thread *thread, size_t bytes)
{
    const size_t count = cells_in(bytes);
    void *object = NULL;
    lock();
    for (unsigned tries = 0; tries < 50 && !object; tries++) {
        size_t at = below(&thread->random, (uint32_t)(CELLS - count)), i = 0;
        while (i < count && !used[at + i])
            i++;
        if (i < count) continue;
        memset(used + at, 1, count);
        object = heap + at * CELL_BYTES;
    }
    unlock();
    return object;
}

static void give_bytes(const void *object, size_t bytes)
{
    lock();
    memset(used + ((const uint8_t *)object - heap) / CELL_BYTES, 0, cells_in(bytes));
    unlock();
}

static bool covers_heap(void)
{
    return true;
}

/* As in preload.c. */
static bool allocated_fast(unsigned kind, size_t size, const void *object)
{
    struct malloctape_lane *lane = malloctape_lane;
    uint64_t head = atomic_load_relaxed(&lane->units.head);
    if (head >= atomic_load_operand(&lane->units.limit) ||
        size >= units_code_of(&lane->units, kind)->size_limit ||
        !shadow_covers_next(&lane->units.region, object))
        return false;
    struct shadow_page *page = shadow_page_in(lane->units.window, object);
    uint32_t place = shadow_granule_place(page, object);
    if (!place) return false;
    uint16_t *at = lane->units.owners + place, owner = lane->units.owner;
    if (atomic_load_relaxed(&page->alone) == owner)
        atomic_store_relaxed(at, owner);
    else if (!shadow_had_bytes(page, at, object, size, owner))
        return false;
    units_fast_opaque_allocation(&lane->units, units_head_cursor(head), kind, size, place);
    return true;
}

static struct object allocate(struct thread *thread, size_t bytes)
{
    const unsigned kind = CALL_MALLOC;
    struct object object = {take_bytes(thread, bytes), bytes};
    if (object.address && allocated_fast(kind, bytes, object.address)) return object;
    if (malloctape_ready()) {
        malloctape_opaque_allocated(kind, bytes, 0, object.address);
    } else {
        malloctape_unrecorded();
        if (object.address && !malloctape_is_off())
            malloctape_opaque_allocated_unrecorded(object.address);
    }
    return object;
}

static bool freed_fast(unsigned kind, const void *object)
{
    struct malloctape_lane *lane = malloctape_lane;
    uint64_t head = atomic_load_relaxed(&lane->units.head);
    if (head >= atomic_load_operand(&lane->units.limit) ||
        !shadow_covers_next(&lane->units.region, object))
        return false;
    uint32_t place = shadow_granule_place(shadow_page_in(lane->units.window, object), object);
    if (!place) return false;
    uint16_t owner = atomic_load_relaxed(lane->units.owners + place);
    if ((owner & (SHADOW_SURE - 1)) != lane->units.owner) return false;
    return units_fast_opaque_free(&lane->units, units_head_cursor(head), kind, place, false, 0);
}

static void release(struct thread *thread, struct object object)
{
    (void)thread;
    if (!freed_fast(CALL_FREE, object.address)) {
        if (malloctape_ready())
            malloctape_opaque_freeing(CALL_FREE, object.address, 0, 0);
        else
            malloctape_unrecorded();
    }
    give_bytes(object.address, object.bytes);
}

static void resize(struct thread *thread, struct object *object)
{
    struct malloctape_ending ending;
    const size_t bytes = 1 + below(&thread->random, 400);
    const bool announced = malloctape_ready() && malloctape_reallocating(object->address, &ending);
    if (!announced) malloctape_unrecorded();
    struct object moved = {object->address, bytes};
    if (cells_in(bytes) > cells_in(object->bytes) || below(&thread->random, 2)) {
        moved.address = take_bytes(thread, bytes);
        if (moved.address) give_bytes(object->address, object->bytes);
    } else if (cells_in(bytes) < cells_in(object->bytes)) {
        const size_t kept = cells_in(bytes) * CELL_BYTES;
        give_bytes((uint8_t *)object->address + kept, object->bytes - kept);
    }
    if (announced)
        malloctape_reallocated_from(&ending, bytes, moved.address);
    else if (moved.address && !malloctape_is_off())
        malloctape_opaque_allocated_unrecorded(moved.address);
    if (moved.address) *object = moved;
}

static void leave_cache(struct thread *thread)
{
    (void)thread;
}

static size_t usable_bytes(const void *object)
{
    (void)object;
    return 512;
}

static uint8_t rounding(void)
{
    return 8;
}

#else

/* Lists of objects of one size, some in each thread's cache; pages of objects of one size. */
#define CLASSES    4
#define CACHED_MAX 12
#define PAGES      (HEAP_BYTES / SHADOW_PAGE_BYTES)

static const uint32_t class_sizes[CLASSES] = {0, 16, 64, 512}; /* 0: a page each */

struct list {
    void *first;
    unsigned count;
};

struct cache {
    struct list lists[CLASSES];
};

static struct list central[CLASSES];
static uint8_t page_class[PAGES];
static bool page_used[PAGES];

static void *pop(struct list *list)
{
    void **object = list->first;
    list->first = *object;
    list->count--;
    return object;
}

static void push(struct list *list, void *object)
{
    *(void **)object = list->first;
    list->first = object;
    list->count++;
}

static uintptr_t page_number(size_t page)
{
    return ((uintptr_t)heap >> SHADOW_PAGE_BITS) + page;
}

static size_t page_of(const void *object)
{
    return (size_t)((const uint8_t *)object - heap) / SHADOW_PAGE_BYTES;
}

static size_t take_page(unsigned size_class)
{
    size_t page = 0;
    while (page < PAGES && page_used[page])
        page++;
    if (page == PAGES) fail("the heap is full");
    page_used[page] = true;
    page_class[page] = (uint8_t)size_class;
    return page;
}

static void populate(unsigned size_class)
{
    size_t page = take_page(size_class);
    if (!shadow_open_pages(page_number(page), 1, class_sizes[size_class], size_class))
        malloctape_out_of_memory();
    for (size_t at = 0; at < SHADOW_PAGE_BYTES; at += class_sizes[size_class])
        push(&central[size_class], heap + page * SHADOW_PAGE_BYTES + at);
}

static bool covers_heap(void)
{
    bool covered = shadow_cover((uintptr_t)heap, HEAP_BYTES);
    lock();
    for (size_t page = 0; page < PAGES && covered; page++)
        if (page_used[page] && page_class[page])
            covered = shadow_open_pages(page_number(page), 1, class_sizes[page_class[page]],
                                        page_class[page]);
    unlock();
    return covered;
}

static unsigned class_of(size_t bytes)
{
    for (unsigned i = 1; i < CLASSES; i++)
        if (bytes <= class_sizes[i]) return i;
    return 0;
}

static uint32_t class_of_size(uint64_t bytes)
{
    return class_of(bytes);
}

static uint64_t class_bytes(unsigned size_class)
{
    return class_sizes[size_class];
}

static void announce_cache(const void *announced)
{
    const struct cache *cache = announced;
    for (unsigned i = 1; i < CLASSES; i++)
        malloctape_cached(cache, i, cache->lists[i].first, cache->lists[i].count);
}

static struct cache *cache_of(struct thread *thread)
{
    if (!thread->cache) thread->cache = calloc(1, sizeof(struct cache));
    if (!thread->cache) fail("no memory");
    return thread->cache;
}

/* From the lists that threads share. */
static void *fetch(struct thread *thread, unsigned size_class)
{
    struct list fetched = {NULL, 0};
    lock();
    malloctape_sequence(size_class);
    while (central[size_class].count < CACHED_MAX)
        populate(size_class);
    for (unsigned i = 1 + below(&thread->random, CACHED_MAX); i > 0; i--)
        push(&fetched, pop(&central[size_class]));
    unlock();
    malloctape_cached(thread->cache, size_class, fetched.first, fetched.count);
    void *object = pop(&fetched);
    cache_of(thread)->lists[size_class] = fetched;
    return object;
}

static void *take_object(struct thread *thread, unsigned size_class, bool recorded)
{
    struct malloctape_lane *lane = malloctape_lane;
    void *object;
    if (recorded) lane->units.allocating = 1;
    if (size_class == 0) {
        lock();
        malloctape_sequence(RAW_STRUCTURE_PAGE_HEAP);
        object = heap + take_page(0) * SHADOW_PAGE_BYTES;
        unlock();
    } else {
        struct list *list = &cache_of(thread)->lists[size_class];
        object = list->count ? pop(list) : fetch(thread, size_class);
    }
    if (recorded) lane->units.allocating = 0;
    return object;
}

static void give_some(struct thread *thread, unsigned size_class, unsigned count)
{
    struct list *list = &cache_of(thread)->lists[size_class];
    malloctape_uncached(thread->cache, size_class, count);
    lock();
    malloctape_sequence(size_class);
    while (count-- > 0)
        push(&central[size_class], pop(list));
    unlock();
}

static void give_object(struct thread *thread, void *object)
{
    const unsigned size_class = page_class[page_of(object)];
    if (size_class == 0) {
        lock();
        malloctape_sequence(RAW_STRUCTURE_PAGE_HEAP);
        shadow_close(page_number(page_of(object)), 1, 0);
        page_used[page_of(object)] = false;
        unlock();
        return;
    }
    struct list *list = &cache_of(thread)->lists[size_class];
    push(list, object);
    if (list->count > CACHED_MAX) give_some(thread, size_class, 1 + list->count / 2);
}

static bool is_fast(const struct thread *thread)
{
    const struct malloctape_lane *lane = malloctape_lane;
    return malloctape_lane_is_fast(lane) && lane->units.cache == thread->cache;
}

static void open_page(const void *object)
{
    const unsigned size_class = page_class[page_of(object)];
    if (shadow_covers(object) && !shadow_is_open(shadow_page_of(object)))
        shadow_open(object, class_sizes[size_class], size_class);
}

/* As in tracing_tcmalloc.cc. */
static struct object allocate(struct thread *thread, size_t bytes)
{
    struct malloctape_lane *lane = malloctape_lane;
    const unsigned size_class = class_of(bytes), kind = CALL_MALLOC;
    struct object object = {NULL, bytes};
    if (is_fast(thread) && size_class && cache_of(thread)->lists[size_class].count &&
        bytes < units_code_of(&lane->units, kind)->size_limit) {
        object.address = pop(&cache_of(thread)->lists[size_class]);
        units_fast_allocation(&lane->units, units_cursor(&lane->units), kind, bytes);
        return object;
    }
    const bool recorded = malloctape_ready();
    if (!recorded) malloctape_unrecorded();
    object.address = take_object(thread, size_class, recorded);
    if (recorded) {
        open_page(object.address);
        malloctape_allocated(kind, bytes, 0, object.address, size_class != 0);
        malloctape_thread_cache_is(thread->cache);
    } else if (!malloctape_is_off()) {
        malloctape_unrecorded();
        malloctape_allocated_unrecorded(object.address);
    }
    return object;
}

static bool freed_fast(const struct thread *thread, unsigned kind, const void *object)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!is_fast(thread)) return false;
    const struct shadow_page *page = shadow_page_in(lane->units.window, object);
    uint32_t place = shadow_place(page, object);
    return page->size_class && malloctape_lane_has(lane, page, place) &&
           units_fast_free(&lane->units, units_cursor(&lane->units), kind, place, false, 0);
}

static void release(struct thread *thread, struct object object)
{
    if (!freed_fast(thread, CALL_FREE, object.address) &&
        !malloctape_remote_freeing(CALL_FREE, object.address, false, 0)) {
        if (malloctape_ready())
            malloctape_freeing(CALL_FREE, object.address, 0, 0);
        else
            malloctape_unrecorded();
    }
    give_object(thread, object.address);
}

static void resize(struct thread *thread, struct object *object)
{
    const size_t bytes = 1 + below(&thread->random, 400);
    const bool recorded = malloctape_ready();
    if (!recorded) malloctape_unrecorded();
    struct object old = *object;
    *object = (struct object){take_object(thread, class_of(bytes), recorded), bytes};
    if (recorded) {
        open_page(object->address);
        malloctape_reallocated(CALL_REALLOC_MOVED, old.address, bytes, object->address, true);
    } else if (!malloctape_is_off()) {
        malloctape_allocated_unrecorded(object->address);
    }
    give_object(thread, old.address);
}

static void leave_cache(struct thread *thread)
{
    if (!thread->cache) return;
    malloctape_thread_cache_deleted();
    for (unsigned i = 1; i < CLASSES; i++)
        if (cache_of(thread)->lists[i].count)
            give_some(thread, i, cache_of(thread)->lists[i].count);
    free(thread->cache);
    thread->cache = NULL;
}

#endif

static uint64_t heap_bytes(void)
{
    return HEAP_BYTES;
}

static void divert(void) {}

static const char *const no_settings[] = {NULL};
const struct malloctape_front_end malloctape_front_end = {
    .allocator = "none",
    .settings = no_settings,
    .heap_bytes = heap_bytes,
    .cover_heap = covers_heap,
    .divert = divert,
    .opaque = IS_OPAQUE,
#ifdef RACES_OPAQUE
    .usable_bytes = usable_bytes,
    .rounding = rounding,
#else
    .announce_cache = announce_cache,
    .class_bytes = class_bytes,
    .class_of_size = class_of_size,
#endif
};

/* --- the program --- */

/* An object that is handed over; who takes it has it. */
struct parcel {
    struct object object;
};
static struct parcel *mailboxes[MAILBOXES];

static struct thread threads[PROGRAM_THREADS_MAX];
static uint32_t threads_begun, threads_ended;

static void hand_over(struct thread *thread, struct object *object)
{
    struct parcel *parcel = NULL;
    if (object->address) {
        parcel = malloc(sizeof *parcel);
        if (!parcel) fail("no memory");
        parcel->object = *object;
    }
    parcel = atomic_exchange_acq_rel(&mailboxes[below(&thread->random, MAILBOXES)], parcel);
    *object = parcel ? parcel->object : (struct object){NULL, 0};
    free(parcel);
}

static void begin_thread(void);

static void step(struct thread *thread)
{
    struct object *object = &thread->objects[below(&thread->random, OBJECTS)];
    const uint32_t what = below(&thread->random, 32);
    if (what < 2)
        hand_over(thread, object);
    else if (!object->address)
        *object = allocate(thread, below(&thread->random, 64) ? below(&thread->random, 200)
                                                              : below(&thread->random, 3000));
    else if (what == 2)
        resize(thread, object);
    else {
        release(thread, *object);
        object->address = NULL;
    }
    if (what == 3 && malloctape_ready()) malloctape_freed_nothing();
    if (below(&thread->random, 16) == 0) fake_yield();
    if (below(&thread->random, 1000) == 0) fake_sleep(below(&thread->random, 1000000));
}

static void thread_main(void *argument)
{
    struct thread *thread = argument;
    for (unsigned i = 0; i < STEPS; i++)
        step(thread);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (thread->objects[i].address) release(thread, thread->objects[i]);
    leave_cache(thread);
    if (below(&thread->random, 2) && malloctape_lane != &recording_no_lane)
        lane_end(recording.registry, malloctape_lane);
    begin_thread();
    atomic_add_acq_rel(&threads_ended, 1);
}

/* In place of one that ends; the last ones have none. */
static void begin_thread(void)
{
    const uint32_t number = atomic_add_relaxed(&threads_begun, 1);
    if (number >= PROGRAM_THREADS_MAX) {
        atomic_add_relaxed(&threads_begun, -1);
        return;
    }
    threads[number].random.state = fake_random();
    fake_fiber_start(thread_main, &threads[number]);
}

/* What may come from outside at any time. */
static void interfere(struct random *random)
{
    static struct watch_counts counts;
    static unsigned begun;
    struct recording_status status;
    switch (below(random, 8)) {
    case 0: recording_pause(); break;
    case 1:
    case 2: recording_resume(); break;
    case 3: recording_sync(); break;
    case 4: recording_end(); break;
    case 5:
        if (begun++ < RECORDINGS_MAX) recording_reset(NULL);
        break;
    case 6:
        if (begun++ < RECORDINGS_MAX) recording_begin(NULL);
        break;
    default:
        recording_look(&status);
        if (status.is_recording) writer_watch(&recording.writer, &counts);
    }
}

static void control_main(void *argument)
{
    struct random random = {fake_random()};
    (void)argument;
    while (atomic_load_acquire(&threads_ended) < atomic_load_relaxed(&threads_begun)) {
        fake_sleep(1 + below(&random, 400000));
        interfere(&random);
    }
    _exit(0);
}

static void run(uint64_t seed)
{
    const struct fake_plan plan = {.seed = seed};
    fake_os_begin(&plan);
    heap_begin();
    setenv("TCMALLOC_TRACE_OUTPUT", "/d/raw.%p", 1);
    if (seed % 3 == 1) setenv("TCMALLOC_TRACE_STACKS", "all", 1);
    if (seed % 3 == 2) setenv("TCMALLOC_TRACE_ON_OVERLOAD", "lose", 1);
    capture_environ = __environ;
    for (unsigned i = 0; i < PROGRAM_THREADS; i++)
        begin_thread();
    fake_fiber_start(control_main, NULL);
    if (fake_os_run() != FAKE_ENDED) fail("hangs");
    if (!strstr(fake_messages(), " events")) fail("nothing was recorded");
    fake_exit(0);
}

static bool run_apart(uint64_t seed)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) run(seed);
    if (waitpid(child, &status, 0) == child && status == 0) return true;
    printf("# seed %llu: status %d\n", (unsigned long long)seed, status);
    return false;
}

/* Of ThreadSanitizer. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "halt_on_error=1 exitcode=66 history_size=4";
}

int main(int count, char **words)
{
    const unsigned runs = getenv("MALLOCTAPE_LONG") ? RUNS_LONG : RUNS;
    bool good = true;
    if (count > 1) return run_apart(strtoull(words[1], NULL, 10)) ? 0 : 1;
    for (unsigned seed = 1; seed <= runs && good; seed++)
        good = run_apart(seed);
    fflush(stdout);
    fake_exit(good ? 0 : 1);
}
