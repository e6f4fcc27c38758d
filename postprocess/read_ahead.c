#include "postprocess/read_ahead.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- the thread ---- */

static bool has_room(const struct read_ahead *ahead)
{
    return ahead->count == 0 ||
           (ahead->bytes_out < READ_AHEAD_BYTES && ahead->count < READ_AHEAD_CHUNKS);
}

/* Waits until there is room. False: stop. The lock is held. */
static bool wait_for_room(struct read_ahead *ahead)
{
    while (!ahead->stop && !has_room(ahead))
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    return !ahead->stop;
}

static void add(struct read_ahead *ahead, struct raw_chunk *chunk)
{
    uint32_t at = (ahead->first + ahead->count++) & (READ_AHEAD_CHUNKS - 1);
    ahead->entries[at] = (struct read_ahead_entry){chunk, ahead->reader->tick};
    ahead->bytes_out += chunk->payload_bytes;
    ahead->bytes_read = raw_reader_bytes(ahead->reader);
}

/* Waits for input that may never come. False: stop. */
static bool wait_for_input(struct read_ahead *ahead)
{
    struct pollfd two[] = {{.fd = ahead->reader->fd, .events = POLLIN},
                           {.fd = ahead->stop_fd, .events = POLLIN}};
    pthread_mutex_lock(&ahead->lock);
    ahead->dry = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    while (poll(two, 2, -1) < 0 && errno == EINTR) {}
    return two[1].revents == 0;
}

static void *run(void *argument)
{
    struct read_ahead *ahead = argument;
    pthread_mutex_lock(&ahead->lock);
    while (wait_for_room(ahead)) {
        pthread_mutex_unlock(&ahead->lock);
        bool more = !raw_reader_is_dry(ahead->reader) || wait_for_input(ahead);
        struct raw_chunk *chunk = more ? raw_reader_next(ahead->reader) : NULL;
        pthread_mutex_lock(&ahead->lock);
        ahead->dry = false;
        if (chunk == NULL) break;
        add(ahead, chunk);
        pthread_cond_broadcast(&ahead->changed);
    }
    ahead->ended = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

/* On the only one, a thread that is ahead but empties the caches. */
static bool has_another_processor(void)
{
    cpu_set_t processors;
    return sched_getaffinity(0, sizeof processors, &processors) != 0 || CPU_COUNT(&processors) > 1;
}

/* Signals are for the thread that calls. */
static bool start_thread(struct read_ahead *ahead)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&ahead->thread, NULL, run, ahead) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- the caller's side ---- */

bool read_ahead_start(struct read_ahead *ahead, struct raw_reader *reader)
{
    *ahead = (struct read_ahead){.reader = reader};
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    ahead->entries = malloc(READ_AHEAD_CHUNKS * sizeof *ahead->entries);
    if (ahead->entries == NULL) return false;
    ahead->stop_fd = has_another_processor() ? eventfd(0, EFD_CLOEXEC) : -1;
    ahead->has_thread = ahead->stop_fd >= 0 && start_thread(ahead);
    return true;
}

bool read_ahead_is_dry(struct read_ahead *ahead)
{
    if (!ahead->has_thread) return raw_reader_is_dry(ahead->reader);
    pthread_mutex_lock(&ahead->lock);
    while (ahead->count == 0 && !ahead->dry && !ahead->ended)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    bool dry = ahead->count == 0 && ahead->dry;
    pthread_mutex_unlock(&ahead->lock);
    return dry;
}

static void join_thread(struct read_ahead *ahead)
{
    pthread_join(ahead->thread, NULL);
    ahead->has_thread = false;
}

/* Without a thread, or what it has left. */
static struct raw_chunk *next_alone(struct read_ahead *ahead, struct raw_tick *tick)
{
    if (ahead->reader->state != RAW_STREAM_MORE) return NULL;
    struct raw_chunk *chunk = raw_reader_next(ahead->reader);
    *tick = ahead->reader->tick;
    return chunk;
}

struct raw_chunk *read_ahead_next(struct read_ahead *ahead, struct raw_tick *tick)
{
    if (!ahead->has_thread) return next_alone(ahead, tick);
    struct raw_chunk *chunk = NULL;
    pthread_mutex_lock(&ahead->lock);
    while (ahead->count == 0 && !ahead->ended)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    if (ahead->count > 0) {
        const struct read_ahead_entry *entry = &ahead->entries[ahead->first];
        bool had_room = has_room(ahead);
        chunk = entry->chunk;
        *tick = entry->tick;
        ahead->first = (ahead->first + 1) & (READ_AHEAD_CHUNKS - 1);
        ahead->count--;
        if (!had_room && has_room(ahead)) pthread_cond_broadcast(&ahead->changed);
    }
    pthread_mutex_unlock(&ahead->lock);
    if (chunk == NULL) join_thread(ahead);
    return chunk;
}

void read_ahead_release(struct read_ahead *ahead, struct raw_chunk *chunk)
{
    uint32_t bytes = chunk->payload_bytes;
    free(chunk);
    if (!ahead->has_thread) return;
    pthread_mutex_lock(&ahead->lock);
    bool had_room = has_room(ahead);
    ahead->bytes_out -= bytes;
    if (!had_room && has_room(ahead)) pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
}

uint64_t read_ahead_bytes(struct read_ahead *ahead)
{
    if (!ahead->has_thread) return raw_reader_bytes(ahead->reader);
    pthread_mutex_lock(&ahead->lock);
    uint64_t bytes = ahead->bytes_read;
    pthread_mutex_unlock(&ahead->lock);
    return bytes;
}

void read_ahead_stop(struct read_ahead *ahead)
{
    if (!ahead->has_thread) return;
    pthread_mutex_lock(&ahead->lock);
    ahead->stop = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    eventfd_write(ahead->stop_fd, 1);
    join_thread(ahead);
    for (; ahead->count > 0; ahead->count--) {
        free(ahead->entries[ahead->first].chunk);
        ahead->first = (ahead->first + 1) & (READ_AHEAD_CHUNKS - 1);
    }
}

void read_ahead_free(struct read_ahead *ahead)
{
    read_ahead_stop(ahead);
    if (ahead->entries != NULL && ahead->stop_fd >= 0) close(ahead->stop_fd);
    free(ahead->entries);
    pthread_mutex_destroy(&ahead->lock);
    pthread_cond_destroy(&ahead->changed);
}
