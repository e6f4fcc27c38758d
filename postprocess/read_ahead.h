/* read_ahead - reads a raw stream on a thread of its own, so that reading and decompressing go on
 * beside ordering.
 *
 *   raw_reader --thread--> [chunk][chunk][tick]... --read_ahead_next()--> order
 *        ^                                                                  |
 *        +------------------------ read_ahead_release() <-------------------+
 *
 * Chunks that wait here and chunks that ordering holds share one budget. The thread reads while the
 * budget is not used up, and also when nothing waits here: ordering may need that very chunk. So
 * memory does not depend on which of the two is faster.
 *
 *   bytes here + bytes with the caller <= READ_AHEAD_BYTES + one chunk, unless the caller holds
 *   more by itself
 *
 * The reader belongs to the thread until read_ahead_next() returns NULL. Then the thread has ended,
 * and the caller may look at the reader.
 *
 * Threads  one that calls. If there is only one processor, or no thread can be made, the caller
 *          reads by itself; nothing else changes. */
#ifndef MALLOCTAPE_READ_AHEAD_H
#define MALLOCTAPE_READ_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracing/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

#define READ_AHEAD_BYTES  (24u << 20)
#define READ_AHEAD_CHUNKS 4096u /* a power of two */

struct read_ahead_entry {
    struct raw_chunk *chunk;
    struct raw_tick tick; /* when the chunk is one */
};

struct read_ahead {
    struct raw_reader *reader;
    pthread_t thread;
    int stop_fd;     /* wakes the thread when it waits for input */
    bool has_thread; /* it was started and not joined: the fields below are under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything below */
    struct read_ahead_entry *entries;
    uint32_t first, count;
    uint64_t bytes_out;  /* of chunks here and with the caller */
    uint64_t bytes_read; /* of the file */
    bool dry;            /* the thread waits for whoever writes into the pipe */
    bool ended;          /* the thread reads no more */
    bool stop;
};

/* `reader` has been opened. False: no memory. */
bool read_ahead_start(struct read_ahead *ahead, struct raw_reader *reader);

/* Whether read_ahead_next() would wait for more input. Waits until the thread knows. */
bool read_ahead_is_dry(struct read_ahead *ahead);

/* The next chunk, which is to be released; of a tick, *tick is filled in. NULL: see reader->state.
 */
struct raw_chunk *read_ahead_next(struct read_ahead *ahead, struct raw_tick *tick);

void read_ahead_release(struct read_ahead *ahead, struct raw_chunk *chunk);

/* Bytes of the file that have been read. */
uint64_t read_ahead_bytes(struct read_ahead *ahead);

/* Ends the thread. If a part of a chunk has come, it waits for the rest. Chunks may still be
 * released afterwards. */
void read_ahead_stop(struct read_ahead *ahead);

void read_ahead_free(struct read_ahead *ahead);

#ifdef __cplusplus
}
#endif
#endif
