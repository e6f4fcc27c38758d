/* statistics - what its allocator says of itself, at quiet moments, to compare with its recording.
 *
 *   statistics glibc      8 arenas, thresholds moved by frees of 1, 4 and 33 MiB, trims; after each
 *                         step "step NAME", malloc_info() and, of a chunk mapped for itself,
 *                         "chunk BYTES"
 *   statistics begun FILE recorded into FILE from after its first call on
 *   statistics use        8 arenas, with objects too large for thread caches, of which the first
 *                         thread ends some; of each arena "BEGIN THREAD HEAPS", and malloc_info();
 *                         before, chunks mapped for themselves, whose free moves the
 *                         threshold, and one after the program has set it
 *   statistics turns      threads one after another in the same lanes and in arenas that have become
 *                         free, which end what they have made; "THREAD OBJECTS" of each
 *   statistics jemalloc   "NAME BYTES" from mallctl(), with some objects alive and others freed
 *   statistics mimalloc   mi_stats_print_out(), with threads that have left objects behind
 *
 * At each moment everything so far, and a tick behind it, is in the recording; nothing is printed
 * through memory of the allocator. */
#include "tracing/process/malloctape.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (1024 * 1024)

enum {
    THREADS = 7,
    PIECES = 200,
    PIECE_BYTES = 100 * 1024,
    KEPT_PIECES = 30,
    ENOUGH = 300000,
    SETTLED = 3000000
};

int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
void mi_stats_print_out(void (*)(const char *, void *), void *) __attribute__((weak));

static char buffer[1 << 16];
static void *pieces[PIECES];
static pthread_barrier_t made, over;

static void call_often(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        free(realloc(malloc(24), 20)); /* three: a call of each kind comes to need a buffer */
}

static void moment(void)
{
    call_often(1);
    malloctape_sync();
}

/* A recorder that asks the allocator itself does so in a call that needs another buffer, after a
 * tick. The next tick has what it was told. Before, what the thread's cache had too much of has
 * been given back. */
static void moment_of_asking(void)
{
    call_often(SETTLED);
    moment();
    call_often(ENOUGH);
    moment();
}

static void step(const char *name)
{
    moment();
    printf("step %s\n", name);
    malloc_info(0, stdout);
    fflush(stdout);
}

static void *make_arena(void *unused)
{
    void *object = malloc(1000);
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&over);
    free(object);
    return unused;
}

/* A chunk that is mapped for itself has two words of its own. */
static void free_mapped(size_t bytes)
{
    void *object = malloc(bytes);
    step("mapped");
    printf("chunk %zu\n", malloc_usable_size(object) + 2 * sizeof(size_t));
    free(object);
    step("freed");
}

static void make_pieces(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pieces[i] = malloc(PIECE_BYTES);
}

static void free_pieces(unsigned count)
{
    while (count > 0)
        free(pieces[--count]);
}

static int run_glibc(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&made, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    step("begin");
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, make_arena, NULL) != 0) return 1;
    pthread_barrier_wait(&made);
    step("arenas");
    free_mapped(MIB);
    free_mapped(4 * MIB);
    free_mapped(33 * MIB);
    make_pieces(PIECES);
    step("grown");
    free_pieces(PIECES);
    step("trimmed");
    make_pieces(KEPT_PIECES);
    free_pieces(KEPT_PIECES);
    step("kept");
    malloc_trim(0);
    step("malloc_trim");
    pthread_barrier_wait(&over);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    step("end");
    return 0;
}

static int run_begun(const char *file)
{
    call_often(1);
    if (malloctape_start(file) != 0) return 1;
    call_often(1);
    return 0;
}

/* Each thread makes more objects than the one before; the third one more than fit into a heap. */
enum { USED_BYTES = 2000, USED_OBJECTS = 100, LARGE_BYTES = 100000, LARGE_OBJECTS = 1000 };

static void *used[THREADS][LARGE_OBJECTS];
static char lines[THREADS][80];

static uint64_t heap_of(const void *object)
{
    return (uint64_t)(uintptr_t)object / (64 * MIB);
}

static void *use_arena(void *of)
{
    const unsigned which = (unsigned)(uintptr_t)of;
    const unsigned objects = which == 2 ? LARGE_OBJECTS : (which + 1) * USED_OBJECTS;
    uint64_t before = 0;
    unsigned heaps = 0;
    for (unsigned i = 0; i < objects; i++) {
        used[which][i] = malloc(which == 2 ? LARGE_BYTES : USED_BYTES);
        if (heap_of(used[which][i]) != before) heaps++;
        before = heap_of(used[which][i]);
    }
    snprintf(lines[which], sizeof lines[which], "%" PRIu64 " %d %u\n",
             heap_of(used[which][0]) * 64 * MIB, (int)gettid(), heaps);
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&over);
    return NULL;
}

/* One because of its alignment; one that is small by now; one below what the latest tick says. */
static void map_objects(void)
{
    void *large = malloc(MIB), *aligned = aligned_alloc(MIB, 1000);
    void *small = realloc(malloc(MIB), 1000);
    free(large);
    free(aligned);
    free(small);
    moment();
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    free(malloc(MIB / 2));
}

static int run_use(void)
{
    pthread_t threads[THREADS];
    map_objects();
    pthread_barrier_init(&made, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use_arena, (void *)i) != 0) return 1;
    pthread_barrier_wait(&made);
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < USED_OBJECTS / 2 + i; k++)
            free(used[i][2 * k]);
    moment();
    for (unsigned i = 0; i < THREADS; i++)
        fputs(lines[i], stdout);
    malloc_info(0, stdout);
    pthread_barrier_wait(&over);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static pthread_barrier_t leave[THREADS];

static void *take_turn(void *of)
{
    const unsigned which = (unsigned)(uintptr_t)of, objects = (which + 1) * USED_OBJECTS;
    for (unsigned i = 0; i < objects; i++)
        used[which][i] = malloc(USED_BYTES);
    for (unsigned i = 0; i < objects; i++)
        free(used[which][i]);
    snprintf(lines[which], sizeof lines[which], "%d %u\n", (int)gettid(), objects);
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&leave[which]);
    return NULL;
}

/* Has a lane and no arena: what is mapped for itself goes back past them. */
static void *take_lane(void *mapped)
{
    free(mapped);
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&over);
    return NULL;
}

/* A lane is free when the kernel no longer knows its thread, which is after the join. */
static void join_and_see_gone(pthread_t thread, const char *line)
{
    const int id = atoi(line);
    pthread_join(thread, NULL);
    while (tgkill(getpid(), id, 0) == 0)
        sched_yield();
}

/* Two at a time. Behind the first two, another thread takes the lane of one of them. */
static int run_turns(void)
{
    pthread_t threads[2], third;
    pthread_barrier_init(&over, NULL, 2);
    for (unsigned turn = 0; turn < 3; turn++) {
        pthread_barrier_init(&made, NULL, 2);
        if (turn == 1) {
            if (pthread_create(&third, NULL, take_lane, malloc(MIB)) != 0) return 1;
            pthread_barrier_wait(&made);
        }
        pthread_barrier_init(&made, NULL, 3);
        for (unsigned i = 0; i < 2; i++) {
            const unsigned which = 2 * turn + i;
            pthread_barrier_init(&leave[which], NULL, 2);
            if (pthread_create(&threads[i], NULL, take_turn, (void *)(uintptr_t)which) != 0)
                return 1;
        }
        pthread_barrier_wait(&made);
        for (unsigned i = 0; i < 2; i++) {
            pthread_barrier_wait(&leave[2 * turn + i]);
            join_and_see_gone(threads[i], lines[2 * turn + i]);
        }
    }
    pthread_barrier_wait(&over);
    pthread_join(third, NULL);
    moment();
    for (unsigned i = 0; i < 6; i++)
        fputs(lines[i], stdout);
    return 0;
}

static void print_mallctl(const char *name, const char *control, size_t unit)
{
    size_t value = 0, bytes = sizeof value;
    if (mallctl(control, &value, &bytes, NULL, 0) == 0) printf("%s %zu\n", name, value * unit);
}

static int run_jemalloc(void)
{
    uint64_t epoch = 1;
    size_t page = 0, bytes = sizeof page;
    if (mallctl == NULL) return 1;
    make_pieces(PIECES);
    free_pieces(PIECES - KEPT_PIECES);
    moment_of_asking();
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    mallctl("arenas.page", &page, &bytes, NULL, 0);
    print_mallctl("allocated_bytes", "stats.allocated", 1);
    print_mallctl("active_bytes", "stats.active", 1);
    print_mallctl("metadata_bytes", "stats.metadata", 1);
    print_mallctl("resident_bytes", "stats.resident", 1);
    print_mallctl("retained_bytes", "stats.retained", 1);
    print_mallctl("dirty_bytes", "stats.arenas.4096.pdirty", page);
    print_mallctl("muzzy_bytes", "stats.arenas.4096.pmuzzy", page);
    return 0;
}

static void print_line(const char *line, void *unused)
{
    (void)unused;
    fputs(line, stdout);
}

static void *leave_objects(void *at)
{
    for (unsigned i = 0; i < KEPT_PIECES; i++)
        ((void **)at)[i] = malloc(PIECE_BYTES);
    return NULL;
}

static int run_mimalloc(void)
{
    pthread_t threads[3];
    if (mi_stats_print_out == NULL) return 1;
    for (unsigned i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, leave_objects, pieces + i * KEPT_PIECES) != 0)
            return 1;
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    moment_of_asking();
    mi_stats_print_out(print_line, NULL);
    return 0;
}

int main(int count, char **words)
{
    const char which = count > 1 ? words[1][0] : '\0';
    if (which == 'b') return run_begun(words[2]);
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    call_often(1);
    if (which == 'u') return run_use();
    if (which == 't') return run_turns();
    return which == 'g' ? run_glibc() : which == 'j' ? run_jemalloc() : run_mimalloc();
}
