#include "tracing/core/recording_begin.h"

#include "common/trace_variables.h"
#include "tracing/core/threads.h"
#include "tracing/data/front_end.h"
#include "tracing/data/lane.h"
#include "tracing/data/large.h"
#include "tracing/data/message.h"
#include "tracing/data/notice.h"
#include "tracing/data/settings.h"
#include "tracing/data/shadow.h"
#include "tracing/os/os.h"
#include "tracing/recording/fault.h"
#include "tracing/recording/recording.h"
#include "tracing/stacks/call_stack.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* How much address space must be left, for the writer (10 MiB at first) and for the program. */
#define ADDRESS_SPACE_LEFT_BYTES ((size_t)32 << 20)
/* A thread that has run for this long since the first look at it has left the event it was in: some
 * hundred instructions, and page faults. */
#define LATE_THREAD_CPU_NS       UINT64_C(1000000)
#define LATE_THREAD_ASK_NS       UINT64_C(1000000)
/* A thread between malloctape_begin_idle() and malloctape_end_idle() may have been interrupted for
 * good: a recording that is to begin checks this many times whether it has gone on. */
#define IDLE_TRIES               100
/* How many times, and how far apart, to check whether our threads have left the process. */
#define ALONE_TRIES              1000
#define ALONE_ASK_NS             UINT64_C(100000)
/* How long all threads together get to leave their events. */
#define LATE_THREADS_NS          UINT64_C(5000000000)

/* This process forked from one that recorded, and has gone on without exec. */
static bool is_forked;

/* ---- the thread of control.c ---- */

static bool control_is_running(void)
{
    return control.running && !atomic_load_acquire(&control.done);
}

static void end_control(void)
{
    if (!control.running) return;
    atomic_store_relaxed(&control.finish, 1);
    os_thread_release(&control.thread);
    control.running = false;
}

/* ---- begin ---- */

bool recording_is_abandoned(void)
{
    return os_process_is_abandoned(control_is_running() + recording_has_writer());
}

/* Otherwise a typing error would be noticed only after the program has run for nothing. */
static void report_unknown_variables(void)
{
    struct message message;
    char name[64];
    if (settings.quiet || !settings.speaks) return;
    for (char **entry = environ; *entry; entry++) {
        if (!trace_variable_is_unknown(*entry)) continue;
        size_t bytes = strcspn(*entry, "=");
        if (bytes >= sizeof name) bytes = sizeof name - 1;
        memcpy(name, *entry, bytes);
        name[bytes] = 0;
        message_begin(&message);
        message_put(&message, "there is no variable %s", name);
        message_write(&message);
    }
}

/* Whether the lane's thread is getting a slot, or finding its stack. */
static bool is_busy(const struct malloctape_lane *lane)
{
    return atomic_load_acquire(&lane->slot.busy) || atomic_load_acquire(&lane->stacks.busy);
}

/* Whether the lane's thread has left the event of the previous recording in which it may have been.
 * Waits for that until `deadline_ns`. */
static bool has_left(const struct malloctape_lane *lane, uint64_t deadline_ns)
{
    const int thread_id = atomic_load_relaxed(&lane->registry.thread_id);
    struct os_thread_look first, now;
    if (lane == malloctape_lane || lane->registry.recording != recording.number) return true;
    bool was_busy = is_busy(lane);
    os_thread_look(thread_id, &first);
    for (now = first;; os_thread_look(thread_id, &now)) {
        const bool is_out = now.sleeps || now.cpu_ns - first.cpu_ns > LATE_THREAD_CPU_NS;
        /* Finding a new stack takes longer, and what that reads is about to be released. */
        const bool busy = is_busy(lane);
        if (now.is_gone || (is_out && !busy && !was_busy)) return true;
        /* It has yet to write what it has found: that gets as much time as any event. */
        if (was_busy && !busy) os_thread_look(thread_id, &first);
        was_busy = busy;
        if (os_clock_ns() > deadline_ns) return false;
        os_sleep(LATE_THREAD_ASK_NS);
    }
}

/* Whether all threads have left their events of the previous recording: others are about to write
 * where they wrote. After the first barrier no thread begins an event, as it sees that nothing is
 * recorded. Then each thread inside one gets time to leave it. After the second barrier all their
 * stores are visible: none can appear later, among those of the next recording. */
static bool threads_have_left(void)
{
    uint32_t used = recording.registry != NULL ? atomic_load_acquire(&recording.registry->used) : 0;
    uint64_t deadline_ns = os_clock_ns() + LATE_THREADS_NS;
    if (used) os_threads_barrier();
    for (uint32_t i = 0; i < used; i++)
        if (!has_left(lane_at(recording.registry, i), deadline_ns)) return false;
    if (used) os_threads_barrier();
    for (uint32_t i = 0; i < used; i++)
        lane_forget(lane_at(recording.registry, i));
    atomic_store_relaxed(&recording_no_lane.sizes_asked, 0);
    return true;
}

/* NULL, or what is wrong. */
static const char *memory_reserve(struct writer *writer)
{
    if (!threads_prepare()) return "no key for thread-specific data";
    if (writer->registry == NULL)
        atomic_store_release(&writer->registry, recording.registry != NULL
                                                    ? recording.registry
                                                    : lane_registry_create());
    if (writer->registry == NULL || !shadow_prepare(malloctape_front_end.cover_heap))
        return "no memory for the shadow table, or a kernel older than Linux 4.14";
    void *rest = os_memory_reserve(ADDRESS_SPACE_LEFT_BYTES);
    if (rest == NULL) return "the limit on address space would leave too little for the program";
    os_memory_release(rest, ADDRESS_SPACE_LEFT_BYTES);
    return NULL;
}

/* Keeps only what an earlier recording of this process needs already. */
static void cancel(struct writer *writer)
{
    shadow_cancel();
    if (recording.registry == NULL) lane_registry_release(writer->registry);
    writer->registry = recording.registry;
}

static const char *recording_prepare(struct writer *writer, const char *output)
{
    if (os_process_is_emulated())
        return "Valgrind runs this program and cannot run the writer thread";
    if (os_process_is_sanitized())
        return "ThreadSanitizer watches this program and would report the recorder: build it without";
    if (!threads_have_left()) return "a thread of the program is still in the previous recording";
    writer_reset(writer);
    atomic_store_relaxed(&recording.out_of_memory, false);
    recording.number++;
    large_reset();
    const char *wrong = settings_apply(writer, output, writer_bytes_min());
    recording.stacks_every_bytes = settings.stacks_every_bytes;
    recording.frees_have_stacks = settings.frees_have_stacks;
    if (wrong == NULL && recording.stacks_every_bytes) wrong = stacks_begin();
    return wrong != NULL ? wrong : memory_reserve(writer);
}

/* The state is STARTING. */
static int recording_open(const char *output, bool may_defer)
{
    struct writer *writer = &recording.writer;
    const char *wrong = recording_prepare(writer, output);
    int result = -EINVAL;
    if (wrong != NULL) {
        notice_text("not recording: %s", wrong);
    } else {
        writer->is_abandoned = recording_is_abandoned;
        writer->ends = recording_writer_ends;
        /* Only the writer notices that a limit has been reached. */
        writer->may_defer =
            may_defer && !settings.limits.bytes && !settings.limits.events && !settings.limits.ns;
        memset(recording.sequences, 0, sizeof recording.sequences);
        fault_take(recording_takes_fault);
        result = writer_start(writer);
    }
    if (result < 0) {
        cancel(writer);
        return result;
    }
    if (recording.registry == NULL) atomic_store_release(&recording.registry, writer->registry);
    shadow_begin();
    return 0;
}

/* The same. `may_defer`: the program has not asked for it just now, and may need to be the only
 * thread of its process. */
static int begin_or_stay_off(const char *output, bool may_defer)
{
    int kept_errno = errno;
    int result = recording_open(output, may_defer);
    atomic_store_relaxed(&recording.could_not_begin, result < 0);
    /* Before anything is recorded: calls past the core would change the thread caches unseen. */
    if (result == 0) malloctape_front_end.divert();
    recording_change(MALLOCTAPE_STARTING, result == 0 ? MALLOCTAPE_RECORDING : MALLOCTAPE_OFF);
    errno = kept_errno;
    return result;
}

/* The first call of the allocator in a forked child comes here. Its memory is like that of a
 * process that has not recorded yet. */
static void child_begins(void)
{
    if (atomic_exchange_acquire(&recording.registry->present, 1)) return;
    bool recorded = recording_state() == MALLOCTAPE_RECORDING && !os_is_confined();
    bool follow = recorded && output_name_has_process(settings.output);
    if (recorded && !follow) notice_for_record("unfollowed %lu %s", (uint64_t)os_process_id(), "");
    malloctape_lane = &recording_no_lane;
    atomic_store_release(&malloctape_state, follow ? MALLOCTAPE_STARTING : MALLOCTAPE_OFF);
    if (!is_forked) settings_fork();
    is_forked = true;
    settings.speaks = settings.controlled = false;
    writer_forget(&recording.writer);
    control.thread.alive = 0;
    end_control();
    if (follow) begin_or_stay_off(settings.output, true);
}

bool recording_is_forked(void)
{
    return is_forked;
}

void recording_notice_fork(void)
{
    if (atomic_load_acquire(&recording.registry) != NULL && recording_own_registry() == NULL)
        child_begins();
}

/* ---- the process is about to be confined ---- */

void recording_needs_writer(void)
{
    recording_notice_fork();
    if (recording_is_own() && recording_state() == MALLOCTAPE_RECORDING)
        writer_need_now(&recording.writer);
}

static void end_all_threads(const char *reason)
{
    if (recording_is_own()) {
        recording.writer.reason = reason;
        recording_finish();
        os_thread_release(&recording.writer.thread);
    }
    end_control();
}

void recording_end_for_filter(void)
{
    recording_notice_fork();
    end_all_threads("; ended before the program put all threads under a seccomp filter");
}

bool recording_end_to_be_alone(void)
{
    recording_notice_fork();
    unsigned own = control_is_running() + recording_has_writer();
    if (os_is_confined() || own == 0 || os_process_threads() != own + 1) return false;
    end_all_threads("; ended because the program needs to be single-threaded");
    /* They have left their memory, but not yet the process. */
    for (unsigned i = 0; i < ALONE_TRIES && os_process_threads() != 1; i++)
        os_sleep(ALONE_ASK_NS);
    return true;
}

int recording_begin(const char *output)
{
    atomic_store_relaxed(&malloctape_may_begin, 1);
    for (unsigned i = 0; i < IDLE_TRIES && recording_state() == MALLOCTAPE_STARTING; i++)
        os_wait(&malloctape_state, MALLOCTAPE_STARTING, LATE_THREAD_ASK_NS);
    recording_notice_fork();
    if (output == NULL) output = settings.output[0] ? settings.output : "%e.%p.raw.lz4";
    recording_settle();
    if (os_is_confined()) return -EPERM;
    if (!recording_change(MALLOCTAPE_OFF, MALLOCTAPE_STARTING)) return -EBUSY;
    return begin_or_stay_off(output, false);
}

int recording_begin_given(const char *name, const struct os_files *files)
{
    settings.is_given = true;
    settings.given = *files;
    int result = recording_begin(name);
    settings.is_given = false;
    return result;
}

int recording_reset(const char *output)
{
    recording_notice_fork();
    recording_end();
    settings.is_reset = true;
    int result = recording_begin(output);
    settings.is_reset = false;
    return result;
}

void recording_decide(void)
{
    static uint32_t deciding;
    if (recording_state() != MALLOCTAPE_UNDECIDED || environ == NULL ||
        atomic_exchange_acquire(&deciding, 1))
        return;
    int kept_errno = errno;
    os_message_begin();
    settings_read();
    report_unknown_variables();
    bool wanted = settings.output[0] || settings.too_long;
    recording_change(MALLOCTAPE_UNDECIDED, wanted ? MALLOCTAPE_STARTING : MALLOCTAPE_OFF);
    /* A process with a control thread has more than one thread anyway. */
    if (wanted)
        begin_or_stay_off(settings.output, !settings.controlled);
    else
        notice_for_record("unfollowed %lu %s", (uint64_t)os_process_id(), settings.program);
    settings.controlled = settings.controlled && threads_prepare() && !os_process_is_emulated();
    if (wanted || settings.controlled) atomic_store_relaxed(&malloctape_may_begin, 1);
    errno = kept_errno;
}

int recording_attach(const char *given)
{
    recording_decide();
    if (os_is_confined() || os_process_is_emulated() || !threads_prepare()) return -EPERM;
    if (control_is_running() && !atomic_load_relaxed(&control.finish)) return 1;
    settings_attach(given);
    atomic_store_relaxed(&malloctape_may_begin, 1);
    end_control();
    return settings.wrong.bytes ? -EINVAL : 0;
}
