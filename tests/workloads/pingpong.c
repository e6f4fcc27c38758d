/* pingpong - objects allocated in one thread and freed in another, the hand-off no allocator sees.
 *
 *   pingpong THREADS ROUNDS [pair|all]
 *
 * pair   (default; THREADS even) threads 2k and 2k+1 play: one allocates an object and hands it
 *        over, the other frees it, allocates one of the same size and hands that back; ROUNDS times
 *        each way. An allocator with thread caches gives the very same address to and fro, without
 *        entering any shared structure: the hardest case for whoever must tell which free belongs
 *        to which allocation.
 * all    every thread sends ROUNDS objects, of sizes 8 to 1031, to each other thread in turn, and
 *        frees what the others send it.
 *
 * Every object carries its sender and a number; the receiver checks both. Exit status 1, with a
 * word on stderr, when an object arrives damaged. At the end everything is freed. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/atomic.h"

enum {
    THREADS_MAX = 64,
    PAIR_OBJECT_BYTES = 64,
    ALL_SIZES = 1024 /* sizes of 8 .. 8 + ALL_SIZES - 1 bytes */
};

struct object {
    uint32_t sender;
    uint32_t number;
};

/* One object on its way from one thread to another: empty is NULL. One writer, one reader. */
struct mailbox {
    struct object *object;
} __attribute__((aligned(64)));

struct player {
    pthread_t thread;
    uint32_t number;
};

static struct mailbox mailboxes[THREADS_MAX][THREADS_MAX]; /* [from][to] */
static struct player players[THREADS_MAX];
static uint32_t threads;
static uint32_t rounds;

static void fail(const char *what)
{
    fprintf(stderr, "pingpong: %s\n", what);
    _Exit(1);
}

static struct object *object_new(uint32_t sender, uint32_t number, size_t bytes)
{
    struct object *object = malloc(bytes);
    if (!object) fail("out of memory");
    object->sender = sender;
    object->number = number;
    return object;
}

static void object_end(struct object *object, uint32_t sender, uint32_t number)
{
    if (object->sender != sender || object->number != number) fail("an object arrived damaged");
    free(object);
}

static int mailbox_send(struct mailbox *mailbox, struct object *object)
{
    if (atomic_load_acquire(&mailbox->object)) return 0;
    atomic_store_release(&mailbox->object, object);
    return 1;
}

static struct object *mailbox_receive(struct mailbox *mailbox)
{
    struct object *object = atomic_load_acquire(&mailbox->object);
    if (object) atomic_store_release(&mailbox->object, NULL);
    return object;
}

static void pair_send(uint32_t from, uint32_t to, uint32_t number)
{
    struct object *object = object_new(from, number, PAIR_OBJECT_BYTES);
    while (!mailbox_send(&mailboxes[from][to], object))
        sched_yield();
}

static void pair_receive(uint32_t from, uint32_t to, uint32_t number)
{
    struct object *object;
    while (!(object = mailbox_receive(&mailboxes[from][to])))
        sched_yield();
    object_end(object, from, number);
}

/* The even player serves. */
static void *pair_play(void *argument)
{
    uint32_t me = ((struct player *)argument)->number;
    uint32_t other = me ^ 1;
    for (uint32_t number = 0; number < rounds; number++) {
        if (me % 2 == 0) pair_send(me, other, number);
        pair_receive(other, me, number);
        if (me % 2 == 1) pair_send(me, other, number);
    }
    return NULL;
}

/* Frees what has arrived from anybody; returns how many objects that were. */
static uint64_t all_receive(uint32_t me, uint32_t *expected)
{
    uint64_t received = 0;
    for (uint32_t from = 0; from < threads; from++) {
        struct object *object = mailbox_receive(&mailboxes[from][me]);
        if (!object) continue;
        object_end(object, from, expected[from]++);
        received++;
    }
    return received;
}

static void *all_play(void *argument)
{
    uint32_t me = ((struct player *)argument)->number;
    uint32_t expected[THREADS_MAX] = {0};
    uint64_t to_receive = (uint64_t)rounds * (threads - 1);
    for (uint32_t number = 0; number < rounds; number++) {
        for (uint32_t step = 1; step < threads; step++) {
            struct mailbox *mailbox = &mailboxes[me][(me + step) % threads];
            struct object *object = object_new(
                me, number, sizeof(struct object) + (number * 37 + step * 101) % ALL_SIZES);
            while (!mailbox_send(mailbox, object)) {
                to_receive -= all_receive(me, expected);
                sched_yield();
            }
        }
    }
    while (to_receive > 0) {
        to_receive -= all_receive(me, expected);
        sched_yield();
    }
    return NULL;
}

int main(int count, char **words)
{
    int is_all = count == 4 && strcmp(words[3], "all") == 0;
    int is_pair = count == 3 || (count == 4 && strcmp(words[3], "pair") == 0);
    if (is_all || is_pair) {
        threads = (uint32_t)strtoul(words[1], NULL, 10);
        rounds = (uint32_t)strtoul(words[2], NULL, 10);
    }
    if (threads < 2 || threads > THREADS_MAX || (is_pair && threads % 2 != 0)) {
        fputs("usage: pingpong THREADS ROUNDS [pair|all]\n", stderr);
        return 2;
    }
    for (uint32_t i = 0; i < threads; i++) {
        players[i].number = i;
        if (pthread_create(&players[i].thread, NULL, is_all ? all_play : pair_play, &players[i]) !=
            0)
            fail("cannot create a thread");
    }
    for (uint32_t i = 0; i < threads; i++)
        pthread_join(players[i].thread, NULL);
    return 0;
}
