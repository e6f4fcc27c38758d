/* threads - many short threads, in every way a thread can come and go.
 *
 *   threads COUNT [ALIVE] [OBJECTS]
 *
 * Starts COUNT threads, at most ALIVE (default 8) at a time. Each allocates OBJECTS (default 50)
 * objects, frees every other one and ends; what it leaves, a later thread frees. Thread number n,
 * counted from 0:
 *
 *   n % 3 == 0   detached; the others are joined
 *   n % 4 == 1   ends by pthread_exit, the others by returning
 *   all          free one object in a thread-specific data destructor, the last thing a thread does
 *
 * At the end everything is freed and "COUNT threads" is printed. */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/atomic.h"

enum { ALIVE_MAX = 256, OBJECTS_MAX = 4096, ESTATES = 64 };

/* What a thread leaves behind: a list linked through the objects' first word. */
struct heirloom {
    struct heirloom *next;
};

static struct heirloom *estates[ESTATES];
static sem_t places; /* how many more threads may be alive */
static pthread_key_t last_key;
static unsigned long objects_per_thread = 50;

static void fail(const char *what)
{
    fprintf(stderr, "threads: %s\n", what);
    _Exit(1);
}

static void *allocate(size_t bytes)
{
    void *object = malloc(bytes);
    if (!object) fail("out of memory");
    return object;
}

static void heirlooms_free(struct heirloom *first)
{
    while (first) {
        struct heirloom *next = first->next;
        free(first);
        first = next;
    }
}

/* Runs as the thread's specific data is destroyed. */
static void last_free(void *object)
{
    free(object);
    sem_post(&places);
}

static void *thread_run(void *argument)
{
    unsigned long number = (unsigned long)(uintptr_t)argument;
    struct heirloom *left = NULL;
    pthread_setspecific(last_key, allocate(32));
    for (unsigned long i = 0; i < objects_per_thread; i++) {
        struct heirloom *object = allocate(16 + (number * 31 + i * 7) % 1000);
        if (i % 2 == 0) {
            free(object);
        } else {
            object->next = left;
            left = object;
        }
    }
    heirlooms_free(atomic_exchange_acq_rel(&estates[number % ESTATES], left));
    if (number % 4 == 1) pthread_exit(NULL);
    return NULL;
}

static void thread_start(unsigned long number, pthread_t *thread, int detached)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (detached) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(thread, &attributes, thread_run, (void *)(uintptr_t)number) != 0)
        fail("cannot create a thread");
    pthread_attr_destroy(&attributes);
}

/* Starts all threads; a thread to be joined is joined when its place in the ring is wanted
 * again. */
static void threads_run(unsigned long count, unsigned long alive)
{
    pthread_t ring[ALIVE_MAX];
    int joinable[ALIVE_MAX] = {0};
    for (unsigned long number = 0; number < count; number++) {
        unsigned long place = number % alive;
        int detached = number % 3 == 0;
        if (joinable[place]) pthread_join(ring[place], NULL);
        sem_wait(&places);
        thread_start(number, &ring[place], detached);
        joinable[place] = !detached;
    }
    for (unsigned long place = 0; place < alive; place++)
        if (joinable[place]) pthread_join(ring[place], NULL);
    for (unsigned long i = 0; i < alive; i++)
        sem_wait(&places); /* the detached ones, too */
}

static unsigned long number_or(int count, char **words, int index, unsigned long otherwise)
{
    return count > index ? strtoul(words[index], NULL, 10) : otherwise;
}

int main(int count, char **words)
{
    unsigned long threads = number_or(count, words, 1, 0);
    unsigned long alive = number_or(count, words, 2, 8);
    objects_per_thread = number_or(count, words, 3, objects_per_thread);
    if (count < 2 || count > 4 || alive < 1 || alive > ALIVE_MAX ||
        objects_per_thread > OBJECTS_MAX) {
        fputs("usage: threads COUNT [ALIVE] [OBJECTS]\n", stderr);
        return 2;
    }
    if (sem_init(&places, 0, (unsigned)alive) != 0 || pthread_key_create(&last_key, last_free) != 0)
        fail("cannot set up");
    threads_run(threads, alive);
    for (int i = 0; i < ESTATES; i++)
        heirlooms_free(estates[i]);
    printf("%lu threads\n", threads);
    return 0;
}
