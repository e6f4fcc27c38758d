/* handoff - objects handed from every thread to every other, and a private log of what was freed.
 *
 *   handoff THREADS ROUNDS LOG [strict]
 *
 * Each of THREADS (2 to 16) threads makes ROUNDS objects and puts each into a mailbox of some other
 * thread. What it finds in its own mailboxes it frees, or reallocates and frees or sends on. An
 * object that is not taken before the next one comes is taken back by its sender and freed there;
 * with "strict" the sender waits instead, so that the same few addresses go to and fro.
 *
 * Each object says which it is: of which thread, and the how manieth of that thread. handoff_size()
 * derives the size that was asked for. LOG.N is the private log of thread N: one 64-bit word for
 * each object it ended, in order (handoff.h). Between malloc(HANDOFF_BEGIN_BYTES + N) and
 * malloc(HANDOFF_END_BYTES + N), both freed at once, a thread makes no other calls of the
 * allocator. */
#include "handoff.h"

#include "common/atomic.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct mailbox {
    uint64_t *object;
} __attribute__((aligned(64)));

struct player {
    pthread_t thread;
    uint64_t number;
    uint64_t allocated;
    uint64_t random_state;
    uint64_t *log;
    uint64_t logged;
};

static struct mailbox mailboxes[HANDOFF_THREADS_MAX][HANDOFF_THREADS_MAX]; /* [from][to] */
static struct player players[HANDOFF_THREADS_MAX];
static pthread_barrier_t barrier;
static uint64_t threads;
static uint64_t rounds;
static int is_strict;

static void fail(const char *what)
{
    fprintf(stderr, "handoff: %s\n", what);
    _Exit(1);
}

static uint64_t random_next(struct player *me)
{
    uint64_t x = me->random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return me->random_state = x;
}

/* Every allocation and every free of an object is one call of one of these. */

static uint64_t *object_new(struct player *me)
{
    uint64_t id = handoff_id(me->number, me->allocated++);
    uint64_t *object = id % 64 == 63 ? memalign(64, handoff_size(id)) : malloc(handoff_size(id));
    if (!object) fail("out of memory");
    *object = id;
    return object;
}

static void object_end(struct player *me, uint64_t *object)
{
    me->log[me->logged++] = *object;
    free(object);
}

static uint64_t *object_reallocated(struct player *me, uint64_t *object)
{
    uint64_t id = handoff_id(me->number, me->allocated++);
    me->log[me->logged++] = *object | HANDOFF_LOG_REALLOC;
    uint64_t *grown = realloc(object, handoff_size(id));
    if (!grown) fail("out of memory");
    *grown = id;
    return grown;
}

static uint64_t *mailbox_exchange(uint64_t from, uint64_t to, uint64_t *object)
{
    return atomic_exchange_acq_rel(&mailboxes[from][to].object, object);
}

static void receive_all(struct player *me)
{
    for (uint64_t from = 0; from < threads; from++) {
        if (!atomic_load_relaxed(&mailboxes[from][me->number].object)) continue;
        uint64_t *object = mailbox_exchange(from, me->number, NULL);
        if (!object) continue;
        if (random_next(me) % 8 == 0) object = object_reallocated(me, object);
        object_end(me, object);
    }
}

static void send(struct player *me, uint64_t to, uint64_t *object)
{
    while (is_strict && atomic_load_acquire(&mailboxes[me->number][to].object)) {
        receive_all(me);
        sched_yield();
    }
    uint64_t *unwanted = mailbox_exchange(me->number, to, object);
    if (unwanted) object_end(me, unwanted);
}

static void *play(void *argument)
{
    struct player *me = argument;
    pthread_barrier_wait(&barrier);
    free(malloc(HANDOFF_BEGIN_BYTES + me->number));
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t step = 1 + random_next(me) % (threads - 1);
        send(me, (me->number + step) % threads, object_new(me));
        receive_all(me);
        if (round % 64 == 0) sched_yield();
    }
    /* In strict mode somebody may still wait for a mailbox of ours. */
    static uint64_t finished;
    atomic_add_seq_cst(&finished, 1);
    while (atomic_load_seq_cst(&finished) < threads) {
        receive_all(me);
        sched_yield();
    }
    receive_all(me);
    free(malloc(HANDOFF_END_BYTES + me->number));
    return NULL;
}

/* Every allocation ends once, so a thread ends at most what all threads make. */
static uint64_t log_entries_max(void)
{
    return threads * rounds * 2 + 1;
}

static void log_open(struct player *player, const char *prefix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%u", prefix, (unsigned)player->number);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t bytes = log_entries_max() * sizeof(uint64_t);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) fail("cannot make a log");
    player->log = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (player->log == MAP_FAILED) fail("cannot map a log");
    close(file);
}

static void log_close(const struct player *player, const char *prefix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%u", prefix, (unsigned)player->number);
    if (truncate(path, (off_t)(player->logged * sizeof(uint64_t))) != 0) fail("cannot end a log");
}

int main(int count, char **words)
{
    if (count == 4 || (count == 5 && strcmp(words[4], "strict") == 0)) {
        threads = strtoull(words[1], NULL, 10);
        rounds = strtoull(words[2], NULL, 10);
        is_strict = count == 5;
    }
    if (threads < 2 || threads > HANDOFF_THREADS_MAX || rounds < 1) {
        fputs("usage: handoff THREADS ROUNDS LOG [strict]\n", stderr);
        return 2;
    }
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads) != 0) fail("no barrier");
    for (uint64_t i = 0; i < threads; i++) {
        players[i].number = i;
        players[i].random_state = 0x9e3779b97f4a7c15u * (i + 1);
        log_open(&players[i], words[3]);
        if (pthread_create(&players[i].thread, NULL, play, &players[i]) != 0)
            fail("cannot create a thread");
    }
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(players[i].thread, NULL);
    uint64_t left = 0;
    for (uint64_t i = 0; i < threads; i++) {
        left += players[i].allocated - players[i].logged;
        log_close(&players[i], words[3]);
    }
    if (left != 0) fail("objects were left");
    return 0;
}
