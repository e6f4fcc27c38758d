/* promises - whether the allocator keeps what malloc promises: an object has its alignment, and
 * shares no byte with another one that is alive. The figures of one that does not are worth nothing.
 *
 *   object --> its page: watched?  one page in 256, or all (--check)
 *                made   --> between its neighbours in the table? --> into the table
 *                ended  --> out of the table, before the free
 *
 * The alignment of every object is checked. An overlap is found if both objects begin in watched
 * pages, so in a page, sooner or later, whatever goes wrong again and again. For other objects that
 * costs a multiplication and a comparison; the table has the watched objects in the order of their
 * addresses (a treap), and takes some hundred nanoseconds a call.
 *
 * Threads: any. Memory: 32 bytes for each watched live object, from pages_map(). */
#ifndef MALLOCTAPE_REPLAY_PROMISES_H
#define MALLOCTAPE_REPLAY_PROMISES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct promises_node {
    uint64_t begin, end;  /* of the object */
    uint32_t left, right; /* 0: none */
    uint32_t priority;    /* no child has a higher one */
    uint32_t unused;
};

struct promises {
    uint64_t watched_below; /* a page whose hash is less is watched */
    pthread_mutex_t lock;

    /* Under the lock. */
    struct promises_node *nodes; /* the first one is none */
    uint64_t capacity, used;     /* entries */
    uint32_t root, free;         /* 0: none; free ones are linked by `left` */
    uint32_t random;
    bool is_broken;
    char how[160]; /* the first time */
};

/* `all`: watches every page. `seed`: of the choice of pages. */
void promises_open(struct promises *promises, bool all);
void promises_close(struct promises *promises);

/* Reports instruction `number`, in the block at `offset`, as the one at which a promise was broken.
 * False: none was. */
bool promises_set_error(struct promises *promises, struct error *error, unsigned opcode,
                        uint64_t size, uint64_t number, uint64_t offset);

/* Whether that is what the error says. */
bool promises_is_error(const struct error *error);

/* A watched object was made, or one for whose alignment promises_ask_alignment() asks (`alignment` 0:
 * that of any object of its size). False: a promise is broken. */
bool promises_put(struct promises *promises, uint64_t address, uint64_t size);
bool promises_aligned(struct promises *promises, uint64_t address, uint64_t size,
                      uint64_t alignment);

/* A watched object is about to be ended. */
void promises_take(struct promises *promises, uint64_t address);

/* Whether an object at `address` is watched, if pages are up to that hash. */
static inline bool promises_watch(uint64_t below, uint64_t address)
{
    return (address >> 12) * UINT64_C(0x9e3779b97f4a7c15) < below;
}

/* Whether the alignment of a new object is anything but the one that suits any object of any size. */
static inline bool promises_ask_alignment(uint64_t address, uint64_t alignment)
{
    return (address & 15) != 0 || alignment > 16;
}

#endif
