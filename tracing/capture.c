/* capture - life of a recording: start, threads, events off the hot path, end. See capture.h. */
#include "capture.h"

#include "lane.h"
#include "message.h"
#include "os.h"
#include "writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Stamps of an event may need more words than the event itself; beyond this margin they take a
 * new slot. */
#define LIMIT_MARGIN_WORDS 32
#define PATH_BYTES_MAX     4096
#define METADATA_BYTES_MAX 8192

_Static_assert(LIMIT_MARGIN_WORDS > 2 * MALLOCTAPE_EVENT_WORDS_MAX,
               "an event always fits behind the limit");

static struct malloctape_lane lane_none;
MALLOCTAPE_THREAD_LOCAL struct malloctape_lane *malloctape_lane = &lane_none;
uint32_t malloctape_state;

static struct {
    struct writer writer;
    struct lane_registry *registry;
    pthread_key_t thread_key;
    bool end_arranged;
    uint64_t stamps[RAW_STRUCTURES]; /* each under the lock of its structure */
    char output[PATH_BYTES_MAX];
    char spool_path[PATH_BYTES_MAX + 8];
    char metadata[METADATA_BYTES_MAX];
} capture;

/* --- threads --- */

/* Runs among the other destructors of thread-specific data, in up to four rounds; what comes
 * after the last one (frees by libc) is still recorded in the lane. */
static void thread_ends(void *value)
{
    struct malloctape_lane *lane = value;
    if (lane != malloctape_lane) return;
    if (++lane->exit_rounds < 4)
        pthread_setspecific(capture.thread_key, lane);
    else
        lane_end(capture.registry, lane);
}

static void put_word(struct malloctape_lane *lane, uint64_t word)
{
    *lane->cursor = word;
    atomic_store_release(&lane->cursor, lane->cursor + 1);
}

/* An error has ended the writer: from now on the program goes past the capture core. */
static void stop_recording(void)
{
    uint32_t expected = MALLOCTAPE_RECORDING;
    __atomic_compare_exchange_n(&malloctape_state, &expected, MALLOCTAPE_OFF, 0, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

/* Gives the lane a new slot. False: recording has ended. */
static bool take_slot(struct malloctape_lane *lane)
{
    struct spool *spool = &capture.writer.spool;
    bool done = atomic_load_acquire(&capture.writer.done);
    uint32_t slot = done ? SPOOL_NO_SLOT : writer_slot(&capture.writer);
    if (slot == SPOOL_NO_SLOT) {
        if (atomic_load_acquire(&capture.writer.done)) stop_recording();
        return false;
    }
    spool_begin(spool, slot, lane->number, lane->slots++, raw_token_serial(lane->next_token) - 1);
    uint64_t *words = spool_words(spool, slot);
    if (lane->slot == SPOOL_NO_SLOT) {
        lane->read_slot = slot;
        lane->read_from = words;
    } else {
        spool_end(spool, lane->slot, (uint32_t)(lane->cursor - spool_words(spool, lane->slot)),
                  slot);
    }
    lane->slot = slot;
    lane->end = words + SPOOL_SLOT_WORDS;
    atomic_store_release(&lane->cursor, words);
    atomic_store_relaxed(&lane->limit, lane->end - LIMIT_MARGIN_WORDS);
    return true;
}

/* Gives the calling thread a lane. False: there is none. */
static bool begin_thread(void)
{
    bool continued;
    int thread_id = os_thread_id();
    struct malloctape_lane *lane = lane_claim(capture.registry, thread_id, &continued);
    if (!lane) {
        atomic_add_relaxed(&capture.writer.lost_events, 1);
        return false;
    }
    lane->busy = 1;
    malloctape_lane = lane;
    bool has_room = lane->cursor < lane->limit || take_slot(lane);
    if (has_room) {
        if (continued && !lane->ended) put_word(lane, raw_word(RAW_THREAD_END, 0));
        put_word(lane, raw_word(RAW_THREAD_BEGIN, (uint64_t)thread_id));
    }
    lane->ended = 0;
    /* Early enough to get one of the keys whose values need no memory. */
    pthread_setspecific(capture.thread_key, lane);
    lane->busy = 0;
    return has_room;
}

/* --- start and end --- */

/* Appends `text` up to its end or its first line break, as far as there is room. */
static void append_metadata(struct writer *writer, const char *text)
{
    while (*text && *text != '\n' && writer->metadata_bytes < sizeof capture.metadata - 1)
        capture.metadata[writer->metadata_bytes++] = *text++;
}

/* One line of FORMAT.md 4.1. */
static void append_metadata_line(struct writer *writer, const char *prefix, const char *key,
                                 const char *value)
{
    append_metadata(writer, prefix);
    append_metadata(writer, key);
    append_metadata(writer, "=");
    append_metadata(writer, value);
    capture.metadata[writer->metadata_bytes] = '\n';
    if (writer->metadata_bytes < sizeof capture.metadata - 1) writer->metadata_bytes++;
}

static void collect_metadata(struct writer *writer)
{
    writer->metadata = capture.metadata;
    append_metadata_line(writer, "", "program", program_invocation_name);
    append_metadata_line(writer, "", "allocator", malloctape_front_end.allocator);
    for (const char *const *name = malloctape_front_end.settings; *name; name++) {
        const char *value = getenv(*name);
        if (value) append_metadata_line(writer, "env.", *name, value);
    }
}

/* Ends the recording, if this process is the one that records. Any thread; keeps errno. */
static void finish(void)
{
    uint32_t expected = MALLOCTAPE_RECORDING;
    if (!capture.registry || !capture.registry->present ||
        os_process_id() != capture.writer.process_id)
        return;
    if (!__atomic_compare_exchange_n(&malloctape_state, &expected, MALLOCTAPE_ENDING, 0,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        while (expected == MALLOCTAPE_ENDING && !atomic_load_acquire(&capture.writer.done))
            os_wait(&capture.writer.done, 0, WRITER_TICK_NS);
        return;
    }
    uint32_t used = atomic_load_acquire(&capture.registry->used);
    for (uint32_t i = 0; i < used; i++)
        atomic_store_relaxed(&capture.registry->lanes[i].limit, NULL);
    writer_finish(&capture.writer);
    atomic_store_release(&malloctape_state, MALLOCTAPE_OFF);
}

static void finish_at_exit(void *unused)
{
    (void)unused;
    finish();
}

/* The environment must not make a process that this one starts write into the same file, so the
 * value is taken out of it. */
static void take_output(char *value)
{
    size_t bytes = strlen(value);
    if (bytes < sizeof capture.output) {
        memcpy(capture.output, value, bytes + 1);
        /* Absolute if that is possible: the program may be in another directory when the spool is removed. */
        char *spool = capture.spool_path;
        if (value[0] != '/' && bytes + 7 < PATH_BYTES_MAX)
            spool += os_current_directory(spool, PATH_BYTES_MAX - bytes - 7);
        memcpy(spool, value, bytes);
        memcpy(spool + bytes, ".spool", 7);
    }
    value[0] = 0;
}

static void report_not_recording(const char *why)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "not recording: ");
    message_text(&message, why);
    message_write(&message);
}

static bool start(const char *value)
{
    struct writer *writer = &capture.writer;
    take_output((char *)value);
    if (!capture.output[0]) {
        report_not_recording("the name of the output is too long");
        return false;
    }
    writer->quiet = secure_getenv("TCMALLOC_TRACE_QUIET") != NULL;
    writer->output = capture.output;
    writer->spool_path = capture.spool_path;
    writer->process_id = os_process_id();
    writer->heap_bytes = malloctape_front_end.heap_bytes;
    os_random(writer->run_id, sizeof writer->run_id);
    collect_metadata(writer);
    capture.registry = writer->registry = lane_registry_create();
    if (!shadow_begin() || !capture.registry ||
        pthread_key_create(&capture.thread_key, thread_ends)) {
        report_not_recording("no memory for the shadow table");
        return false;
    }
    malloctape_front_end.cover_heap();
    return writer_start(writer);
}

/* Reads the environment once, as soon as there is one. */
static void decide(void)
{
    static uint32_t deciding;
    if (!environ || __atomic_exchange_n(&deciding, 1, __ATOMIC_ACQUIRE)) return;
    int kept_errno = errno;
    const char *value = secure_getenv("TCMALLOC_TRACE_OUTPUT");
    bool recording = value && value[0] && start(value);
    atomic_store_release(&malloctape_state, recording ? MALLOCTAPE_RECORDING : MALLOCTAPE_OFF);
    errno = kept_errno;
}

extern int __cxa_at_quick_exit(void (*function)(void *), void *library);

__attribute__((constructor)) static void library_begins(void)
{
    if (atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_UNDECIDED) decide();
    /* quick_exit() ends the process without destructors, and not through our _exit(). What is registered
     * now runs after what the program registers. */
    if (atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_RECORDING)
        __cxa_at_quick_exit(finish_at_exit, NULL);
}

extern int __cxa_atexit(void (*function)(void *), void *argument, void *library);

/* Destructors of other libraries may run after this one and still call the allocator. A handler
 * that is registered now runs after all of them. */
__attribute__((destructor)) static void library_ends(void)
{
    if (atomic_load_relaxed(&malloctape_state) != MALLOCTAPE_RECORDING || capture.end_arranged)
        return;
    capture.end_arranged = true;
    if (__cxa_atexit(finish_at_exit, NULL, NULL) != 0) finish();
}

/* These end the process without destructors. In a vfork child, which shares our memory, finish()
 * does nothing. */
__attribute__((visibility("default"))) void _exit(int status)
{
    finish();
    os_process_exit(status);
}

__attribute__((visibility("default"))) void _Exit(int status)
{
    finish();
    os_process_exit(status);
}

/* --- events, off the hot path --- */

/* Room for one event. The first event of a thread and the first after its slot is full come here,
 * and in a forked child every event until it has noticed. */
static __attribute__((noinline)) bool make_room(struct malloctape_lane *lane)
{
    if (lane->busy) return false;
    if (atomic_load_acquire(&malloctape_state) == MALLOCTAPE_UNDECIDED) decide();
    if (atomic_load_acquire(&malloctape_state) != MALLOCTAPE_RECORDING) return false;
    if (!capture.registry->present) { /* forked */
        malloctape_lane = &lane_none;
        atomic_store_release(&malloctape_state, MALLOCTAPE_OFF);
        return false;
    }
    if (lane == &lane_none) return begin_thread();
    lane->busy = 1;
    bool has_room = take_slot(lane);
    lane->busy = 0;
    return has_room;
}

bool malloctape_ready(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    return lane->cursor < lane->limit || make_room(lane);
}

static uint64_t *token_place(const void *object)
{
    struct shadow_page *page = shadow_page_of(object);
    uint64_t *tokens = atomic_load_acquire(&page->tokens);
    return tokens ? tokens + shadow_index(page, object) : NULL;
}

static void set_token(const void *object, uint64_t token)
{
    uint64_t *place = token_place(object);
    if (place) *place = token;
}

/* Writes a record of `count` words; the first one last, because it makes the record valid. */
static void put_record(struct malloctape_lane *lane, const uint64_t *words, unsigned count)
{
    uint64_t *cursor = lane->cursor;
    for (unsigned i = count; i-- > 1;)
        cursor[i] = words[i];
    atomic_store_release(cursor, words[0]);
    atomic_store_release(&lane->cursor, cursor + count);
}

/* The lane of the calling thread with room for an event, NULL if recording has ended meanwhile. */
static struct malloctape_lane *lane_with_room(void)
{
    return malloctape_ready() ? malloctape_lane : NULL;
}

static const bool has_alignment[CALL_KINDS] = {
#define ALIGNMENT_ENTRY(number, identifier, name, shape) \
    [number] = SHAPE_##shape == SHAPE_BIRTH_ALIGNED,
    CALL_KIND_LIST(ALIGNMENT_ENTRY)
#undef ALIGNMENT_ENTRY
};

void malloctape_born(unsigned kind, uint64_t size, uint64_t alignment, const void *object)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) {
        if (object) malloctape_born_unrecorded(object);
        return;
    }
    if (!object) {
        put_record(lane, (uint64_t[]){raw_word(RAW_FAILED, kind), size, alignment, 0}, 4);
        return;
    }
    set_token(object, lane->next_token++);
    /* By the kind and not by the operand: a program may ask for an alignment of 0. */
    put_record(lane, (uint64_t[]){raw_word(kind, size), alignment}, has_alignment[kind] ? 2 : 1);
}

void malloctape_born_unrecorded(const void *object)
{
    if (shadow_has_begun()) set_token(object, RAW_TOKEN_UNKNOWN);
}

uint64_t malloctape_token_of(const void *object)
{
    uint64_t *place = token_place(object);
    return place ? *place : RAW_TOKEN_UNKNOWN;
}

static const uint8_t operands_of_death[CALL_KINDS] = {
#define OPERANDS_ENTRY(number, identifier, name, shape)         \
    [number] = SHAPE_##shape == SHAPE_DEATH_SIZED           ? 1 \
               : SHAPE_##shape == SHAPE_DEATH_ALIGNED       ? 2 \
               : SHAPE_##shape == SHAPE_DEATH_SIZED_ALIGNED ? 3 \
                                                            : 0,
    CALL_KIND_LIST(OPERANDS_ENTRY)
#undef OPERANDS_ENTRY
};

void malloctape_dies(unsigned kind, uint64_t token, uint64_t size, uint64_t alignment)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) return;
    uint64_t words[3] = {raw_word(kind, token)};
    unsigned count = 1;
    if (operands_of_death[kind] & 1) words[count++] = size;
    if (operands_of_death[kind] & 2) words[count++] = alignment;
    put_record(lane, words, count);
}

void malloctape_reallocated(unsigned kind, uint64_t token, uint64_t size, const void *object)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) {
        if (object) malloctape_born_unrecorded(object);
        return;
    }
    if (!object) {
        put_record(lane, (uint64_t[]){raw_word(RAW_FAILED, kind), size, 0, token}, 4);
        return;
    }
    set_token(object, lane->next_token++);
    put_record(lane, (uint64_t[]){raw_word(kind, token), size}, 2);
}

void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
{
    struct malloctape_lane *lane = lane_with_room();
    if (lane) put_record(lane, (uint64_t[]){raw_word(kind, count), first, second}, 3);
}

void malloctape_stamp(unsigned structure)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane->limit || lane->busy) return;
    if (lane->cursor == lane->end) {
        lane->busy = 1;
        bool has_room = take_slot(lane);
        lane->busy = 0;
        if (!has_room) return;
    }
    uint64_t number = capture.stamps[structure] + 1;
    unsigned record = lane->allocating ? RAW_STAMP_BEFORE : RAW_STAMP_AFTER;
    put_word(lane, raw_word(record, raw_stamp_value(structure, number)));
    capture.stamps[structure] = number;
}

void malloctape_thread_cache_deleted(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane->limit && malloctape_ready()) put_word(lane, raw_word(RAW_THREAD_CACHE_DELETED, 0));
}
