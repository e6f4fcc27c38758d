/* waits - threads that want the same locks of tcmalloc.
 *
 *   waits hammer THREADS ROUNDS   all at once: each makes and frees OBJECTS objects of a size, and
 *                                 a large one, ROUNDS times
 *   waits turns THREADS ROUNDS    the same, one thread after another: nobody waits
 *   waits held THREADS [busy]     the others ask for a large object while the first has the lock
 *                                 of the page heap, in sbrk(), which returns when all of them sleep
 *                                 for it: each waits. Ends with status 77 over an allocator
 *                                 without such a lock. Busy: beside one that makes and frees objects all the
 *                                 time; reads a byte before, and one before it ends */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/atomic.h"
#include "tests/workloads/allocate.h"

enum { THREADS_MAX = 256, OBJECTS = 600, SIZE = 48, LARGE = 1 << 20, HUGE = 1 << 28 };

static pthread_t threads[THREADS_MAX];
static int ids[THREADS_MAX]; /* of threads that are about to ask */
static unsigned long thread_count, rounds;
static int held;
static pthread_barrier_t all; /* of those that begin at once */
static uintptr_t library, library_end; /* tcmalloc, which has its locks in its own data */

static void *hammer(void *unused)
{
    void *objects[OBJECTS];
    (void)unused;
    pthread_barrier_wait(&all);
    for (unsigned long round = 0; round < rounds; round++) {
        for (int i = 0; i < OBJECTS; i++)
            objects[i] = malloc(SIZE);
        free(malloc(LARGE));
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
    }
    return NULL;
}

static void *ask(void *id)
{
    free(malloc(SIZE)); /* the thread has a cache */
    atomic_store_release((int *)id, (int)syscall(SYS_gettid));
    while (!atomic_load_acquire(&held)) {}
    atomic_store_release((int *)id, -(int)syscall(SYS_gettid));
    free(malloc(LARGE));
    return NULL;
}

static void *be_busy(void *unused)
{
    for (;;)
        allocate(1000000);
    return unused;
}

/* At the futex of a lock of tcmalloc, not for something else (the recorder, say, whose threads have
 * their slots by now). */
static int sleeps(int id)
{
    char path[64], text[256] = "";
    char *end;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", id);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) fail(path);
    close(fd);
    const long call = strtol(text, &end, 10);
    const uintptr_t futex = strtoul(end, NULL, 16);
    return call == SYS_futex && futex >= library && futex < library_end;
}

static void wait_until_all_sleep(void)
{
    atomic_store_release(&held, 1);
    for (unsigned long i = 0; i < thread_count; i++) {
        while (atomic_load_acquire(&ids[i]) >= 0 || !sleeps(-ids[i]))
            usleep(1000);
    }
}

static int find_library(struct dl_phdr_info *object, size_t bytes, void *address)
{
    (void)bytes;
    uintptr_t end = 0;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_LOAD)
            end = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr + object->dlpi_phdr[i].p_memsz;
    if ((uintptr_t)address < object->dlpi_addr || (uintptr_t)address >= end) return 0;
    library = object->dlpi_addr;
    library_end = end;
    return 1;
}

/* Stands before the C library's. With the lock of the page heap: allocates nothing. */
void *sbrk(intptr_t increment)
{
    extern void *__sbrk(intptr_t increment);
    if (library && increment >= HUGE) wait_until_all_sleep();
    return __sbrk(increment);
}

int main(int count, char **words)
{
    const char *how = count > 2 ? words[1] : "";
    thread_count = count > 2 ? strtoul(words[2], NULL, 10) : 0;
    rounds = count > 3 ? strtoul(words[3], NULL, 10) : 0;
    if (thread_count > THREADS_MAX) return 2;
    pthread_barrier_init(&all, NULL, strcmp(how, "hammer") == 0 ? (unsigned)thread_count : 1);
    const int is_busy = count > 3 && strcmp(words[3], "busy") == 0;
    if (is_busy) {
        pthread_t busy;
        if (pthread_create(&busy, NULL, be_busy, NULL) != 0) fail("pthread_create");
        getchar();
    }
    for (unsigned long i = 0; i < thread_count; i++) {
        int is_held = strcmp(how, "held") == 0;
        if (pthread_create(&threads[i], NULL, is_held ? ask : hammer, &ids[i]) != 0)
            fail("pthread_create");
        while (is_held && !atomic_load_acquire(&ids[i])) {}
        if (strcmp(how, "turns") == 0) pthread_join(threads[i], NULL);
    }
    if (strcmp(how, "held") == 0) {
        void *tcmalloc = dlsym(RTLD_DEFAULT, "tc_malloc");
        if (!tcmalloc || !dl_iterate_phdr(find_library, tcmalloc)) return 77;
        free(malloc(HUGE));
    }
    for (unsigned long i = 0; i < thread_count && strcmp(how, "turns") != 0; i++)
        pthread_join(threads[i], NULL);
    if (is_busy) getchar();
    return 0;
}
