/* read_wip_raw - raw traces of gperftools' branch wip-malloc-tracing: a magic number, then outer
 * events, integers as FORMAT.md 2.2 has them. For a word w the type is w & 7, or w & 255 if that is
 * 7.
 *
 *   3 buffer   thread w >> 3; time; bytes; inner events     0x07 death    thread w >> 8; time
 *   0x0f end   padding may follow                           0x27 barrier  time
 *   0x2f misc  thread; time; bytes; text
 *
 * Inner events, in the state of their thread, which lasts from buffer to buffer:
 *
 *   0 malloc      size += unzigzag(w >> 3); its token is the next of the thread
 *   1, 4 free     token += unzigzag(w >> 3)
 *   2 token       the next one is w >> 3; time
 *   0x17 realloc  size += unzigzag(w >> 8); old token: another word, as in a free
 *   0x1f memalign size likewise; the alignment
 *
 * Sizes are in units of 8 bytes. The lowest ten bits of a time are a processor. Between two
 * barriers the thread with the oldest time goes first, and a free waits for its token. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/bytes.h"
#include "convert/formats.h"
#include "stream/varint.h"

enum { MAGIC = 0x6cbd63e4, MAGIC_BYTES = 4 };
enum { BUFFER = 3, DEATH = 0x07, END = 0x0f, BARRIER = 0x27, MISC = 0x2f };
enum { MALLOC = 0, FREE = 1, TOKEN = 2, FREE_SIZED = 4, REALLOC = 0x17, MEMALIGN = 0x1f };
#define TIME_MASK UINT64_C(0xfffffffffffffc00)

/* The most bytes of one buffer; and of all buffers that wait for a token: beyond that, the token
 * counts as one that never comes. */
#define BUFFER_BYTES_MAX  (UINT64_C(64) << 20)
#define WAITING_BYTES_MAX (UINT64_C(256) << 20)

/* Sizes in units of 8 bytes must be below this. */
#define SIZE_MAX_8 (UINT64_C(1) << 60)

struct buffer {
    struct buffer *next;
    uint64_t offset, time;
    size_t bytes;
    uint8_t data[]; /* and VARINT_SLACK more */
};

struct wip_thread {
    uint64_t id, time, size, token, next_token;
    struct buffer *first, *last;
    const uint8_t *at; /* in the first buffer */
    uint64_t awaited;  /* the name that its next event waits for, or 0 */
    bool queued, dead;
};

struct reading {
    struct source *source;
    struct call_writer *writer;
    struct wip_thread *threads;
    size_t threads_count, threads_room;
    uint32_t *queue; /* a heap of threads that have an event and do not wait; the oldest is first */
    size_t queue_count, queue_room;
    uint32_t *dead; /* threads whose death has been read, but that have not ended */
    size_t dead_count, dead_room;
    struct names ids, waiting; /* threads by id + 1, and by the name that they wait for */
    uint64_t buffered;
};

static bool wip_raw_fail_memory(struct reading *reading)
{
    return error_set_system(&reading->source->error, "no memory");
}

/* ---- whose turn it is ---- */

/* Whether `one` has the older time; if equal, whether it came first. */
static bool is_before(const struct reading *reading, uint32_t one, uint32_t other)
{
    const uint64_t a = reading->threads[one].time, b = reading->threads[other].time;
    return a != b ? a < b : one < other;
}

/* Queues the thread, if it has an event and does not wait. */
static void queue_put(struct reading *reading, struct wip_thread *thread)
{
    if (thread->queued || thread->first == NULL || thread->awaited != 0) return;
    const uint32_t one = (uint32_t)(thread - reading->threads);
    size_t at = reading->queue_count++;
    for (; at > 0 && is_before(reading, one, reading->queue[(at - 1) / 2]); at = (at - 1) / 2)
        reading->queue[at] = reading->queue[(at - 1) / 2];
    reading->queue[at] = one;
    thread->queued = true;
}

/* NULL: nobody. */
static struct wip_thread *queue_take(struct reading *reading)
{
    if (reading->queue_count == 0) return NULL;
    struct wip_thread *first = &reading->threads[reading->queue[0]];
    const uint32_t last = reading->queue[--reading->queue_count];
    size_t at = 0;
    for (size_t next = 1; next < reading->queue_count; at = next, next = 2 * at + 1) {
        next += next + 1 < reading->queue_count &&
                is_before(reading, reading->queue[next + 1], reading->queue[next]);
        if (is_before(reading, last, reading->queue[next])) break;
        reading->queue[at] = reading->queue[next];
    }
    reading->queue[at] = last;
    first->queued = false;
    return first;
}

/* ---- outer events ---- */

static bool read_word(struct source *source, uint64_t *word)
{
    uint8_t copy[VARINT_BYTES_MAX + VARINT_SLACK] = {0};
    size_t there = source_peek(source, VARINT_BYTES_MAX);
    if (there > VARINT_BYTES_MAX) there = VARINT_BYTES_MAX;
    memcpy(copy, source->next, there);
    const uint8_t *at = copy;
    *word = varint_get(&at);
    if ((size_t)(at - copy) > there)
        return source_bad_bytes(source, source_offset(source), "the file ends inside an event");
    source_skip(source, (size_t)(at - copy));
    return true;
}

/* Room for `count` threads, all of which may be queued or dead. */
static bool reserve_threads(struct reading *reading, size_t count)
{
    return array_reserve(&reading->threads, &reading->threads_room, count,
                         sizeof *reading->threads) &&
           array_reserve(&reading->queue, &reading->queue_room, count, sizeof *reading->queue) &&
           array_reserve(&reading->dead, &reading->dead_room, count, sizeof *reading->dead);
}

static struct wip_thread *thread_of(struct reading *reading, uint64_t id)
{
    struct name *name = names_put(&reading->ids, id + 1);
    if (name != NULL && name->live) return &reading->threads[name->object];
    if (name == NULL || !reserve_threads(reading, reading->threads_count + 1)) {
        wip_raw_fail_memory(reading);
        return NULL;
    }
    name->live = true;
    name->object = (uint32_t)reading->threads_count++;
    reading->threads[name->object] = (struct wip_thread){.id = id};
    return &reading->threads[name->object];
}

static bool copy_bytes(struct source *source, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        size_t there = source_peek(source, 1), piece = there < bytes ? there : bytes;
        if (there == 0)
            return source_bad_bytes(source, source_offset(source), "the file ends inside a buffer");
        memcpy(to, source->next, piece);
        source_skip(source, piece);
        to += piece;
        bytes -= piece;
    }
    return true;
}

static bool read_buffer(struct reading *reading, uint64_t id)
{
    struct source *source = reading->source;
    uint64_t time, bytes;
    if (!read_word(source, &time) || !read_word(source, &bytes)) return false;
    if (bytes > BUFFER_BYTES_MAX)
        return source_bad_bytes(source, source_offset(source),
                                "a buffer of %" PRIu64 " bytes; at most 64 MiB", bytes);
    struct wip_thread *thread = thread_of(reading, id);
    struct buffer *buffer = malloc(sizeof *buffer + bytes + VARINT_SLACK);
    if (thread == NULL || buffer == NULL) {
        free(buffer);
        return wip_raw_fail_memory(reading);
    }
    *buffer =
        (struct buffer){.offset = source_offset(source), .time = time & TIME_MASK, .bytes = bytes};
    if (!copy_bytes(source, buffer->data, bytes)) {
        free(buffer);
        return false;
    }
    memset(buffer->data + bytes, 0, VARINT_SLACK);
    if (thread->last != NULL)
        thread->last->next = buffer;
    else
        thread->first = buffer;
    thread->last = buffer;
    if (thread->at == NULL) thread->at = buffer->data;
    queue_put(reading, thread);
    reading->buffered += bytes;
    return true;
}

static bool read_misc(struct source *source)
{
    uint64_t time, bytes;
    if (!read_word(source, &time) || !read_word(source, &bytes)) return false;
    for (uint64_t left = bytes; left > 0;) {
        size_t there = source_peek(source, 1);
        if (there == 0)
            return source_bad_bytes(source, source_offset(source), "the file ends inside a text");
        size_t piece = there < left ? there : (size_t)left;
        source_skip(source, piece);
        left -= piece;
    }
    return true;
}

/* ---- inner events ---- */

static bool bad_event(struct reading *reading, const struct wip_thread *thread, const char *what)
{
    const struct buffer *buffer = thread->first;
    return source_bad_bytes(reading->source, buffer->offset + (uint64_t)(thread->at - buffer->data),
                            "%s", what);
}

/* Frees buffers that have been read. A buffer's time is that of its end. */
static void drop_read_buffers(struct reading *reading, struct wip_thread *thread)
{
    while (thread->first != NULL && thread->at == thread->first->data + thread->first->bytes) {
        struct buffer *read = thread->first;
        thread->time = read->time;
        thread->first = read->next;
        if (thread->first == NULL) thread->last = NULL;
        thread->at = thread->first != NULL ? thread->first->data : NULL;
        reading->buffered -= read->bytes;
        free(read);
    }
}

static bool add_size(struct wip_thread *thread, uint64_t coded, uint64_t *bytes)
{
    thread->size += (uint64_t)unzigzag(coded);
    *bytes = thread->size * 8;
    return thread->size < SIZE_MAX_8;
}

/* Decodes an event into *call; its kind is 0 if the event is no call. */
static bool decode_event(struct wip_thread *thread, const uint8_t **at, struct call *call)
{
    uint64_t word = varint_get(at);
    unsigned type = (word & 7) != 7 ? word & 7 : word & 255;
    switch (type) {
    case MALLOC:
        call->kind = CALL_MALLOC;
        call->began = thread->next_token++ + 1;
        return add_size(thread, word >> 3, &call->size);
    case MEMALIGN:
        call->kind = CALL_MEMALIGN;
        call->began = thread->next_token++ + 1;
        call->alignment = varint_get(at);
        return add_size(thread, word >> 8, &call->size);
    case REALLOC:
        call->kind = CALL_REALLOC_MOVED;
        call->began = thread->next_token++ + 1;
        thread->token += (uint64_t)unzigzag(varint_get(at));
        call->ended = thread->token + 1;
        return add_size(thread, word >> 8, &call->size);
    case FREE:
    case FREE_SIZED:
        call->kind = CALL_FREE;
        thread->token += (uint64_t)unzigzag(word >> 3);
        call->ended = thread->token + 1;
        return true;
    case TOKEN:
        thread->next_token = word >> 3;
        thread->time = varint_get(at) & TIME_MASK;
        return true;
    default: return false;
    }
}

static bool wait_for_token(struct reading *reading, struct wip_thread *thread, uint64_t name)
{
    struct name *entry = names_put(&reading->waiting, name);
    if (entry == NULL) return wip_raw_fail_memory(reading);
    entry->object = (uint32_t)(thread - reading->threads);
    thread->awaited = name;
    return true;
}

/* Wakes the thread that waits for the object that has just been made, if any. */
static void wip_raw_wake(struct reading *reading, uint64_t name)
{
    struct name *entry = names_find(&reading->waiting, name);
    if (entry == NULL) return;
    struct wip_thread *thread = &reading->threads[entry->object];
    thread->awaited = 0;
    queue_put(reading, thread);
    names_remove(&reading->waiting, entry);
}

/* Takes the next event of a thread; `patient`: the thread may wait for its object. */
static bool take_event(struct reading *reading, struct wip_thread *thread, bool patient)
{
    struct wip_thread before = *thread;
    struct call call = {.kind = 0};
    if (thread->first->bytes == 0) {
        drop_read_buffers(reading, thread);
        return true;
    }
    const uint8_t *at = thread->at, *end = thread->first->data + thread->first->bytes;
    bool good = decode_event(thread, &at, &call);
    if (at > end || !good) {
        *thread = before; /* finally: reading ends with an error */
        return bad_event(reading, thread,
                         at > end ? "the buffer ends inside an event"
                                  : "an unknown event, or a size out of range");
    }
    if (patient && call.ended != 0 && !call_writer_is_live(reading->writer, call.ended) &&
        names_find(&reading->waiting, call.ended) == NULL) {
        *thread = before;
        return wait_for_token(reading, thread, call.ended);
    }
    thread->at = at;
    drop_read_buffers(reading, thread);
    if (call.kind == 0) return true;
    call_writer_thread(reading->writer, thread->id);
    call_writer_time(reading->writer, thread->time, 0);
    if (!call_writer_put(reading->writer, &call)) return false;
    if (call.began != 0) wip_raw_wake(reading, call.began);
    return true;
}

/* ---- windows ---- */

/* Wakes all threads that wait. */
static bool wake_all(struct reading *reading)
{
    const bool some = reading->waiting.count > 0;
    for (size_t i = 0; i < reading->waiting.room; i++) {
        const struct name *entry = &reading->waiting.slots[i];
        if (entry->name == 0) continue;
        reading->threads[entry->object].awaited = 0;
        queue_put(reading, &reading->threads[entry->object]);
    }
    names_free(&reading->waiting);
    return some;
}

/* Takes every event that has been read, except those of threads that wait. */
static bool run_window(struct reading *reading, bool patient)
{
    struct wip_thread *thread;
    bool good = true;
    while (good && (thread = queue_take(reading)) != NULL) {
        uint64_t time = thread->time;
        while (good && thread->first != NULL && thread->awaited == 0 && thread->time == time)
            good = take_event(reading, thread, patient);
        queue_put(reading, thread);
    }
    return good;
}

static void end_dead_threads(struct reading *reading)
{
    size_t left = 0;
    for (size_t i = 0; i < reading->dead_count; i++) {
        struct wip_thread *thread = &reading->threads[reading->dead[i]];
        if (thread->first != NULL) {
            reading->dead[left++] = reading->dead[i];
            continue;
        }
        call_writer_thread(reading->writer, thread->id);
        call_writer_thread_end(reading->writer);
        struct name *name = names_find(&reading->ids, thread->id + 1);
        if (name != NULL) names_remove(&reading->ids, name);
    }
    reading->dead_count = left;
}

static bool wip_raw_end_window(struct reading *reading, bool last)
{
    if (!run_window(reading, true)) return false;
    /* Awaited objects never come, or too late. */
    while ((last || reading->buffered > WAITING_BYTES_MAX) && wake_all(reading))
        if (!run_window(reading, false)) return false;
    end_dead_threads(reading);
    return true;
}

/* ---- the format ---- */

static bool wip_raw_recognize(struct source *head)
{
    return source_peek(head, MAGIC_BYTES) >= MAGIC_BYTES && bytes_get32(head->next) == MAGIC;
}

/* One outer event. */
static bool read_event(struct reading *reading, bool *end)
{
    struct source *source = reading->source;
    uint64_t offset = source_offset(source), word, time;
    if (!read_word(source, &word)) return false;
    unsigned type = (word & 7) != 7 ? word & 7 : word & 255;
    /* The encoder of misc shifts the thread too little, so part of it is in the type. */
    if ((word & 7) == 7 && (type & MISC) == MISC && type != DEATH && type != END && type != BARRIER)
        return read_misc(source);
    switch (type) {
    case BUFFER: return read_buffer(reading, word >> 3);
    case DEATH: {
        struct wip_thread *thread = thread_of(reading, word >> 8);
        if (thread == NULL) return false;
        if (!thread->dead)
            reading->dead[reading->dead_count++] = (uint32_t)(thread - reading->threads);
        thread->dead = true;
        return read_word(source, &time);
    }
    case END: *end = true; return true;
    case BARRIER: return read_word(source, &time) && wip_raw_end_window(reading, false);
    default: return source_bad_bytes(source, offset, "an event of type 0x%x", type);
    }
}

static void wip_raw_release(struct reading *reading)
{
    for (size_t i = 0; i < reading->threads_count; i++)
        while (reading->threads[i].first != NULL) {
            struct buffer *next = reading->threads[i].first->next;
            free(reading->threads[i].first);
            reading->threads[i].first = next;
        }
    free(reading->threads);
    free(reading->queue);
    free(reading->dead);
    names_free(&reading->ids);
    names_free(&reading->waiting);
}

static bool read_wip_raw_file(struct source *source, struct call_writer *writer)
{
    struct reading reading = {.source = source, .writer = writer};
    bool end = false, good = wip_raw_recognize(source);
    if (!good) return source_bad_bytes(source, 0, "expected the number 0x6cbd63e4");
    source_skip(source, MAGIC_BYTES);
    while (good && !end && source_peek(source, 1) > 0)
        good = read_event(&reading, &end);
    /* A truncated file has complete buffers, too. */
    good = wip_raw_end_window(&reading, true) && good && !error_is_set(&source->error);
    wip_raw_release(&reading);
    return good;
}

const struct format format_wip_raw = {
    .lacks =
        "kinds of call other than malloc, memalign, realloc and free; sizes are multiples of 8",
    .threads = true,
    .recognize = wip_raw_recognize,
    .read = read_wip_raw_file,
};
