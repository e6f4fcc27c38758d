#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "common/bytes.h"
#include "stream/checksum.h"
#include "tracing/data/notice.h"
#include "tracing/data/settings.h"
#include "tracing/data/shadow.h"
#include "tracing/os/probes.h"

#include <errno.h>
#include <string.h>

/* How often the writer checks whether somebody reads a FIFO. */
#define READER_LOOK_NS UINT64_C(10000000)
#define SLEEP_NS_MIN   UINT64_C(100000)
/* Nobody wakes the writer from a sleep no longer than this: waking costs the thread more than the
 * wait. */
#define NAP_NS_MAX     UINT64_C(400000)
/* How often a thread that waits for a slot looks by itself: one that was woken for it may never
 * take it (a signal handler that does not return). Thousands may wait. */
#define WAITER_LOOK_NS UINT64_C(1000000000)
/* The same of one that waits for a cell. */
#define CELL_LOOK_NS   UINT64_C(1000000)
/* So often, which is longer than the writer waits for a cell: one that has not freed any then waits
 * itself, for a reader or a full disk. */
#define CELL_LOOKS_MAX 2000u
/* How many slots a pass is to find. More would take much of the caches from the program, as slots
 * are filled and written in turn; fewer would not be worth the microseconds that a pass costs. */
#define PASS_SLOTS_MIN 2
#define PASS_SLOTS_MAX 4

static void writer_wake(struct writer *writer)
{
    if (atomic_exchange_seq_cst(&writer->asleep, 0)) os_wake_all(&writer->asleep);
}

/* Releases what was taken by the thread, or by whoever opened its files for it. */
static void writer_release(struct writer *writer)
{
    spool_close(&writer->spool);
    sink_release(&writer->sink);
    packer_release(&writer->packer);
}

/* ---- the output ---- */

static void put_header(struct writer *writer)
{
    uint8_t *header = sink_room(&writer->sink, RAW_HEADER_BYTES + settings.metadata_bytes);
    uint8_t *metadata = header + RAW_HEADER_BYTES;
    memset(header, 0, RAW_HEADER_BYTES);
    bytes_put64(header + RAW_HEADER_MAGIC, RAW_MAGIC);
    bytes_put16(header + RAW_HEADER_VERSION_MAJOR, RAW_VERSION_MAJOR);
    bytes_put16(header + RAW_HEADER_VERSION_MINOR, RAW_VERSION_MINOR);
    bytes_put32(header + RAW_HEADER_METADATA_BYTES, (uint32_t)settings.metadata_bytes);
    bytes_put64(header + RAW_HEADER_FEATURES, writer->features);
    bytes_put64(header + RAW_HEADER_INFO, RAW_INFO_MAPPINGS);
    memcpy(header + RAW_HEADER_RECORDING_ID, writer->recording_id, RAW_RECORDING_ID_BYTES);
    bytes_put64(header + RAW_HEADER_START_NS,
                os_wall_clock_ns() - (os_clock_ns() - writer->start_ns));
    bytes_put32(header + RAW_HEADER_PID, (uint32_t)writer->process_id);
    memcpy(metadata, settings.metadata, settings.metadata_bytes);
    bytes_put32(header + RAW_HEADER_CHECKSUM,
                checksum_of_two(header, RAW_HEADER_CHECKSUM, metadata, settings.metadata_bytes));
    sink_commit(&writer->sink, RAW_HEADER_BYTES + settings.metadata_bytes);
}

static int begin_stream(struct writer *writer)
{
    int result = sink_open(&writer->sink, writer->files.file);
    if (writer_check(writer, result, writer->output) < 0) return result;
    put_header(writer);
    writer_put_found(writer);
    return writer_check(writer, sink_flush(&writer->sink), writer->output);
}

static int open_files(struct writer *writer)
{
    struct output_files *files = &writer->files;
    *files = (struct output_files){.name = writer->output,
                                   .scratch = settings.scratch,
                                   .keeps_others = settings.keeps_others,
                                   .given = settings.is_given ? settings.given : OS_NO_FILES};
    memcpy(&files->id, writer->recording_id, sizeof files->id);
    int result = output_make(files);
    if (writer_check(writer, result, files->failed) < 0) return result;
    result = spool_open(&writer->spool, files->spool, writer->recording_id, writer->process_id,
                        writer->features, recording.number);
    if (writer_check(writer, result, files->spool_path) < 0) return result;
    result = output_start(files);
    if (writer_check(writer, result, files->failed) < 0) return result;
    writer->sink.has_reader = files->has_reader;
    writer->sink.patience_ns = settings.patience_ns;
    writer->sink.meanwhile = writer_grow_meanwhile;
    writer->sink.meanwhile_argument = writer;
    if (files->kind == OUTPUT_FIFO) return 0;
    result = begin_stream(writer);
    if (result < 0) return result;
    while ((result = output_settle(files)) == -EEXIST && settings_next_output())
        output_rename(files);
    return writer_check(writer, result, files->failed);
}

/* If it fails, an older recording of the same name is left as it was. */
static int open_all(struct writer *writer)
{
    writer->start_ns = os_clock_ns();
    writer->start_cycles = arch_clock();
    writer->next_tick_ns = writer->start_ns + WRITER_TICK_NS;
    packer_init(&writer->packer,
                &(struct pack_source){malloctape_front_end.class_of_size, shadow_block_class(0),
                                      os_memory_reserve, os_memory_release,
                                      (writer->features & RAW_FEATURE_OPAQUE) != 0});
    writer->sink.is_opaque = writer->features & RAW_FEATURE_OPAQUE;
    int result = sink_prepare(&writer->sink);
    if (writer_check(writer, result, "memory") < 0) return result;
    result = open_files(writer);
    if (result < 0) output_discard(&writer->files);
    return result;
}

/* Makes the output and the spool. A FIFO may have no reader yet. On an error, which has been
 * reported, an older recording of the same name is left as it was. */
static int writer_open_output(struct writer *writer)
{
    int result = open_all(writer);
    if (result < 0) writer_report_failure(writer, "not recording: ");
    return result;
}

/* Once the files are there, and before the program can go on, and end. */
static void tell_begin(struct writer *writer)
{
    struct os_file_status made = writer->files.file_status;
    if (writer->files.kind != OUTPUT_NEW_FILE && writer->files.kind != OUTPUT_FIFO)
        os_file_look_at(writer->files.file, &made);
    notice_for_record("begin %lu %lu %lu %s", (uint64_t)writer->process_id, made.device, made.inode,
                      writer->output);
    writer->is_told = true;
    PROBE(recording_begin, writer->output, writer->process_id);
}

/* For a thread whose beginning was deferred: opens the files again. */
static int reopen_output(struct writer *writer)
{
    int result = output_reopen(&writer->files);
    writer->sink.file = writer->files.file;
    writer->spool.file = writer->files.spool;
    return writer_check(writer, result, writer->files.failed);
}

/* Waits for the reader of a FIFO. Meanwhile the threads go on into the spool: all that they need of
 * the writer is that it grows. */
static int await_reader(struct writer *writer)
{
    int result;
    while ((result = output_connect(&writer->files)) == -ENXIO) {
        if (settings.patience_ns && os_clock_ns() - writer->start_ns >= settings.patience_ns)
            return writer_check(writer, -ETIMEDOUT, writer->output);
        writer_grow_if_needed(writer);
        if (writer_error(writer)) return writer_error(writer);
        atomic_store_seq_cst(&writer->asleep, 1);
        if (!atomic_load_seq_cst(&writer->starved)) os_wait(&writer->asleep, 1, READER_LOOK_NS);
    }
    if (writer_check(writer, result, writer->output) < 0) return result;
    result = begin_stream(writer);
    if (result < 0) os_file_close(writer->files.file);
    return result;
}

/* ---- threads' side ---- */

/* Returns as soon as the word has another value, or the thread is gone. */
static void wait_while(struct writer *writer, const uint32_t *word, uint32_t value)
{
    while (atomic_load_acquire(word) == value && !writer_is_gone(writer)) {
        writer_need(writer);
        os_wait(word, value, WRITER_TICK_NS);
    }
}

static uint32_t wait_for_slot(struct writer *writer, uint64_t at_most_ns)
{
    uint64_t since = os_clock_ns();
    uint32_t slot;
    atomic_add_relaxed(&writer->waits, 1);
    atomic_add_seq_cst(&writer->waiters, 1);
    for (;;) {
        uint32_t epoch = atomic_load_seq_cst(&writer->space_epoch);
        slot = spool_take(&writer->spool);
        if (slot != SPOOL_NO_SLOT || atomic_load_acquire(&writer->finish) || writer_is_gone(writer))
            break;
        atomic_store_seq_cst(&writer->starved, 1);
        writer_wake(writer);
        writer_need(writer);
        /* A confined thread does not know the time. */
        if (at_most_ns && (os_is_confined() || os_clock_ns() - since >= at_most_ns)) break;
        os_wait(&writer->space_epoch, epoch, at_most_ns ? at_most_ns : WAITER_LOOK_NS);
    }
    atomic_add_relaxed(&writer->waiters, -1);
    uint64_t waited_ns = os_clock_ns() - since;
    atomic_add_relaxed(&writer->waited_ns, waited_ns);
    PROBE(slot_waited, slot, waited_ns);
    return slot;
}

uint32_t writer_slot(struct writer *writer, bool loses_already)
{
    uint32_t slot = spool_take(&writer->spool);
    if (slot == SPOOL_NO_SLOT) {
        if (!settings.loses) return wait_for_slot(writer, 0);
        if (!loses_already && !atomic_load_relaxed(&writer->cannot_grow))
            return wait_for_slot(writer, WRITER_LOSES_AFTER_NS);
        atomic_store_seq_cst(&writer->starved, 1);
        writer_wake(writer);
        return SPOOL_NO_SLOT;
    }
    if (atomic_load_relaxed(&writer->spool.free_count) < SPOOL_EXTENT_SLOTS / 2)
        writer_wake(writer);
    return slot;
}

/* Waits until cells are free again. False: not in time, or they will not be: the mapping is lost. After
 * that nobody waits until some have been freed. */
static bool wait_for_cells(struct writer *writer, uint32_t epoch, uint64_t freed, unsigned waited)
{
    struct spool_cells *cells = &writer->spool.cells;
    if (settings.loses || atomic_load_acquire(&writer->finish) || writer_is_gone(writer) ||
        atomic_load_relaxed(&cells->late) == freed + 1)
        return false;
    if (waited == CELL_LOOKS_MAX) {
        atomic_store_relaxed(&cells->late, freed + 1);
        return false;
    }
    atomic_store_seq_cst(&cells->wanted, 1);
    writer_wake(writer);
    writer_need(writer);
    atomic_add_seq_cst(&writer->waiters, 1);
    os_wait(&writer->space_epoch, epoch, CELL_LOOK_NS);
    atomic_add_relaxed(&writer->waiters, -1);
    return true;
}

/* A thread waits before it has cells: those that it did not fill would stop all others. */
uint64_t writer_cells(struct writer *writer, uint32_t of_recording, uint32_t count,
                      struct cell_ring *ring)
{
    struct spool_cells *cells = &writer->spool.cells;
    const uint64_t first = spool_cells_first(of_recording);
    for (unsigned waited = 0;;) {
        const uint32_t epoch = atomic_load_seq_cst(&writer->space_epoch);
        uint64_t taken = atomic_load_acquire(&cells->taken);
        const uint64_t freed = atomic_load_acquire(&cells->freed);
        const uint64_t ahead = taken - first + count - freed;
        if (!first || taken >> SPOOL_CELLS_NUMBER_BITS != first >> SPOOL_CELLS_NUMBER_BITS)
            return 0;
        *ring = (struct cell_ring){atomic_load_acquire(&cells->ring.words), SPOOL_CELLS};
        if (ahead > SPOOL_CELLS) {
            if (wait_for_cells(writer, epoch, freed, waited++)) continue;
            /* What comes after the end is not in the recording, and not lost. */
            if (!atomic_load_acquire(&writer->finish)) atomic_add_relaxed(&cells->lost, 1);
            return 0;
        }
        if (!atomic_swap_once(&cells->taken, &taken, taken + count)) continue;
        if (ahead > SPOOL_CELLS / 2 && !atomic_exchange_seq_cst(&cells->wanted, 1)) {
            writer_wake(writer);
            writer_need(writer);
        }
        return taken - first + 1;
    }
}

/* The error comes first: whoever reads zeros finds it. */
bool writer_takes_fault(struct writer *writer, uintptr_t address)
{
    size_t bytes;
    void *extent = spool_extent_at(&writer->spool, address, &bytes);
    if (extent == NULL) return false;
    if (!atomic_load_relaxed(&writer->error)) {
        atomic_store_relaxed(&writer->failed, writer->files.spool_path);
        atomic_store_seq_cst(&writer->error, -EFAULT);
    }
    if (!os_file_unmap(extent, bytes)) return false;
    writer_wake(writer);
    return true;
}

void writer_abort(struct writer *writer, int error, const char *what)
{
    atomic_store_relaxed(&writer->failed, what);
    atomic_store_release(&writer->error, error);
    writer_need(writer);
    writer_wake(writer);
}

/* ---- the loop ---- */

static void adapt_sleep(struct writer *writer, uint32_t slots)
{
    if (slots > PASS_SLOTS_MAX)
        writer->sleep_ns /= 2;
    else if (slots < PASS_SLOTS_MIN)
        writer->sleep_ns *= 2;
    if (writer->sleep_ns < SLEEP_NS_MIN) writer->sleep_ns = SLEEP_NS_MIN;
    if (writer->sleep_ns > WRITER_TICK_NS) writer->sleep_ns = WRITER_TICK_NS;
}

/* A writer that cannot sleep would take a whole processor. */
static void note_sleep(struct writer *writer, int result)
{
    if (result < 0) writer->reason = "; the system did not let the writer thread sleep";
}

static void sleep_until_next_pass(struct writer *writer)
{
    uint64_t now = os_clock_ns();
    if (now >= writer->next_tick_ns) return;
    uint64_t left = writer->next_tick_ns - now;
    uint64_t sleep_ns = writer->sleep_ns < left ? writer->sleep_ns : left;
    if (sleep_ns <= NAP_NS_MAX) {
        if (!atomic_load_acquire(&writer->finish)) note_sleep(writer, os_sleep(sleep_ns));
        return;
    }
    atomic_store_seq_cst(&writer->asleep, 1);
    if (!atomic_load_seq_cst(&writer->finish) && !atomic_load_seq_cst(&writer->starved) &&
        !atomic_load_seq_cst(&writer->spool.cells.wanted))
        note_sleep(writer, os_wait(&writer->asleep, 1, sleep_ns));
    atomic_store_relaxed(&writer->asleep, 0);
}

/* ---- the thread ---- */

/* Whether an error, a limit or the end of the program ends the stream without anybody asking. */
static bool is_at_end(struct writer *writer)
{
    const struct settings_limits *limits = &settings.limits;
    if (writer_error(writer) || writer->sink.error || writer->reason != NULL) return true;
    if (writer->is_full || (limits->events && writer_events(writer) >= limits->events) ||
        (limits->ns && os_clock_ns() - writer->start_ns >= limits->ns)) {
        writer->end_status = RAW_END_LIMIT;
        return true;
    }
    if (writer->windows < writer->next_process_look) return false;
    writer->next_process_look = writer->windows + WRITER_WINDOWS_PER_PROCESS_LOOK;
    return writer->is_abandoned();
}

static void fulfil_sync(struct writer *writer)
{
    uint32_t wanted = atomic_load_acquire(&writer->sync_wanted);
    if (wanted == writer->sync_done) return;
    writer_residency_now(writer, RESIDENCY_SYNC);
    writer_close_window(writer);
    writer_flush(writer);
    atomic_store_release(&writer->sync_done, wanted);
    os_wake_all(&writer->sync_done);
}

static void set_status(struct writer *writer, enum writer_status status)
{
    atomic_store_release(&writer->status, status);
    os_wake_all(&writer->status);
}

/* Ends the recording without a request. Nobody is to wait for a slot any more. */
static void end_by_itself(struct writer *writer)
{
    writer->ends();
    atomic_store_seq_cst(&writer->finish, 1);
    writer_wake_waiters(writer, OS_ALL);
}

static void writer_main(struct writer *writer)
{
    bool was_deferred = atomic_load_acquire(&writer->status) == WRITER_DEFERRED;
    if (writer->begins_again) output_undo(&writer->files);
    int result = was_deferred ? reopen_output(writer) : writer_open_output(writer);
    if (result == 0 && !was_deferred) tell_begin(writer);
    bool runs = was_deferred || result == 0;
    writer->statm = os_file_open_read("/proc/self/statm");
    writer_open_residency(writer);
    set_status(writer, runs ? WRITER_RUNNING : WRITER_FAILED);
    if (!runs) return;
    if (result == 0 && writer->files.kind == OUTPUT_FIFO) result = await_reader(writer);
    if (result < 0) {
        end_by_itself(writer);
        writer_end_output(writer);
        return;
    }
    while (!atomic_load_acquire(&writer->finish) && !is_at_end(writer)) {
        uint32_t slots = writer_drain_full_slots(writer);
        adapt_sleep(writer, slots);
        writer_drain_wanted_cells(writer);
        uint64_t now = os_clock_ns();
        if (now >= writer->next_tick_ns) writer_tick(writer, now);
        writer_grow_if_needed(writer);
        if (slots < WRITER_SLOTS_PER_PASS) sleep_until_next_pass(writer);
        fulfil_sync(writer);
    }
    if (!atomic_load_acquire(&writer->finish)) end_by_itself(writer);
    writer_end_stream(writer);
}

static void writer_thread_main(void *argument)
{
    struct writer *writer = argument;
    writer_main(writer);
    os_file_close(writer->statm);
    writer_close_residency(writer);
    writer_release(writer);
    output_release(&writer->files);
}

/* A thread that was ended by somebody else has left everything as it was. */
void writer_reset(struct writer *writer)
{
    bool left = writer->stage != WRITER_THREAD_NONE && !atomic_load_acquire(&writer->done);
    os_thread_release(&writer->thread);
    if (left) writer_release(writer);
    memset(&writer->thread, 0, sizeof *writer - offsetof(struct writer, thread));
}

void writer_forget(struct writer *writer)
{
    writer->thread.alive = 0;
    os_thread_release(&writer->thread);
    sink_release(&writer->sink);
    packer_release(&writer->packer);
    spool_forget(&writer->spool);
    memset(writer, 0, sizeof *writer);
    os_memory_forked();
}

static int start_thread(struct writer *writer)
{
    const struct os_files named = {output_name_descriptor(writer->output), -1};
    int result = os_thread_start(&writer->thread, writer_thread_main, writer, &writer->done,
                                 settings.is_given ? settings.given : named);
    atomic_store_release(&writer->stage, result < 0 ? WRITER_THREAD_NEVER : WRITER_THREAD_BEGUN);
    return writer_check(writer, result, "the writer thread");
}

static void open_apart(void *argument)
{
    struct writer *writer = argument;
    bool opened = writer_open_output(writer) == 0;
    if (opened) {
        output_defer(&writer->files);
        atomic_store_release(&writer->stage, WRITER_THREAD_DEFERRED);
    } else {
        writer_release(writer);
    }
    set_status(writer, opened ? WRITER_DEFERRED : WRITER_FAILED);
    if (opened) tell_begin(writer);
}

/* Only new files can be closed and opened again; any other output needs the thread at once. */
static bool can_defer(const struct writer *writer)
{
    struct os_file_status there;
    if (!writer->may_defer || writer->output[0] == '|' ||
        output_name_descriptor(writer->output) >= 0 ||
        os_file_look(OS_NO_DIRECTORY, writer->output, &there) < 0)
        return false;
    return there.kind == OS_FILE_MISSING || (there.kind == OS_FILE_PLAIN && there.is_own_name);
}

/* Whoever kills processes by their name (pkill) may have killed the one that was to open the files,
 * before it had: forgets it. */
static void forget_opening(struct writer *writer)
{
    writer_release(writer);
    writer->error = 0;
    writer->begins_again = true;
}

/* Opens the files without the thread. False: they are not open, and no failure was reported. */
static bool begin_without_thread(struct writer *writer)
{
    if (!can_defer(writer) || os_call_apart(open_apart, writer, false) < 0) return false;
    uint32_t status = atomic_load_acquire(&writer->status);
    if (status == WRITER_STARTING) forget_opening(writer);
    if (status == WRITER_DEFERRED && !writer->is_told) tell_begin(writer);
    return status != WRITER_STARTING;
}

int writer_start(struct writer *writer)
{
    writer->usage_before = os_process_usage(false);
    bool deferred = begin_without_thread(writer);
    if (!deferred && start_thread(writer) < 0) {
        writer_report_failure(writer, "not recording: ");
        return writer_error(writer);
    }
    if (!deferred) wait_while(writer, &writer->status, WRITER_STARTING);
    uint32_t status = atomic_load_acquire(&writer->status);
    if (status == WRITER_RUNNING || status == WRITER_DEFERRED) return 0;
    if (!deferred) wait_while(writer, &writer->done, 0);
    if (!writer_error(writer)) {
        writer_check(writer, -EINTR, "the writer thread");
        writer_report_failure(writer, "not recording: ");
    }
    return writer_error(writer);
}

/* What is in the spool stays there. */
static void give_up(struct writer *writer)
{
    writer_note_incomplete(writer);
    writer_report_failure(writer, "recording ended early: ");
    atomic_store_release(&writer->stage, WRITER_THREAD_NEVER);
    writer->ends();
}

/* Does what the thread would do in one pass. */
static void pass_apart(void *argument)
{
    struct writer *writer = argument;
    if (reopen_output(writer) == 0) {
        writer_drain_full_slots(writer);
        writer_drain_wanted_cells(writer);
        int result = writer_flush(writer);
        if (!writer_error(writer)) writer_check(writer, result, writer->output);
        output_defer(&writer->files);
    }
    if (writer_error(writer))
        give_up(writer);
    else
        atomic_store_release(&writer->stage, WRITER_THREAD_DEFERRED);
}

/* In a child that shares the memory: the thread would end with it. The child needs none as long as
 * it finds slots and cells; if it does not, a pass is made, as its parent may be waiting for it. */
static int serve_child(struct writer *writer)
{
    const bool starved = atomic_exchange_acq_rel(&writer->starved, 0);
    if (starved || atomic_load_seq_cst(&writer->spool.cells.wanted)) {
        int result = os_call_apart(pass_apart, writer, true);
        /* Killed in the middle, it may have written anything. */
        bool passed = atomic_load_acquire(&writer->stage) != WRITER_THREAD_BEGINNING;
        return result == 0 && !passed ? -EINTR : result;
    }
    atomic_store_release(&writer->stage, WRITER_THREAD_DEFERRED);
    return 0;
}

/* Starts the thread of a writer that began without one. All events so far are in the spool. */
static void begin_deferred(struct writer *writer)
{
    int result;
    if (os_is_confined())
        result = -EPERM;
    else if (os_process_id() == writer->process_id)
        result = start_thread(writer);
    else
        result = serve_child(writer);
    if (result == 0) return;
    writer_check(writer, result, "the writer thread");
    give_up(writer);
}

/* Blocks signals: a thread that is interrupted here would leave the others waiting. */
void writer_need(struct writer *writer)
{
    uint32_t deferred = WRITER_THREAD_DEFERRED;
    if (atomic_load_acquire(&writer->stage) != WRITER_THREAD_DEFERRED) return;
    int kept_errno = errno;
    uint64_t signals = os_signals_block();
    if (atomic_swap_once(&writer->stage, &deferred, WRITER_THREAD_BEGINNING))
        begin_deferred(writer);
    os_signals_restore(signals);
    errno = kept_errno;
}

void writer_need_now(struct writer *writer)
{
    writer_need(writer);
    wait_while(writer, &writer->status, WRITER_DEFERRED);
}

void writer_sync(struct writer *writer)
{
    uint32_t wish = atomic_add_seq_cst(&writer->sync_wanted, 1) + 1;
    writer_need(writer);
    writer_wake(writer);
    for (;;) {
        uint32_t done = atomic_load_acquire(&writer->sync_done);
        if ((int32_t)(done - wish) >= 0 || writer_is_gone(writer)) return;
        os_wait(&writer->sync_done, done, WRITER_TICK_NS);
    }
}

void writer_ask_end(struct writer *writer)
{
    atomic_store_seq_cst(&writer->finish, 1);
    writer_need(writer);
    writer_wake(writer);
    writer_wake_waiters(writer, OS_ALL);
}
