/* producer - objects allocated in one thread, freed in another, always in the same direction.
 *
 *   producer OBJECTS
 *
 * The main thread allocates OBJECTS objects of 16 to 527 bytes, writes the first 8 of each, and
 * hands them over in batches of 64, through a ring of 16 batches; a second thread frees them in the
 * order of their allocation. Both sleep while they have nothing to do, so that CPU time is work,
 * not waiting. The heap is small; what is measured is how the allocator moves memory from one
 * thread's cache to another's.
 *
 * OBJECTS is rounded up to whole batches. Apart from creating the thread, it makes exactly that
 * many allocations and frees. */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH_OBJECTS = 64, RING_BATCHES = 16 };

struct batch {
    uint64_t *objects[BATCH_OBJECTS];
};

static struct batch producer_ring[RING_BATCHES];
static sem_t empty_batches;
static sem_t full_batches;
static uint64_t batches;

static void producer_fail(const char *what)
{
    fprintf(stderr, "producer: %s\n", what);
    _Exit(1);
}

static uint64_t *producer_object_new(uint64_t *random_state)
{
    *random_state = *random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t *object = malloc(16 + ((*random_state >> 33) & 511));
    if (!object) producer_fail("out of memory");
    *object = *random_state;
    return object;
}

static void producer_produce(void)
{
    uint64_t random_state = 1;
    for (uint64_t number = 0; number < batches; number++) {
        struct batch *batch = &producer_ring[number % RING_BATCHES];
        sem_wait(&empty_batches);
        for (int i = 0; i < BATCH_OBJECTS; i++)
            batch->objects[i] = producer_object_new(&random_state);
        sem_post(&full_batches);
    }
}

static void *producer_consume(void *unused)
{
    for (uint64_t number = 0; number < batches; number++) {
        struct batch *batch = &producer_ring[number % RING_BATCHES];
        sem_wait(&full_batches);
        for (int i = 0; i < BATCH_OBJECTS; i++)
            free(batch->objects[i]);
        sem_post(&empty_batches);
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t consumer;
    if (count != 2) {
        fputs("usage: producer OBJECTS\n", stderr);
        return 2;
    }
    batches = (strtoull(words[1], NULL, 10) + BATCH_OBJECTS - 1) / BATCH_OBJECTS;
    if (sem_init(&empty_batches, 0, RING_BATCHES) != 0 || sem_init(&full_batches, 0, 0) != 0 ||
        pthread_create(&consumer, NULL, producer_consume, NULL) != 0)
        producer_fail("cannot set up");
    producer_produce();
    pthread_join(consumer, NULL);
    return 0;
}
