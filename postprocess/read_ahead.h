/* read_ahead - reads a raw stream on a thread of its own, so that reading and decompressing go on
 * beside ordering.
 *
 *   raw_reader --thread--> [chunk][chunk][tick]... --read_ahead_next()--> order
 *        ^                                                                  |
 *        +------------------------ read_ahead_release() <-------------------+
 *
 * Chunks that are here and chunks that ordering holds share one budget: the thread reads on while
 * less is out, or when nothing is here, so that what ordering waits for is always read. So memory
 * does not depend on how fast either of them is.
 *
 *   bytes here + bytes with the caller <= READ_AHEAD_BYTES + one chunk, unless the caller holds
 *   more by itself
 *
 * Until read_ahead_next() has returned NULL, the reader belongs to the thread; then the thread has
 * ended, and everything in the reader may be looked at.
 *
 * Threads  one that calls. Without a second thread, where the system gives none or there is only
 *          one processor, it all works the same. */
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

/* Whether read_ahead_next() would have to wait for whoever writes into the pipe. Waits for the
 * thread to know. */
bool read_ahead_is_dry(struct read_ahead *ahead);

/* The next chunk, which is to be released; of a tick, *tick is filled in. NULL: see reader->state.
 */
struct raw_chunk *read_ahead_next(struct read_ahead *ahead, struct raw_tick *tick);

void read_ahead_release(struct read_ahead *ahead, struct raw_chunk *chunk);

/* Bytes of the file that have been read. */
uint64_t read_ahead_bytes(struct read_ahead *ahead);

/* Ends the thread, as soon as a chunk of which a part has come is there. Chunks may still be
 * released afterwards. */
void read_ahead_stop(struct read_ahead *ahead);

void read_ahead_free(struct read_ahead *ahead);

#ifdef __cplusplus
}
#endif
#endif
