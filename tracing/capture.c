/* capture - life of a recording: start, threads, end. See capture.h. */
#include "message.h"
#include "os.h"
#include "recording.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX     4096
#define METADATA_BYTES_MAX 8192
#define HOST_BYTES_MAX     65 /* as the kernel has it */
/* How long the writer waits for a reader who does not come or does not read. */
#define READER_SECONDS     30
#define SECONDS_MAX        UINT64_C(100000000)

static struct malloctape_lane lane_none;
MALLOCTAPE_THREAD_LOCAL struct malloctape_lane *malloctape_lane = &lane_none;
uint32_t malloctape_state;
struct recording recording;

static struct {
    pthread_key_t thread_key;
    bool end_arranged;
    char output[PATH_BYTES_MAX];
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
        lane_end(recording.registry, lane);
}

/* Gives the calling thread a lane. False: there is none. */
static bool begin_thread(void)
{
    bool continued;
    int thread_id = os_thread_id();
    struct malloctape_lane *lane = lane_claim(recording.registry, thread_id, &continued);
    if (!lane) {
        atomic_add_relaxed(&recording.writer.lost_events, 1);
        return false;
    }
    lane->busy = 1;
    malloctape_lane = lane;
    bool has_room = lane->cursor < lane->room || record_take_slot(lane);
    if (has_room) {
        if (continued && !lane->ended) record_thread_end(lane);
        record_thread_begin(lane, thread_id);
    }
    lane->ended = 0;
    /* Early enough to get one of the keys whose values need no memory. */
    pthread_setspecific(capture.thread_key, lane);
    lane->busy = 0;
    return has_room;
}

/* --- start and end --- */

void recording_stop(void)
{
    uint32_t expected = MALLOCTAPE_RECORDING;
    __atomic_compare_exchange_n(&malloctape_state, &expected, MALLOCTAPE_OFF, 0, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

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
    if (!recording.registry || !recording.registry->present ||
        os_process_id() != recording.writer.process_id)
        return;
    if (!__atomic_compare_exchange_n(&malloctape_state, &expected, MALLOCTAPE_ENDING, 0,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        while (expected == MALLOCTAPE_ENDING && !atomic_load_acquire(&recording.writer.done))
            os_wait(&recording.writer.done, 0, WRITER_TICK_NS);
        return;
    }
    uint32_t used = atomic_load_acquire(&recording.registry->used);
    for (uint32_t i = 0; i < used; i++)
        atomic_store_relaxed(&lane_at(recording.registry, i)->limit, NULL);
    writer_finish(&recording.writer);
    atomic_store_release(&malloctape_state, MALLOCTAPE_OFF);
}

static void finish_at_exit(void *unused)
{
    (void)unused;
    finish();
}

static void report_not_recording(const char *why)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "not recording: ");
    message_text(&message, why);
    message_write(&message);
}

/* The environment must not make a process that this one starts write into the same file, so the
 * value is taken out of it. Returns what is wrong with it, else NULL. */
static const char *take_output(char *value)
{
    char host[HOST_BYTES_MAX];
    os_host_name(host, sizeof host);
    struct output_names names = {.process_id = os_process_id(),
                                 .host = host,
                                 .time_s = os_wall_clock_ns() / UINT64_C(1000000000),
                                 .program = program_invocation_name};
    int result = output_name_expand(value, &names, capture.output, sizeof capture.output);
    value[0] = 0;
    if (result == -EINVAL) return "the name of the output has a % that is none of %p %h %t %e %%";
    return result < 0 ? "the name of the output is too long" : NULL;
}

/* A number of seconds in the environment. */
static uint64_t seconds_ns(const char *name, uint64_t otherwise)
{
    const char *text = secure_getenv(name);
    uint64_t seconds = 0;
    if (!text || !*text) return otherwise * UINT64_C(1000000000);
    for (; *text >= '0' && *text <= '9' && seconds < SECONDS_MAX; text++)
        seconds = seconds * 10 + (uint64_t)(*text - '0');
    return (*text ? otherwise : seconds) * UINT64_C(1000000000);
}

static const char *scratch_directory(void)
{
    const char *directory = secure_getenv("TMPDIR");
    return directory && directory[0] == '/' ? directory : "/tmp";
}

static bool start(const char *value)
{
    struct writer *writer = &recording.writer;
    const char *wrong = take_output((char *)value);
    if (wrong) {
        report_not_recording(wrong);
        return false;
    }
    writer->quiet = secure_getenv("TCMALLOC_TRACE_QUIET") != NULL;
    writer->output = capture.output;
    writer->scratch = scratch_directory();
    writer->patience_ns = seconds_ns("TCMALLOC_TRACE_READER_SECONDS", READER_SECONDS);
    writer->process_id = os_process_id();
    writer->heap_bytes = malloctape_front_end.heap_bytes;
    os_random(writer->run_id, sizeof writer->run_id);
    collect_metadata(writer);
    recording.registry = writer->registry = lane_registry_create();
    if (!shadow_begin() || !recording.registry ||
        pthread_key_create(&capture.thread_key, thread_ends)) {
        report_not_recording("no memory for the shadow table");
        return false;
    }
    if (!malloctape_front_end.cover_heap()) {
        report_not_recording("no memory for the shadow table");
        return false;
    }
    return writer_start(writer);
}

/* Reads the environment once, as soon as there is one. */
static void decide(void)
{
    static uint32_t deciding;
    if (!environ || __atomic_exchange_n(&deciding, 1, __ATOMIC_ACQUIRE)) return;
    int kept_errno = errno;
    const char *value = secure_getenv("TCMALLOC_TRACE_OUTPUT");
    bool started = value && value[0] && start(value);
    atomic_store_release(&malloctape_state, started ? MALLOCTAPE_RECORDING : MALLOCTAPE_OFF);
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

/* --- the way to an event --- */

/* Room for one event. The first event of a thread and the first after its slot is full come here,
 * every event while the hot path is off, and in a forked child every event until it has noticed. */
static __attribute__((noinline)) bool make_room(struct malloctape_lane *lane)
{
    if (lane->busy) return false;
    if (atomic_load_acquire(&malloctape_state) == MALLOCTAPE_UNDECIDED) decide();
    if (atomic_load_acquire(&malloctape_state) != MALLOCTAPE_RECORDING) return false;
    if (!recording.registry->present) { /* forked */
        malloctape_lane = &lane_none;
        atomic_store_release(&malloctape_state, MALLOCTAPE_OFF);
        return false;
    }
    if (lane == &lane_none) return begin_thread();
    if (lane->cursor < lane->room) return true;
    lane->busy = 1;
    bool has_room = record_take_slot(lane);
    lane->busy = 0;
    return has_room;
}

bool malloctape_ready(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    return lane->cursor < lane->limit || make_room(lane);
}
