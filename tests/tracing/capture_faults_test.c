/* capture_faults_test - the capture core over a system in which every call fails, in every way it
 * can.
 *
 *   capture_faults_test              each call failing, one by one, RUNS (MALLOCTAPE_RUNS) runs by
 *                                    chance, plans that are kept; TAP
 *   capture_faults_test one PLAN     one run, as a failure prints it
 *
 * A run is a program of a few threads that allocate, from caches of their own, in a process of its
 * own. Whatever fails: it does not crash, nobody waits for ever, at most one line is said. What is
 * recorded is compared with what was done, call by call: a stream that claims to be complete has
 * every call; otherwise stream and spool together have every call that had returned, unless
 * recording never began. Each end is of the object that really ended. If call stacks are recorded,
 * what a record names is defined, and its frames are those that were there; where nothing fails, each
 * allocation has all of them. Where recording never began, what was there before is there still. */
#include "tests/fake_os.h"

#include "common/call_kind.h"
#include "stream/raw_decoder.h"
#include "stream/spool_reader.h"
#include "stream/stacks.h"
#include "tracing/core/capture.h"
#include "tracing/os/os.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/call_stack.h"
#include "tracing/stacks/unwind.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before the run begins there is no environment, so that no recording starts with this program. */
extern char **capture_environ;
char **capture_environ;

/* NAMED: a name with %p, which another process takes in the last moment. */
enum scenario { OVER_NOTHING, OVER_OLDER, NAMED, FIFO, COMMAND, SCENARIOS };

static const char *const scenario_names[SCENARIOS] = {"file", "older", "named", "fifo", "command"};
static const char *const outputs[SCENARIOS] = {"/d/raw", "/d/raw", "/d/raw.%p", "/d/fifo",
                                               "|command"};

static const char older_stream[] = "an older recording";
static const char older_spool[] = "and its spool";
/* Of the fake system only. */
static const char other_program[] = "/d/other";
static const char others_stream[] = "a recording of another process";
/* What may still be called so, and what is called so then. */
static const char others_name[] = "/d/raw.4242", next_name[] = "/d/raw.4242.2";

enum stacks_of { OF_NONE, OF_SOME, OF_ALLOCATIONS, OF_ALL, STACKS_OF };

static const char *const stacks_names[STACKS_OF] = {"none", "some", "allocations", "all"};
static const char *const stacks_settings[STACKS_OF] = {"0", "2k", "all", "all,frees"};

struct run {
    enum scenario scenario;
    enum stacks_of stacks;
    struct fake_plan plan;
    bool loses;       /* rather than wait for the writer */
    bool count_calls; /* print how often each was made */
    bool tell;        /* print what was said */
    bool refuses;     /* there is often no room for a stack */
    bool execs;       /* the program tries to become another one before it ends, and cannot */
};

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("# ", stdout);
    vprintf(format, arguments);
    printf("\n# said: %s", *fake_messages() ? fake_messages() : "nothing\n");
    fflush(stdout);
    fake_exit(1);
}

/* --- the heap of the program: pages of objects of one size, lists of those that are free --- */

#define HEAP_BYTES  (UINT64_C(32) << 20)
#define PAGES       (HEAP_BYTES >> SHADOW_PAGE_BITS)
#define OBJECTS_MAX 2000000
#define THREADS_MAX 4
#define STRUCTURES  5 /* the first ones, and the page heap */
#define CLASSES     5 /* of sizes; the first is of objects that have a page of their own */
#define CACHED_MAX  40

static const uint32_t class_sizes[CLASSES] = {0, 16, 48, 64, 512};

/* An object to be freed: the first word of one that is free is where the next one is. */
struct object {
    void *address; /* NULL: none */
    uint32_t id; /* how many objects there were before; an object that is resized is another one */
};

struct list {
    void *first;
    unsigned count;
};

enum { PAGE_FREE = 0, PAGE_USED };

static uint8_t *heap;
static struct {
    uint8_t state, size_class;
    uint16_t free; /* objects that are in the list of the class */
} pages[PAGES];
static struct list central[CLASSES];
static uint32_t objects_count;
static bool page_heap_is_locked;
static unsigned page_objects_max; /* if it is one, pages are often given back */

static void heap_begin(void)
{
    heap = mmap(NULL, HEAP_BYTES + SHADOW_PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heap == MAP_FAILED) fail("no heap");
    heap += -(uintptr_t)heap % SHADOW_PAGE_BYTES;
}

static uint32_t new_id(void)
{
    if (++objects_count == OBJECTS_MAX) fail("too many objects");
    return objects_count;
}

static void *list_pop(struct list *list)
{
    void *object = list->first;
    memcpy(&list->first, object, sizeof list->first);
    list->count--;
    return object;
}

static void list_push(struct list *list, void *object)
{
    memcpy(object, &list->first, sizeof list->first);
    list->first = object;
    list->count++;
}

static unsigned page_of(const void *object)
{
    return (unsigned)(((const uint8_t *)object - heap) >> SHADOW_PAGE_BITS);
}

static uintptr_t page_number(unsigned page)
{
    return ((uintptr_t)heap >> SHADOW_PAGE_BITS) + page;
}

static void lock_page_heap(void)
{
    while (page_heap_is_locked)
        fake_sleep(1000);
    page_heap_is_locked = true;
}

static void unlock_page_heap(void)
{
    page_heap_is_locked = false;
}

/* Rather one that has been used before. */
static unsigned take_page(unsigned size_class)
{
    unsigned page, range = 1;
    lock_page_heap();
    do {
        page = fake_random() % range;
        if (range < PAGES) range++;
    } while (pages[page].state != PAGE_FREE);
    pages[page].state = PAGE_USED;
    pages[page].size_class = (uint8_t)size_class;
    unlock_page_heap();
    return page;
}

/* As malloctape_span_deleted() is called. */
static void close_page(unsigned page)
{
    unsigned size_class = pages[page].size_class;
    if (size_class > 0) shadow_close(page_number(page), 1, size_class);
    lock_page_heap();
    shadow_close(page_number(page), 1, size_class);
    pages[page].state = PAGE_FREE;
    unlock_page_heap();
}

static unsigned objects_of_page(unsigned size_class)
{
    unsigned count = (unsigned)SHADOW_PAGE_BYTES / class_sizes[size_class];
    return count < page_objects_max ? count : page_objects_max;
}

/* Others may go on meanwhile, but know nothing of the page. */
static void open_class_page(unsigned page, unsigned size_class)
{
    if (!shadow_open_pages(page_number(page), 1, class_sizes[size_class], size_class))
        malloctape_out_of_memory();
}

static void populate(unsigned size_class)
{
    unsigned page = take_page(size_class), count = objects_of_page(size_class);
    open_class_page(page, size_class);
    for (unsigned i = 0; i < count; i++)
        list_push(&central[size_class],
                  heap + page * SHADOW_PAGE_BYTES + (size_t)i * class_sizes[size_class]);
    pages[page].free = (uint16_t)count;
}

static void *central_pop(unsigned size_class)
{
    void *object = list_pop(&central[size_class]);
    pages[page_of(object)].free--;
    return object;
}

/* All of a page's objects are in the list, which it leaves. */
static void give_page_back(unsigned page)
{
    struct list *list = &central[pages[page].size_class], kept = {NULL, 0};
    while (list->count > 0) {
        void *object = list_pop(list);
        if (page_of(object) != page) list_push(&kept, object);
    }
    *list = kept;
    pages[page].free = 0;
    close_page(page);
}

static void central_push(unsigned size_class, void *object)
{
    unsigned page = page_of(object);
    list_push(&central[size_class], object);
    if (++pages[page].free == objects_of_page(size_class) && fake_random() % 4 == 0)
        give_page_back(page);
}

/* --- what the front end tells --- */

/* What a thread has for itself. */
struct cache {
    struct list lists[CLASSES];
};

static uint64_t heap_bytes(void)
{
    return HEAP_BYTES;
}

static bool cover_pages(void)
{
    if (!shadow_cover((uintptr_t)heap, HEAP_BYTES)) return false;
    for (unsigned page = 0; page < PAGES; page++) {
        unsigned size_class = pages[page].size_class;
        if (pages[page].state != PAGE_USED || size_class == 0) continue;
        fake_yield();
        if (!shadow_open_pages(page_number(page), 1, class_sizes[size_class], size_class))
            return false;
    }
    return true;
}

static bool cover_heap(void)
{
    lock_page_heap();
    bool covered = cover_pages();
    unlock_page_heap();
    return covered;
}

static void divert(void) {}

static void announce_cache(const void *announced)
{
    const struct cache *cache = announced;
    for (unsigned i = 1; i < CLASSES; i++)
        malloctape_cached(cache, i, cache->lists[i].first, cache->lists[i].count);
}

static uint64_t class_bytes(unsigned size_class)
{
    return class_sizes[size_class];
}

static uint32_t class_of_size(uint64_t size)
{
    for (uint32_t i = 1; i < CLASSES; i++)
        if (size <= class_sizes[i]) return i;
    return 0;
}

static const char *const no_settings[] = {NULL};
const struct malloctape_front_end malloctape_front_end = {
    .allocator = "none",
    .settings = no_settings,
    .heap_bytes = heap_bytes,
    .cover_heap = cover_heap,
    .divert = divert,
    .announce_cache = announce_cache,
    .class_bytes = class_bytes,
    .class_of_size = class_of_size,
};

/* --- what was done, by lane --- */

#define LANES_MAX     16
#define EVENTS_MAX    1000000
#define SEQUENCES_MAX 600000

struct event {
    uint8_t number; /* FORMAT.md 3 */
    bool must;      /* it had returned, and recording went on when it began */
    uint32_t structure;
    uint64_t size;
    uint32_t ends, begins; /* what was done: ids of objects; 0: none */
    /* What is recorded. */
    uint32_t ends_place;
    uint64_t bound;  /* raw_allocations() */
    uint64_t serial; /* of the object that begins */
    uint32_t stack;
};

struct events {
    struct event *list;
    size_t count;
};

static struct events done[LANES_MAX];
static bool run_loses, run_execs, run_refuses;

/* Adds to a lane; the event is not one that must be there until it has returned. */
static struct event *event_begins(unsigned lane, struct event event)
{
    struct events *events = &done[lane];
    if (lane >= LANES_MAX || events->count == EVENTS_MAX) fail("too much is done");
    if (!events->list) events->list = malloc(EVENTS_MAX * sizeof *events->list);
    if (!events->list) fail("no memory");
    events->list[events->count] = event;
    return &events->list[events->count++];
}

/* --- the allocator, as its threads use it --- */

struct thread {
    unsigned steps;
    struct cache *cache; /* NULL: it has none */
    struct cache caches[2];
    struct object objects[64];
};

static struct thread threads[THREADS_MAX];
static unsigned threads_count, threads_ended;
/* When the first thread has made so many steps there is an environment, and recording begins. */
static unsigned steps_before;

static unsigned a_structure(void)
{
    unsigned index = fake_random() % STRUCTURES;
    return index == STRUCTURES - 1 ? RAW_STRUCTURE_PAGE_HEAP : index;
}

/* A sequence number may have to wait for a slot. */
static void sequence_some(void)
{
    unsigned count = fake_random() % 4 ? 0 : fake_random() % 4;
    for (unsigned i = 0; i < count; i++) {
        unsigned structure = a_structure();
        struct malloctape_lane *lane = malloctape_lane;
        unsigned number = lane->units.allocating ? RAW_SEQUENCE_BEFORE : RAW_SEQUENCE_AFTER;
        if (lane->slot.room)
            event_begins(lane->registry.number,
                         (struct event){.number = number, .structure = structure});
        malloctape_sequence(structure);
    }
}

/* Some objects from the list that threads share; the first one leaves at once. */
static void *fetch(struct cache *cache, unsigned size_class)
{
    sequence_some();
    while (central[size_class].count == 0)
        populate(size_class);
    struct list fetched = {NULL, 0};
    unsigned wanted = 1 + fake_random() % CACHED_MAX;
    while (fetched.count < wanted && central[size_class].count > 0)
        list_push(&fetched, central_pop(size_class));
    malloctape_cached(cache, size_class, fetched.first, fetched.count);
    void *object = list_pop(&fetched);
    cache->lists[size_class] = fetched;
    return object;
}

static void *allocate_of_class(struct thread *thread, unsigned size_class)
{
    if (size_class == 0) {
        sequence_some();
        return heap + take_page(0) * SHADOW_PAGE_BYTES;
    }
    if (!thread->cache) thread->cache = &thread->caches[fake_random() % 2];
    struct list *list = &thread->cache->lists[size_class];
    return list->count > 0 ? list_pop(list) : fetch(thread->cache, size_class);
}

/* Entries into structures are for the event to come. */
static void *allocate(struct thread *thread, unsigned size_class)
{
    struct malloctape_lane *lane = malloctape_lane;
    lane->units.allocating = 1;
    void *object = allocate_of_class(thread, size_class);
    lane->units.allocating = 0;
    return object;
}

static void release_some(struct cache *cache, unsigned size_class, unsigned count)
{
    if (count == 0) return;
    malloctape_uncached(cache, size_class, count);
    sequence_some();
    for (; count > 0; count--)
        central_push(size_class, list_pop(&cache->lists[size_class]));
}

static void release(struct thread *thread, void *object)
{
    unsigned size_class = pages[page_of(object)].size_class;
    struct cache *cache = thread->cache;
    if (size_class == 0) {
        sequence_some();
        close_page(page_of(object));
    } else if (!cache) {
        sequence_some();
        central_push(size_class, object);
    } else {
        struct list *list = &cache->lists[size_class];
        list_push(list, object);
        if (list->count > CACHED_MAX)
            release_some(cache, size_class, 1 + fake_random() % list->count);
    }
}

static void delete_cache(struct thread *thread)
{
    struct cache *cache = thread->cache;
    if (!cache) return;
    if (malloctape_lane->slot.room)
        event_begins(malloctape_lane->registry.number,
                     (struct event){.number = RAW_THREAD_CACHE_DELETED});
    malloctape_thread_cache_deleted();
    thread->cache = NULL;
    for (unsigned i = 1; i < CLASSES; i++)
        release_some(cache, i, cache->lists[i].count);
}

/* Another one, in which there may be something already. */
static void switch_cache(struct thread *thread)
{
    malloctape_thread_cache_changed();
    thread->cache = &thread->caches[thread->cache == thread->caches];
}

/* Objects of some class leave, as they do when a cache is larger than it may be. */
static void scavenge(struct thread *thread)
{
    unsigned size_class = 1 + fake_random() % (CLASSES - 1);
    if (!thread->cache) return;
    unsigned count = thread->cache->lists[size_class].count;
    release_some(thread->cache, size_class, count ? fake_random() % (count + 1) : 0);
}

/* --- the program's calls, recorded as the front end does it --- */

/* A call that is not recorded although recording goes on; a thread without a lane is counted
 * elsewhere. */
static void event_refused(unsigned begins)
{
    if (run_loses && malloctape_state == MALLOCTAPE_RECORDING &&
        malloctape_lane->registry.recording)
        event_begins(malloctape_lane->registry.number,
                     (struct event){.number = RAW_LOST, .begins = begins});
    malloctape_unrecorded();
}

/* What is told of an object that begins. */
struct told {
    void (*tell)(const struct told *told);
    unsigned kind;
    uint64_t size, alignment;
    const void *old, *object;
    bool taken;
};

static void allocated(const struct told *told)
{
    malloctape_allocated(told->kind, told->size, told->alignment, told->object, told->taken);
}

static void allocated_in_cache(const struct told *told)
{
    malloctape_allocated_in_cache(told->kind, told->size, told->object);
}

static void reallocated(const struct told *told)
{
    malloctape_reallocated(told->kind, told->old, told->size, told->object, told->taken);
}

/* So many calls of one function by itself there are in the stack of what is told. */
static unsigned depth_of(uint64_t size)
{
    return size % 256 == 255 ? 150 : size % 8;
}

/* Puts a stack for which there is no room, and the same one again when there is: it must not count as
 * defined, nor as one that cannot be found. */
static void put_stack_twice(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    const uint16_t *before;
    if (!slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) return;
    before = units_cursor(&lane->units);
    for (volatile unsigned round = 0; round < 2; round++) {
        lane->slot.lost_events = round == 0;
        stacks_put(lane);
    }
    if (units_cursor(&lane->units) == before)
        fail("a stack that had no room is not looked for again");
}

static void tell_here(const struct told *told)
{
    if (run_refuses) put_stack_twice();
    told->tell(told);
}

static __attribute__((noinline)) void tell(unsigned depth, const struct told *told)
{
    if (depth > 0)
        tell(depth - 1, told);
    else
        tell_here(told);
    __asm__ volatile(""); /* this is no tail call */
}

/* Makes sure that a new object has a place. */
static void open_page(const void *object)
{
    if (shadow_is_open(shadow_page_of(object))) return;
    unsigned size_class = pages[page_of(object)].size_class;
    shadow_open(object, class_sizes[size_class], size_class);
}

/* An event that has been recorded must be there, if nobody can have ended the recording meanwhile,
 * not even its own call, which may find no slot and no writer when it defines its stack: it has not
 * been lost for want of a slot, nor because the object that begins has no place. */
static bool must_be_there(uint64_t switches, const void *begins)
{
    return fake_switches() == switches && malloctape_state == MALLOCTAPE_RECORDING &&
           malloctape_lane->slot.lost_events == 0 &&
           (!begins || shadow_is_open(shadow_page_of(begins)));
}

static bool is_of_class(const void *object, uint64_t size)
{
    unsigned size_class = class_of_size(size);
    return size_class && pages[page_of(object)].size_class == size_class;
}

/* One of 32 million, so that the recording can be compared. */
static uint64_t a_tag(void)
{
    return fake_random() % 2 ? fake_random() >> 7 : fake_random() % 30000;
}

static unsigned a_allocation_kind(void)
{
    static const uint8_t kinds[] = {CALL_MALLOC, CALL_MALLOC, CALL_MALLOC, CALL_CALLOC,
                                    CALL_NEW_ARRAY};
    return kinds[fake_random() % sizeof kinds];
}

/* Whether the lane may write here what it records: the stream follows the cache that the thread
 * has. */
static bool is_fast(const struct thread *thread)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane->units.head >= lane->units.limit) return false;
    if (!lane->units.cache || lane->units.cache != thread->cache)
        fail("the wrong cache is followed");
    return true;
}

static bool allocation_fast(struct thread *thread, struct object *object, unsigned kind,
                            uint64_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!is_fast(thread)) return false;
    struct list *list = &thread->cache->lists[class_of_size(size)];
    if (list->count == 0) return false;
    *object = (struct object){list_pop(list), new_id()};
    struct event *event =
        event_begins(lane->registry.number,
                     (struct event){.number = (uint8_t)kind, .size = size, .begins = object->id});
    uint64_t switches = fake_switches();
    if (size < units_code_of(&lane->units, kind)->size_limit)
        units_fast_allocation(&lane->units, units_cursor(&lane->units), kind, size);
    else
        tell(depth_of(size), &(struct told){.tell = allocated_in_cache,
                                            .kind = kind,
                                            .size = size,
                                            .object = object->address});
    event->must = must_be_there(switches, NULL);
    return true;
}

/* The stream follows the thread's cache, mostly. */
static void look_at_cache(struct thread *thread)
{
    if (fake_random() % 64) malloctape_thread_cache_is(thread->cache);
}

static void allocation(struct thread *thread, struct object *object)
{
    bool large = fake_random() % 32 == 0, aligned = fake_random() % 64 == 0;
    uint64_t size = large ? 513 + (uint64_t)fake_random() : fake_random() % 513;
    unsigned kind = aligned ? CALL_MEMALIGN : a_allocation_kind();
    /* One that is aligned may be taken from where larger ones are. */
    unsigned size_class = aligned && !large ? CLASSES - 1 : class_of_size(size);
    if (!aligned && !large && allocation_fast(thread, object, kind, size)) return;
    *object = (struct object){NULL, new_id()};
    if (!malloctape_ready()) {
        event_refused(object->id);
        object->address = allocate(thread, size_class);
        malloctape_allocated_unrecorded(object->address);
        return;
    }
    uint64_t switches = fake_switches();
    unsigned lane = malloctape_lane->registry.number;
    bool failed = fake_random() % 64 == 0;
    if (!failed) object->address = allocate(thread, size_class);
    if (!failed) open_page(object->address);
    struct event *event =
        event_begins(lane, (struct event){.number = failed ? RAW_FAILED : (uint8_t)kind,
                                          .size = size,
                                          .begins = failed ? 0 : object->id});
    tell(depth_of(size), &(struct told){.tell = allocated,
                                        .kind = kind,
                                        .size = size,
                                        .alignment = aligned ? 64 : 0,
                                        .object = object->address,
                                        .taken = !failed && is_of_class(object->address, size)});
    event->must = must_be_there(switches, object->address);
    look_at_cache(thread);
}

/* A thread leaves its processor in the middle of an event of two units: the second is counted
 * already. */
static void dawdle(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (fake_random() % 512) return;
    lane->units.extra_units++;
    fake_sleep(fake_random() % 30000000);
    lane->units.extra_units--;
}

static bool free_fast(struct thread *thread, struct object *object, unsigned kind, uint64_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!is_fast(thread)) return false;
    const struct shadow_page *page = shadow_page_of(object->address);
    uint32_t place = shadow_place(page, object->address);
    if (!malloctape_lane_has(lane, page, place)) return false;
    if (!units_fast_free(&lane->units, units_cursor(&lane->units), kind, place,
                         kind == CALL_DELETE_SIZED, size))
        return false;
    event_begins(
        lane->registry.number,
        (struct event){.number = (uint8_t)kind, .size = size, .ends = object->id, .must = true});
    return true;
}

static void free_slow(const struct object *object, unsigned kind, uint64_t size)
{
    if (!malloctape_ready()) {
        event_refused(0);
        return;
    }
    uint64_t switches = fake_switches();
    dawdle();
    struct event *event =
        event_begins(malloctape_lane->registry.number,
                     (struct event){.number = (uint8_t)kind, .size = size, .ends = object->id});
    if (!malloctape_remote_freeing(kind, object->address, kind == CALL_DELETE_SIZED, size))
        malloctape_freeing(kind, object->address, size, 0);
    event->must = must_be_there(switches, NULL);
}

static void freeing(struct thread *thread, struct object *object)
{
    static const uint8_t kinds[] = {CALL_FREE, CALL_FREE, CALL_DELETE_SIZED, CALL_CFREE};
    unsigned kind = kinds[fake_random() % sizeof kinds];
    uint64_t size = kind == CALL_DELETE_SIZED ? a_tag() : 0;
    if (!free_fast(thread, object, kind, size)) free_slow(object, kind, size);
    release(thread, object->address);
    object->address = NULL;
}

static bool realloc_fast(struct thread *thread, struct object *object, unsigned kind, uint64_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!is_fast(thread)) return false;
    const struct shadow_page *page = shadow_page_of(object->address);
    uint32_t place = shadow_place(page, object->address);
    bool moves = kind == CALL_REALLOC_MOVED;
    struct list *list = &thread->cache->lists[moves ? class_of_size(size) : 0];
    if (!malloctape_lane_has(lane, page, place) || (moves && list->count == 0) ||
        !units_fast_can_realloc(&lane->units, kind, place, size))
        return false;
    struct object old = *object;
    *object = (struct object){moves ? list_pop(list) : old.address, new_id()};
    units_fast_realloc(&lane->units, units_cursor(&lane->units), kind, place, size);
    event_begins(lane->registry.number, (struct event){.number = (uint8_t)kind,
                                                       .size = size,
                                                       .ends = old.id,
                                                       .begins = object->id,
                                                       .must = true});
    if (moves) release(thread, old.address);
    return true;
}

static void tell_reallocated(const struct object *old, const struct object *new, unsigned kind,
                             uint64_t size, bool taken, uint64_t switches)
{
    struct event *event =
        event_begins(malloctape_lane->registry.number,
                     (struct event){.number = new->address ? (uint8_t)kind : RAW_FAILED,
                                    .size = size,
                                    .ends = old->id,
                                    .begins = new->address ? new->id : 0});
    tell(depth_of(size), &(struct told){.tell = reallocated,
                                        .kind = kind,
                                        .size = size,
                                        .old = old->address,
                                        .object = new->address,
                                        .taken = taken});
    event->must = must_be_there(switches, new->address);
}

static void move(struct thread *thread, struct object *object)
{
    uint64_t size = 1 + fake_random() % 600;
    bool fails = fake_random() % 64 == 0;
    if (!fails && realloc_fast(thread, object, CALL_REALLOC_MOVED, size)) return;
    struct object old = *object, new = {NULL, new_id()};
    if (malloctape_ready()) {
        uint64_t switches = fake_switches();
        if (!fails) new.address = allocate(thread, class_of_size(size));
        if (!fails) open_page(new.address);
        tell_reallocated(&old, &new, CALL_REALLOC_MOVED, size,
                         !fails && is_of_class(new.address, size), switches);
    } else {
        event_refused(new.id);
        if (!fails) new.address = allocate(thread, class_of_size(size));
        if (!fails) malloctape_allocated_unrecorded(new.address);
    }
    if (fails) return;
    release(thread, old.address);
    *object = new;
}

static void resize(struct thread *thread, struct object *object)
{
    uint64_t size = a_tag();
    if (realloc_fast(thread, object, CALL_REALLOC_IN_PLACE, size)) return;
    struct object new = {object->address, new_id()};
    if (malloctape_ready()) {
        uint64_t switches = fake_switches();
        open_page(object->address);
        tell_reallocated(object, &new, CALL_REALLOC_IN_PLACE, size, false, switches);
    } else {
        event_refused(new.id);
        malloctape_allocated_unrecorded(object->address);
    }
    *object = new;
}

static void heap_call(void)
{
    if (!malloctape_ready()) return event_refused(0);
    uint64_t size = a_tag();
    struct event *event = event_begins(malloctape_lane->registry.number,
                                       (struct event){.number = CALL_RELEASE_MEMORY, .size = size});
    malloctape_heap_call(CALL_RELEASE_MEMORY, 1, size, 0);
    event->must = true;
}

/* Far away, where the shadow table has no region yet. */
static void heap_grows(void)
{
    uintptr_t address =
        (uintptr_t)heap - ((uintptr_t)(1 + fake_random() % 64) << SHADOW_REGION_BITS);
    if (malloctape_state == MALLOCTAPE_RECORDING && !shadow_cover(address, SHADOW_PAGE_BYTES))
        malloctape_out_of_memory();
}

/* --- the program --- */

static void seldom(struct thread *thread)
{
    switch (fake_random() % 1024) {
    case 0: delete_cache(thread); break;
    case 1: switch_cache(thread); break;
    case 2:
    case 3: scavenge(thread); break;
    case 4: heap_call(); break;
    case 5: heap_grows(); break;
    case 6: fake_sleep(fake_random() % 30000000); break;
    default: break;
    }
}

static void thread_main(void *argument)
{
    struct thread *thread = argument;
    for (unsigned i = 0; i < thread->steps; i++) {
        if (thread == threads && i == steps_before) capture_environ = __environ;
        /* Objects of others too: not only the own lane's end here. */
        struct thread *owner = fake_random() % 8 ? thread : &threads[fake_random() % threads_count];
        struct object *place = &owner->objects[fake_random() % 64];
        struct object object = *place;
        place->address = NULL; /* nobody else may take it meanwhile */
        unsigned what = fake_random() % 32;
        if (!object.address)
            allocation(thread, &object);
        else if (what < 2)
            move(thread, &object);
        else if (what == 2)
            resize(thread, &object);
        else
            freeing(thread, &object);
        if (object.address && !place->address)
            *place = object;
        else if (object.address)
            freeing(thread, &object);
        if (fake_random() % 64 == 0) fake_yield();
        seldom(thread);
    }
    threads_ended++;
}

static void main_thread(void *argument)
{
    thread_main(argument);
    /* For the others, or at least until one of them has begun the recording. */
    bool waits = fake_random() % 4;
    while (waits ? threads_ended < threads_count
                 : malloctape_state == MALLOCTAPE_UNDECIDED ||
                       malloctape_state == MALLOCTAPE_STARTING)
        fake_sleep(1000000);
    char *const none[] = {NULL};
    if (run_execs && (execve(other_program, none, none) != -1 || errno != ENOENT))
        fail("the exec has not failed");
    _exit(0);
}

static void program_begin(const struct run *run)
{
    heap_begin();
    page_objects_max = fake_random() % 2 ? 1 : UINT_MAX;
    threads_count = 1 + fake_random() % THREADS_MAX;
    /* Long enough to fill all slots that there are at first, if the writer is held up. */
    bool long_life = fake_random() % 16 == 0;
    unsigned longer = run->plan.reader_resumes_ns ? 400000 : 0;
    for (unsigned i = 0; i < threads_count; i++) {
        threads[i].steps = 1 + fake_random() % (fake_random() % 4 ? 3000 : 40000);
        threads[i].steps += longer + (long_life ? 150000 : 0);
        fake_fiber_start(i ? thread_main : main_thread, &threads[i]);
    }
    if (fake_random() % 2) steps_before = fake_random() % threads[0].steps;
}

/* --- what is recorded, by lane --- */

struct recorded {
    bool has_stream, has_spool;
    enum raw_stream_state state;
    uint32_t status; /* of the end */
    struct raw_decoder decoders[LANES_MAX];
    bool begun[LANES_MAX];
    struct events lanes[LANES_MAX];
    uint64_t events; /* calls */
    struct stacks stacks;
    struct {
        uint32_t *places; /* by serial */
        uint64_t count;
    } allocations[LANES_MAX];
};

static struct recorded recorded;

static const char *text_of(const struct error *error)
{
    static char text[512];
    return error_text(error, text, sizeof text);
}

/* Each number of a structure is given once; in a complete recording none is missing. */
static struct {
    uint8_t seen[SEQUENCES_MAX];
    uint32_t highest, count;
} sequences[RAW_STRUCTURES];

static void add_sequence(const struct record *record)
{
    if (record->number != RAW_SEQUENCE_BEFORE && record->number != RAW_SEQUENCE_AFTER) return;
    uint32_t number = (uint32_t)record->size;
    if (number >= SEQUENCES_MAX || sequences[record->structure].seen[number]++)
        fail("structure %u: number %u again", record->structure, number);
    sequences[record->structure].count++;
    if (number > sequences[record->structure].highest)
        sequences[record->structure].highest = number;
}

static void check_sequences(void)
{
    for (unsigned structure = 0; structure < RAW_STRUCTURES; structure++)
        if (sequences[structure].count != sequences[structure].highest)
            fail("structure %u: numbers are missing", structure);
}

static void add_allocation(unsigned lane, const struct record *record)
{
    if (!record->serial) return;
    if (record->serial != recorded.allocations[lane].count + 1) fail("lane %u: a serial", lane);
    if (!recorded.allocations[lane].places)
        recorded.allocations[lane].places = malloc((EVENTS_MAX + 2) * sizeof(uint32_t));
    if (!recorded.allocations[lane].places || record->serial > EVENTS_MAX)
        fail("too many allocations");
    recorded.allocations[lane].places[record->serial] = record->place;
    recorded.allocations[lane].count++;
}

static void add_record(unsigned lane, const struct record *record)
{
    struct events *events = &recorded.lanes[lane];
    if (record->number == RAW_THREAD_BEGIN || record->number == RAW_THREAD_END) return;
    if (record->number == RAW_LOST && !run_loses &&
        !strstr(fake_messages(), "memory for the shadow table"))
        fail("a loss is recorded");
    add_sequence(record);
    add_allocation(lane, record);
    recorded.events += record->number < CALL_KINDS || record->number == RAW_FAILED;
    if (!events->list) events->list = malloc((EVENTS_MAX + 1) * sizeof *events->list);
    if (!events->list || events->count > EVENTS_MAX) fail("lane %u: too many records", lane);
    events->list[events->count++] = (struct event){
        .number = record->number,
        .structure = record->structure,
        .size = record->size,
        .ends_place = record->ends,
        .bound = record->bound,
        .serial = record->serial,
        .stack = record->stack,
    };
}

static const char *define(void *stacks, const struct stack_definition *definition)
{
    return stacks_define(stacks, definition);
}

static void begin_lane(unsigned lane, const struct raw_reader *reader)
{
    struct raw_decoder *decoder = &recorded.decoders[lane];
    if (recorded.begun[lane]) return;
    recorded.begun[lane] = true;
    raw_decoder_init(decoder, lane, (uint32_t)reader->header.features);
    decoder->define = define;
    decoder->define_context = &recorded.stacks;
}

static void add_chunk(const struct raw_reader *reader, struct raw_chunk *chunk)
{
    struct record records[256];
    uint32_t count;
    if (chunk->type == RAW_CHUNK_UNITS) {
        if (chunk->lane >= LANES_MAX) fail("lane %u", chunk->lane);
        struct raw_decoder *decoder = &recorded.decoders[chunk->lane];
        begin_lane(chunk->lane, reader);
        raw_decoder_open(decoder, chunk);
        while ((count = raw_decoder_next(decoder, records, 256)) > 0)
            for (uint32_t i = 0; i < count; i++)
                add_record(chunk->lane, &records[i]);
        if (error_is_set(&decoder->error))
            fail("lane %u: %s", chunk->lane, text_of(&decoder->error));
    }
    free(chunk);
}

static void read_spool(struct raw_reader *reader, int file)
{
    char path[64];
    struct spool_reader spool;
    struct raw_chunk *chunk;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (!spool_reader_open(&spool, path, reader))
        fail("the spool cannot be used: %s", text_of(&spool.error));
    while ((chunk = spool_reader_next(&spool, reader)) != NULL)
        add_chunk(reader, chunk);
    if (error_is_set(&spool.error)) fail("spool: %s", text_of(&spool.error));
    if (spool.lanes_gapped) fail("spool: a gap");
    spool_reader_close(&spool);
}

static void read_everything(int stream, int spool)
{
    static struct raw_reader reader;
    struct raw_chunk *chunk;
    raw_reader_open_fd(&reader, stream);
    while (reader.state == RAW_STREAM_MORE && (chunk = raw_reader_next(&reader)) != NULL)
        add_chunk(&reader, chunk);
    recorded.state = reader.state;
    recorded.status = reader.end.status;
    if (reader.state == RAW_STREAM_FAILED)
        fail("the stream is damaged: %s", text_of(&reader.error));
    if (reader.state == RAW_STREAM_COMPLETE && reader.end.events != recorded.events)
        fail("%" PRIu64 " events in the end chunk, %" PRIu64 " in the stream", reader.end.events,
             recorded.events);
    if (reader.state == RAW_STREAM_CUT && spool >= 0) read_spool(&reader, spool);
}

/* --- the comparison --- */

static bool is_sequence(const struct event *event)
{
    return event->number == RAW_SEQUENCE_BEFORE || event->number == RAW_SEQUENCE_AFTER;
}

static bool is_event(const struct event *event)
{
    return !is_sequence(event) && event->number != RAW_THREAD_CACHE_DELETED;
}

static bool is_same(const struct event *a, const struct event *b)
{
    return a->number == b->number && a->structure == b->structure &&
           (is_sequence(a) || a->size == b->size);
}

static const char *completeness(void)
{
    return recorded.state == RAW_STREAM_COMPLETE ? "complete" : "cut";
}

static void tell_difference(unsigned lane, size_t at, const struct event *is,
                            const struct event *wanted)
{
    fail("lane %u, record %zu: %u %" PRIu64 ", not %u %" PRIu64 "; the stream is %s", lane, at,
         is->number, is->size, wanted->number, wanted->size, completeness());
}

/* By id: where the recording has the allocation, raw_allocations(); 0: nowhere. */
static uint64_t allocated_at[OBJECTS_MAX];

/* What an end says, of the object that `was` names. */
struct end {
    const struct event *was, *is;
    unsigned lane;
};

static struct end *all_ends;
static size_t all_ends_count;

static void found(unsigned lane, const struct event *was, const struct event *is)
{
    if (was->begins) allocated_at[was->begins] = raw_allocations(lane, is->serial);
    if (!was->ends) return;
    if (!all_ends) all_ends = malloc(LANES_MAX * EVENTS_MAX * sizeof *all_ends);
    if (!all_ends) fail("no memory");
    all_ends[all_ends_count++] = (struct end){was, is, lane};
}

/* What need not be there is missing at the end only, unless events are lost on purpose: then the
 * recording says how many before it goes on. */
static void compare_lane(unsigned lane, bool loses)
{
    static const struct event nothing;
    const struct events *was = &done[lane], *is = &recorded.lanes[lane];
    size_t at = 0;
    uint64_t lost = 0;
    for (size_t i = 0; i < was->count; i++) {
        const struct event *wanted = &was->list[i];
        if (lost == 0 && is_event(wanted) && at < is->count && is->list[at].number == RAW_LOST)
            lost = is->list[at++].size;
        bool more = at < is->count;
        if (lost > 0 && is_event(wanted)) {
            if (wanted->must) tell_difference(lane, at - 1, &is->list[at - 1], wanted);
            lost--;
        } else if (lost == 0 && more && is_same(wanted, &is->list[at])) {
            found(lane, wanted, &is->list[at++]);
        } else if (wanted->must || (more && (!loses || is_event(wanted)))) {
            tell_difference(lane, at, more ? &is->list[at] : &nothing, wanted);
        }
    }
    if (lost > 0) fail("lane %u: %" PRIu64 " events more are lost than were done", lane, lost);
    if (at < is->count) tell_difference(lane, at, &is->list[at], &nothing);
}

static uint64_t allocations_recorded(uint64_t allocations)
{
    uint32_t lane = raw_allocations_lane(allocations);
    return lane < LANES_MAX ? recorded.allocations[lane].count : 0;
}

/* The latest allocation of a lane at each place: `order` has the serials by place, and by
 * themselves. */
static const uint32_t *sorted_places;

static int compare_allocations(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    if (sorted_places[left] != sorted_places[right])
        return sorted_places[left] < sorted_places[right] ? -1 : 1;
    return left < right ? -1 : left > right;
}

static const uint32_t *order_of(unsigned lane)
{
    static uint32_t *orders[LANES_MAX];
    uint64_t count = recorded.allocations[lane].count;
    if (orders[lane]) return orders[lane];
    uint32_t *order = orders[lane] = malloc((count + 1) * sizeof *order);
    if (!order) fail("no memory");
    for (uint32_t i = 0; i < count; i++)
        order[i] = i + 1;
    sorted_places = recorded.allocations[lane].places;
    qsort(order, count, sizeof *order, compare_allocations);
    return order;
}

/* FORMAT.md 2.5: the latest that this lane has allocated at the place among so many allocations; 0:
 * there is none. */
static uint64_t latest_at(uint32_t place, uint64_t allocations)
{
    unsigned lane = raw_allocations_lane(allocations);
    const uint32_t *order = order_of(lane), *places = recorded.allocations[lane].places;
    uint64_t low = 0, high = recorded.allocations[lane].count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        uint32_t serial = order[middle];
        bool before = places[serial] != place ? places[serial] < place
                                              : serial <= raw_allocations_count(allocations);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && places[order[low - 1]] == place ? raw_allocations(lane, order[low - 1]) : 0;
}

static void check_end(const struct end *end)
{
    uint64_t bound = end->is->bound, is = 0, wanted = allocated_at[end->was->ends];
    /* It need not have made it into the recording. */
    if (raw_allocations_count(bound) > allocations_recorded(bound)) return;
    if (bound) is = latest_at(end->is->ends_place, bound);
    if (is != wanted || (bound && !is))
        fail("lane %u ends %" PRIx64 " at place %u, of %" PRIx64 ", not %" PRIx64
             "; the stream is %s",
             end->lane, is, end->is->ends_place, bound, wanted, completeness());
}

static void check_objects(void)
{
    for (size_t i = 0; i < all_ends_count; i++)
        check_end(&all_ends[i]);
}

/* How often a function goes on at the same place as the one that it has called. */
static unsigned calls_by_itself(uint32_t stack)
{
    const struct stack_node *node;
    const struct stack_code *code, *before = NULL;
    struct unwind_object object;
    unsigned count = 0;
    for (; (node = stacks_node(&recorded.stacks, stack)) != NULL; stack = node->parent) {
        code = stacks_code(&recorded.stacks, node->code);
        count += before && code->offset == before->offset && code->module == before->module;
        if (code->module == STACK_MODULE_NONE && unwind_find(code->offset - 1, &object))
            fail("the code at %" PRIx64 " is of no module", code->offset);
        before = code;
    }
    return count;
}

static void check_stack(unsigned lane, const struct event *event, bool is_sure)
{
    const unsigned depth = depth_of(event->size), wanted = depth ? depth - 1 : 0;
    unsigned frames, is;
    if (!event->stack && is_sure) fail("lane %u: an allocation has no stack", lane);
    if (!event->stack) return;
    const uint32_t end = stacks_end(&recorded.stacks, event->stack, &frames);
    if (end >= STACK_NODE_FIRST) fail("lane %u: a stack is not defined", lane);
    is = calls_by_itself(event->stack);
    if (is_sure && end != (depth < 128 ? STACK_END : STACK_CUT_BY_DEPTH))
        fail("lane %u: a stack of %u frames ends by %u", lane, frames, end);
    if (end == STACK_END ? is != wanted
                         : is > wanted || (end == STACK_CUT_BY_DEPTH && frames != 128))
        fail("lane %u: of %u frames %u are of one function, not %u", lane, frames, is, wanted);
}

static void check_stacks(const struct run *run)
{
    const struct fake_plan *plan = &run->plan;
    const bool is_sure =
        run->stacks >= OF_ALLOCATIONS && !run->loses && !plan->chance && plan->call == FAKE_NONE;
    for (unsigned lane = 0; lane < LANES_MAX; lane++)
        for (size_t i = 0; i < recorded.lanes[lane].count; i++)
            if (recorded.lanes[lane].list[i].serial)
                check_stack(lane, &recorded.lanes[lane].list[i], is_sure);
    if (run->stacks == OF_NONE && recorded.stacks.nodes) fail("there are stacks");
}

static bool has_text(int file, const char *text)
{
    char found[64] = "";
    ssize_t bytes = file < 0 ? -1 : read(file, found, sizeof found);
    return bytes == (ssize_t)strlen(text) && memcmp(found, text, strlen(text)) == 0;
}

/* Without the one about /proc/self/maps, which the fake system does not have. */
static unsigned lines_said(void)
{
    unsigned lines = 0;
    for (const char *at = fake_messages(); *at; at++)
        lines += *at == '\n';
    return lines - (strstr(fake_messages(), "what is resident cannot be recorded") != NULL);
}

/* What a removal that failed leaves is not ours to blame. */
static bool removal_may_fail(const struct fake_plan *plan)
{
    return plan->chance || plan->call == FAKE_REMOVE || plan->call == FAKE_LOOK ||
           plan->call == FAKE_LOOK_AT;
}

static void check_nothing_is_left(const struct fake_plan *plan)
{
    if (removal_may_fail(plan)) return;
    if (fake_file_find("/d/.malloctape", "") || fake_file_find("/tmp/", ""))
        fail("a temporary file is left");
}

static void check_not_begun(const struct run *run)
{
    if (lines_said() != 1) fail("%u lines are said", lines_said());
    const char *aside = fake_file_find("/d/.malloctape", ".older");
    if (run->scenario == OVER_NOTHING && !removal_may_fail(&run->plan) &&
        fake_file_find("/d/raw", ""))
        fail("a file is left");
    if (run->scenario == NAMED && !removal_may_fail(&run->plan) && fake_file_find(next_name, ""))
        fail("a file is left");
    if (run->scenario == OVER_OLDER && !has_text(fake_file_get("/d/raw"), older_stream))
        fail("the older recording is lost");
    /* Where no file can be renamed any more, the spool keeps the name that it got. */
    if (run->scenario == OVER_OLDER && !has_text(fake_file_get("/d/raw.spool"), older_spool) &&
        !(aside && has_text(fake_file_get(aside), older_spool)))
        fail("the older spool is lost");
    if (!aside) check_nothing_is_left(&run->plan);
}

static bool anything_must_be_there(void)
{
    for (unsigned lane = 0; lane < LANES_MAX; lane++)
        for (size_t i = 0; i < done[lane].count; i++)
            if (done[lane].list[i].must) return true;
    return false;
}

/* All that was in the spool is gone. */
static void nothing_must_be_there(void)
{
    for (unsigned lane = 0; lane < LANES_MAX; lane++)
        for (size_t i = 0; i < done[lane].count; i++)
            done[lane].list[i].must = false;
}

static void check_begun(const struct run *run, enum fake_end end)
{
    bool to_file = run->scenario <= NAMED;
    const char *name = run->scenario == NAMED ? next_name : "/d/raw";
    char spool_name[64];
    snprintf(spool_name, sizeof spool_name, "%s.spool", name);
    const char *elsewhere = fake_file_find("/tmp/malloctape-", ".spool");
    int stream = to_file ? fake_file_get(name) : fake_reader_get();
    int spool = to_file ? fake_file_get(spool_name) : elsewhere ? fake_file_get(elsewhere) : -1;
    /* Killed while it began. */
    if (end == FAKE_KILLED && !anything_must_be_there()) return;
    if (stream < 0) fail("there is no stream");
    bool cut = run->plan.error == FAKE_CUT;
    if (cut) nothing_must_be_there();
    lseek(stream, 0, SEEK_SET);
    read_everything(stream, spool);
    for (unsigned lane = 0; lane < LANES_MAX; lane++)
        compare_lane(lane, run->loses);
    check_objects();
    check_stacks(run);
    /* Nobody knew that it would fail. */
    bool ended = run->execs && run->plan.call != FAKE_EXEC;
    bool complete = recorded.state == RAW_STREAM_COMPLETE &&
                    recorded.status == (ended ? RAW_END_EXEC : RAW_END_STOPPED);
    if (end == FAKE_KILLED) return;
    if (ended && !strstr(fake_messages(), "before an exec that failed"))
        fail("nobody is told that an exec failed");
    if (lines_said() != 1u + ended) fail("%u lines are said", lines_said());
    if (!complete && !strstr(fake_messages(), "ended early")) fail("nobody is told of the error");
    if (complete && !strstr(fake_messages(), "ended early")) check_nothing_is_left(&run->plan);
    if (complete) check_sequences();
    if (cut && complete) fail("nobody notices that the spool is cut");
    if (cut && strstr(fake_messages(), "what could not be written"))
        fail("nothing is in the spool that the message names");
    if (!complete && (spool < 0) != cut) fail("the spool has %sbeen removed", cut ? "not " : "");
    if (fake_open_descriptors()) fail("%u descriptors are left open", fake_open_descriptors());
}

/* --- runs --- */

static void prepare(const struct run *run)
{
    fake_os_begin(&run->plan);
    if (run->scenario == OVER_OLDER) {
        fake_file_put("/d/raw", older_stream);
        fake_file_put("/d/raw.spool", older_spool);
    }
    if (run->scenario == NAMED) fake_file_appears(others_name, others_stream);
    if (run->scenario == FIFO) fake_fifo_put("/d/fifo");
    setenv("TCMALLOC_TRACE_OUTPUT", outputs[run->scenario], 1);
    setenv("TCMALLOC_TRACE_ON_OVERLOAD", run->loses ? "lose" : "wait", 1);
    setenv("TCMALLOC_TRACE_STACKS", stacks_settings[run->stacks], 1);
    run_loses = run->loses;
    run_execs = run->execs;
    run_refuses = run->refuses;
    if (run->execs) fake_file_put(other_program, "");
    unsetenv("TMPDIR");
}

/* Thousands of threads, over which the system sums. The last tick asks in any case. */
static void check_usage(const struct fake_plan *plan)
{
    uint64_t all_ns = os_clock_ns();
    if (fake_usage_ns() > all_ns / 32 + 2 * plan->usage_ns)
        fail("%" PRIu64 " of %" PRIu64 " ns to ask what threads have used", fake_usage_ns(),
             all_ns);
}

static void run_here(const struct run *run)
{
    prepare(run);
    program_begin(run);
    enum fake_end end = fake_os_run();
    if (end == FAKE_HANGS) fail("everybody waits");
    bool begun = !strstr(fake_messages(), "not recording");
    int others = fake_file_get(others_name);
    if (run->scenario == NAMED && others >= 0 && !has_text(others, others_stream))
        fail("the recording of another process is lost");
    if (!begun)
        check_not_begun(run);
    else
        check_begun(run, end);
    check_usage(&run->plan);
    if (run->tell) printf("# said: %s", fake_messages());
    for (int call = 0; run->count_calls && call < FAKE_CALLS; call++)
        printf("%u\n", fake_calls(call));
    fflush(stdout);
    fake_exit(0);
}

static void plan_print(const struct run *run)
{
    const struct fake_plan *plan = &run->plan;
    printf("# capture_faults_test one %s,%" PRIu64 ",%s,%u,%d,%d,%u,%" PRIu64 ",%" PRIu64
           ",%" PRIu64 ",%d,%d,%" PRIu64 ",%s\n",
           scenario_names[run->scenario], plan->seed, fake_call_names[plan->call], plan->number,
           plan->lasting, plan->error, plan->chance, plan->kill_at, plan->reader_comes_ns,
           plan->reader_stops_at, plan->reader_goes, run->loses, plan->reader_resumes_ns,
           stacks_names[run->stacks]);
}

/* Returns whether it went well; `counts` (may be NULL) gets how often each call was made. */
static bool run_apart(const struct run *run, unsigned *counts)
{
    int ends[2], status;
    fflush(stdout);
    if (pipe(ends) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        if (counts) dup2(ends[1], STDOUT_FILENO);
        run_here(run);
    }
    close(ends[1]);
    FILE *numbers = fdopen(ends[0], "r");
    for (int call = 0; counts && call < FAKE_CALLS; call++)
        if (fscanf(numbers, "%u", &counts[call]) != 1) counts[call] = 0;
    fclose(numbers);
    bool good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                WEXITSTATUS(status) == 0;
    if (good) return true;
    if (child > 0 && WIFSIGNALED(status)) printf("# signal %d\n", WTERMSIG(status));
    plan_print(run);
    return false;
}

static bool is_long(void)
{
    return getenv("MALLOCTAPE_LONG") != NULL;
}

/* A call fails: early ones each, later ones now and then; in the long form more early ones. */
static uint32_t next_number(uint32_t number)
{
    if (number < (is_long() ? 24 : 8)) return number + 1;
    return is_long() ? number * 2 : number + number / 2;
}

/* Whether it is only in the long form that a run tells more than the one before: the last call
 * fails, and so would others, but only what goes on after the failure could make them. */
static bool is_for_long(uint32_t number, unsigned calls, int lasting)
{
    return lasting && number == calls && number > 2 && !is_long();
}

static unsigned fail_call(struct run run, enum fake_call call, unsigned calls, unsigned *failures)
{
    unsigned runs = 0;
    for (unsigned index = 0; fake_error_of(call, index); index++) {
        for (uint32_t number = 1; number <= calls; number = next_number(number)) {
            for (int lasting = 0; lasting < 2; lasting++) {
                if (is_for_long(number, calls, lasting)) continue;
                run.plan.call = call;
                run.plan.number = number;
                run.plan.lasting = lasting;
                run.plan.error = fake_error_of(call, index);
                *failures += !run_apart(&run, NULL);
                runs++;
            }
        }
    }
    return runs;
}

static void each_call_fails(enum scenario scenario, enum stacks_of stacks, unsigned test)
{
    /* Seeds of programs that make each call, some a hundred times, and are not long. */
    struct run run = {.scenario = scenario,
                      .stacks = stacks,
                      .plan = {.seed = 16 + scenario},
                      .count_calls = true};
    unsigned counts[FAKE_CALLS], failures = 0, runs = 1;
    failures += !run_apart(&run, counts);
    run.count_calls = false;
    for (int call = FAKE_NONE + 1; call < FAKE_ANY && failures < 10; call++)
        runs += fail_call(run, (enum fake_call)call, counts[call], &failures);
    printf("# %u runs, %u calls in each\n", runs, counts[FAKE_ANY]);
    printf("%s %u - %s, stacks of %s: each call fails in each way\n", failures ? "not ok" : "ok",
           test, scenario_names[scenario], stacks_names[stacks]);
}

static uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static struct run run_by_chance(uint64_t seed)
{
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
    struct run run = {.scenario = (enum scenario)(random_next(&random) % SCENARIOS),
                      .plan = {.seed = seed}};
    struct fake_plan *plan = &run.plan;
    run.loses = random_next(&random) % 4 == 0;
    static const uint32_t chances[] = {0, 0, 20, 300, 2000};
    plan->chance = chances[random_next(&random) % 5];
    if (random_next(&random) % 3 == 0) plan->kill_at = 1 + random_next(&random) % 1000;
    if (run.scenario == FIFO)
        plan->reader_comes_ns = random_next(&random) % 40 * UINT64_C(1000000000);
    if (run.scenario >= FIFO && random_next(&random) % 3 == 0) {
        plan->reader_stops_at = 1 + random_next(&random) % 60000;
        plan->reader_goes = random_next(&random) % 2;
    }
    /* A pause of the reader for which no spool is large enough, as it cannot grow. */
    if (run.scenario == COMMAND && random_next(&random) % 8 == 0) {
        plan->call = FAKE_ALLOCATE;
        plan->number = 2;
        plan->lasting = true;
        plan->error = ENOSPC;
        plan->reader_goes = false;
        plan->reader_stops_at = 1 + random_next(&random) % 60000;
        plan->reader_resumes_ns = UINT64_C(600000000) + random_next(&random) % 800000000;
        if (random_next(&random) % 2) plan->reader_resumes_ns *= 10;
        run.loses = random_next(&random) % 2;
    }
    if (random_next(&random) % 2 == 0)
        run.stacks = (enum stacks_of)(random_next(&random) % STACKS_OF);
    return run;
}

static unsigned take_chances(unsigned first, unsigned step, unsigned runs, uint64_t seed)
{
    unsigned failures = 0;
    for (unsigned i = first; i < runs && failures < 10; i += step) {
        struct run run = run_by_chance(seed + i);
        failures += !run_apart(&run, NULL);
    }
    return failures;
}

/* By as many processes as there are processors. */
static void chances_are_taken(unsigned runs, uint64_t seed, unsigned test)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned workers = processors > 0 ? (unsigned)processors : 1;
    unsigned failures = 0;
    int status;
    fflush(stdout);
    for (unsigned i = 0; i < workers; i++) {
        pid_t child = fork();
        if (child == 0) {
            failures = take_chances(i, workers, runs, seed);
            fflush(stdout);
            fake_exit(failures > 0);
        }
        failures += child < 0;
    }
    while (wait(&status) > 0)
        failures += status != 0;
    printf("# %u runs from seed %" PRIu64 "\n", runs, seed);
    printf("%s %u - faults by chance\n", failures ? "not ok" : "ok", test);
}

static bool plan_parse(const char *text, struct run *run)
{
    char scenario[32], call[32], stacks[32];
    struct fake_plan *plan = &run->plan;
    int lasting, goes, loses;
    if (sscanf(text,
               "%31[^,],%" SCNu64 ",%31[^,],%u,%d,%d,%u,%" SCNu64 ",%" SCNu64 ",%" SCNu64
               ",%d,%d,%" SCNu64 ",%31s",
               scenario, &plan->seed, call, &plan->number, &lasting, &plan->error, &plan->chance,
               &plan->kill_at, &plan->reader_comes_ns, &plan->reader_stops_at, &goes, &loses,
               &plan->reader_resumes_ns, stacks) != 14)
        return false;
    plan->lasting = lasting;
    plan->reader_goes = goes;
    run->loses = loses;
    bool known = false;
    for (int i = 0; i < STACKS_OF; i++)
        if (strcmp(stacks_names[i], stacks) == 0) run->stacks = (enum stacks_of)i;
    for (int i = 0; i < FAKE_CALLS; i++) {
        if (strcmp(fake_call_names[i], call) != 0) continue;
        plan->call = (enum fake_call)i;
        known = true;
    }
    for (int i = 0; i < SCENARIOS; i++) {
        if (strcmp(scenario_names[i], scenario) != 0) continue;
        run->scenario = (enum scenario)i;
        return known;
    }
    return false;
}

/* Runs that are not to be left to chance. */
static const char *const kept_plans[] = {
    /* A page goes back to the page heap while a recording begins. */
    "file,58,nothing,0,0,0,0,0,0,0,0,0,0,none",
    /* A thread needs a table of call stacks while another one makes it. */
    "older,51414,nothing,0,0,0,0,0,0,0,0,0,0,all",
    /* A call has to begin the writer again for its stack, which fails. */
    "older,48648,nothing,0,0,0,2000,0,0,0,0,0,0,allocations",
};

static void kept_plans_are_run(unsigned test)
{
    unsigned failures = 0;
    for (size_t i = 0; i < sizeof kept_plans / sizeof *kept_plans; i++) {
        struct run run = {.tell = false};
        failures += !plan_parse(kept_plans[i], &run) || !run_apart(&run, NULL);
    }
    printf("%s %u - plans that are kept\n", failures ? "not ok" : "ok", test);
}

static void stacks_find_no_room(unsigned test)
{
    struct run run = {.stacks = OF_ALLOCATIONS, .refuses = true, .plan = {.seed = 1}};
    const unsigned failures = !run_apart(&run, NULL);
    printf("%s %u - a stack for which there was no room is defined later\n",
           failures ? "not ok" : "ok", test);
}

static void spool_is_cut_as_it_grows(unsigned test)
{
    /* It grows as nobody reads. */
    struct run run = {.scenario = COMMAND,
                      .plan = {.seed = 58,
                               .call = FAKE_ALLOCATE,
                               .number = 2,
                               .error = FAKE_CUT,
                               .reader_stops_at = 1000,
                               .reader_resumes_ns = UINT64_C(2000000000)}};
    const unsigned failures = !run_apart(&run, NULL);
    printf("%s %u - the spool is cut as it grows\n", failures ? "not ok" : "ok", test);
}

static void execs_end_recordings(unsigned test)
{
    struct run run = {.execs = true, .plan = {.seed = 1}};
    unsigned failures = !run_apart(&run, NULL);
    run.plan.call = FAKE_EXEC;
    run.plan.number = 1;
    for (unsigned index = 0; (run.plan.error = fake_error_of(FAKE_EXEC, index)); index++)
        failures += !run_apart(&run, NULL);
    printf("%s %u - an exec ends the recording if it seems to succeed\n",
           failures ? "not ok" : "ok", test);
}

static void costly_answers_are_seldom_asked(unsigned test)
{
    struct run run = {.scenario = COMMAND, .plan = {.seed = 1, .usage_ns = 1000000}};
    /* The reader makes it a long recording. */
    run.plan.reader_stops_at = 1000;
    run.plan.reader_resumes_ns = UINT64_C(2000000000);
    bool failed = !run_apart(&run, NULL);
    printf("%s %u - what takes long is seldom asked of the system\n", failed ? "not ok" : "ok",
           test);
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int count, char **words)
{
    struct run run = {.tell = true};
    if (count == 3 && strcmp(words[1], "one") == 0 && plan_parse(words[2], &run)) run_here(&run);
    if (count != 1) {
        fputs("usage: see the head of tests/tracing/capture_faults_test.c\n", stderr);
        return 2;
    }
#ifdef __SANITIZE_THREAD__
    puts("1..0 # SKIP ThreadSanitizer lets nobody map what the shadow table needs");
    return 0;
#endif
    printf("1..%d\n", SCENARIOS + 7);
    for (unsigned scenario = 0; scenario < SCENARIOS; scenario++)
        each_call_fails((enum scenario)scenario, OF_NONE, scenario + 1);
    each_call_fails(OVER_NOTHING, OF_ALL, SCENARIOS + 1);
    chances_are_taken((unsigned)number_from("MALLOCTAPE_RUNS", 500),
                      number_from("MALLOCTAPE_SEED", (uint64_t)getpid()), SCENARIOS + 2);
    kept_plans_are_run(SCENARIOS + 3);
    execs_end_recordings(SCENARIOS + 4);
    costly_answers_are_seldom_asked(SCENARIOS + 5);
    stacks_find_no_room(SCENARIOS + 6);
    spool_is_cut_as_it_grows(SCENARIOS + 7);
    fflush(stdout);
    fake_exit(0);
}
