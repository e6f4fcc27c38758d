#include "writer.h"

#include "../common/bytes.h"
#include "../common/checksum.h"
#include "../common/varint.h"
#include "message.h"
#include "os.h"
#include "probes.h"
#include "report.h"
#include "units.h"

#include <errno.h>
#include <string.h>

#define SLEEP_NS_MIN          UINT64_C(100000)
/* Nobody wakes the writer from a sleep no longer than this: waking costs the thread more than the
 * wait. */
#define NAP_NS_MAX            UINT64_C(400000)
/* A pass is to find so many slots. More would take much of the caches from the program, as slots
 * are filled and written in turn; fewer would not be worth the microseconds that a pass costs. */
#define PASS_SLOTS_MIN        2
#define PASS_SLOTS_MAX        4
#define PAGE_BYTES            4096
/* Slots of one lane that are written before the writer looks at the rest again. */
#define SLOTS_PER_PASS        64
/* How often the writer looks whether somebody reads a FIFO. */
#define READER_LOOK_NS        UINT64_C(10000000)
/* The packer takes 200 KiB for a lane of an opaque stream: not for one that says little. */
#define OPAQUE_PLAIN_SEGMENTS 1

static void wake(struct writer *writer)
{
    if (atomic_exchange_acq_rel(&writer->asleep, 0)) os_wake_all(&writer->asleep);
}

/* --- memory --- */

struct writer_memory {
    struct writer_memory *next;
    size_t bytes;
    uint64_t unused[6]; /* what follows begins with a cache line */
};

/* Zeroed; given back when the writer ends. NULL if there is none. */
static void *reserve(struct writer *writer, size_t bytes)
{
    struct writer_memory *memory = os_memory_reserve(bytes + sizeof *memory);
    if (!memory) return NULL;
    memory->bytes = bytes + sizeof *memory;
    memory->next = writer->memory;
    writer->memory = memory;
    return memory + 1;
}

static void release_memory(struct writer *writer)
{
    while (writer->memory) {
        struct writer_memory *memory = writer->memory;
        writer->memory = memory->next;
        os_memory_release(memory, memory->bytes);
    }
    sink_release(&writer->sink);
    packer_release(&writer->packer);
}

/* Ends the recording: the loop sees the error. */
static int fail(struct writer *writer, int error, const char *what)
{
    writer->error = error;
    writer->failed = what;
    return error;
}

/* --- threads' side --- */

bool writer_is_gone(const struct writer *writer)
{
    if (atomic_load_acquire(&writer->done)) return true;
    uint32_t stage = atomic_load_acquire(&writer->stage);
    return stage == WRITER_NEVER ||
           (stage == WRITER_BEGUN && !atomic_load_acquire(&writer->thread.alive));
}

static uint32_t wait_for_slot(struct writer *writer, uint64_t at_most_ns)
{
    uint64_t since = os_clock_ns();
    uint32_t slot;
    atomic_add_relaxed(&writer->waits, 1);
    atomic_add_seq_cst(&writer->waiters, 1);
    for (;;) {
        uint32_t epoch = atomic_load_acquire(&writer->space_epoch);
        slot = spool_take(&writer->spool);
        if (slot != SPOOL_NO_SLOT || atomic_load_acquire(&writer->finish) || writer_is_gone(writer))
            break;
        atomic_store_release(&writer->starved, 1);
        wake(writer);
        /* A confined thread does not know the time. */
        if (at_most_ns && (os_is_confined() || os_clock_ns() - since >= at_most_ns)) break;
        os_wait(&writer->space_epoch, epoch, at_most_ns ? at_most_ns : WRITER_TICK_NS);
    }
    atomic_add_relaxed(&writer->waiters, -1);
    uint64_t waited_ns = os_clock_ns() - since;
    atomic_add_relaxed(&writer->waited_ns, waited_ns);
    PROBE(buffer_waited, slot, waited_ns);
    return slot;
}

uint32_t writer_slot(struct writer *writer, bool loses_already)
{
    uint32_t slot = spool_take(&writer->spool);
    if (slot == SPOOL_NO_SLOT) {
        if (!writer->loses) return wait_for_slot(writer, 0);
        if (!loses_already && !atomic_load_relaxed(&writer->cannot_grow))
            return wait_for_slot(writer, WRITER_LOSES_AFTER_NS);
        atomic_store_release(&writer->starved, 1);
        wake(writer);
        return SPOOL_NO_SLOT;
    }
    if (atomic_load_relaxed(&writer->spool.free_count) < SPOOL_EXTENT_SLOTS / 2) wake(writer);
    return slot;
}

void writer_abort(struct writer *writer, int error, const char *what)
{
    writer->failed = what;
    atomic_store_release(&writer->error, error);
    writer_need(writer);
    wake(writer);
}

/* --- the limit of bytes --- */

/* What ends the stream: one chunk with numbers of its own and one for each lane, in two blocks at
 * most. */
#define END_NUMBERS 7

static uint64_t end_bytes_max(uint32_t lanes)
{
    return 2 * SINK_BLOCK_LENGTH_BYTES + RAW_CHUNK_HEADER_BYTES +
           (END_NUMBERS + (uint64_t)lanes) * VARINT_BYTES_MAX;
}

uint64_t writer_bytes_min(size_t metadata_bytes)
{
    return SINK_FRAME_HEADER_BYTES + SINK_BLOCK_LENGTH_BYTES + RAW_HEADER_BYTES + metadata_bytes +
           end_bytes_max(0) + SINK_END_BYTES;
}

/* How long the file may become before it is ended. */
static uint64_t bytes_before_end(const struct writer *writer)
{
    uint64_t end = end_bytes_max(atomic_load_acquire(&writer->registry->used)) + SINK_END_BYTES;
    return writer->limits.bytes > end ? writer->limits.bytes - end : 0;
}

/* Whether so many bytes of chunks fit, even if they do not shrink. */
static bool fits(const struct writer *writer, size_t bytes)
{
    if (!writer->limits.bytes) return true;
    return !writer->is_full &&
           sink_bytes_at_most(&writer->sink) + bytes <= bytes_before_end(writer);
}

/* --- slots to chunks --- */

static int flush(struct writer *writer)
{
    int result = sink_flush(&writer->sink);
    if (writer->error) result = writer->error;
    /* Slots that the stream does not get stay in the spool (FORMAT.md 8). */
    if (result < 0) writer->pending_count = 0;
    for (uint32_t i = 0; i < writer->pending_count; i++)
        spool_give(&writer->spool, writer->pending[i].slot, writer->pending[i].units);
    if (writer->pending_count) {
        writer->pending_count = 0;
        atomic_add_seq_cst(&writer->space_epoch, 1);
        if (atomic_load_seq_cst(&writer->waiters)) os_wake_all(&writer->space_epoch);
    }
    return result;
}

/* Where the lane's thread is in its slot; NULL: it has none. */
static uint16_t *cursor_of(const struct malloctape_lane *lane)
{
    return units_head_cursor(atomic_load_acquire(&lane->units.head));
}

static void stop_following(struct writer *writer, struct malloctape_lane *lane)
{
    pack_lane_end(&writer->packer, lane->writer.followed);
    lane->writer.followed = NULL;
}

/* What the packer knows of the lane (pack.h): from the beginning of a segment on, as long as the
 * lane's chunks are packed. In an opaque stream it begins anywhere, and anew with a key segment. */
static struct pack_lane *follow_lane(struct writer *writer, struct malloctape_lane *lane,
                                     unsigned flags, uint64_t first_allocation)
{
    bool packed = flags & RAW_CHUNK_FLAG_PACKED, opaque = writer->features & RAW_FEATURE_OPAQUE;
    if (lane->writer.followed && (!packed || (opaque && flags & RAW_CHUNK_FLAG_KEY)))
        stop_following(writer, lane);
    if (!lane->writer.followed && packed && (opaque || flags & RAW_CHUNK_FLAG_BEGIN))
        lane->writer.followed = pack_lane_begin(&writer->packer, first_allocation);
    return lane->writer.followed;
}

static bool may_pack(const struct writer *writer, const struct spool_segment *segment)
{
    return !(writer->features & RAW_FEATURE_OPAQUE) || segment->serial >= OPAQUE_PLAIN_SEGMENTS;
}

/* Puts the next `count` units of the lane's read slot into the sink. */
static void commit_units(struct writer *writer, struct malloctape_lane *lane, size_t count,
                         bool packed)
{
    const uint16_t *from = lane->writer.read_from;
    struct spool_segment segment = spool_segment_of(&writer->spool, lane->writer.read_slot);
    size_t before = (size_t)(from - spool_units(&writer->spool, lane->writer.read_slot));
    struct chunk_units chunk = {.lane = lane->registry.number,
                                .first_unit = segment.first_unit + before,
                                .first_allocation = segment.first_allocation,
                                .records = {segment.profile, writer->features, from, count}};
    uint8_t *room = sink_room(&writer->sink, CHUNK_BYTES_MAX(count));
    if (writer->windows < atomic_load_relaxed(&writer->watch.until_window))
        watch_units(&writer->watch, segment.profile, writer->features, from, count);
    if (before == 0) chunk.flags = RAW_CHUNK_FLAG_BEGIN | (segment.key ? RAW_CHUNK_FLAG_KEY : 0);
    if (packed && may_pack(writer, &segment)) chunk.flags |= RAW_CHUNK_FLAG_PACKED;
    chunk.followed = follow_lane(writer, lane, chunk.flags, segment.first_allocation);
    size_t bytes = chunk_write(&writer->packer, &chunk, room);
    bool is_packed = chunk.flags & RAW_CHUNK_FLAG_PACKED;
    if (chunk.followed && !is_packed) stop_following(writer, lane);
    if (is_packed)
        sink_commit_packed(&writer->sink, bytes, CHUNK_BYTES_PLAIN(count));
    else
        sink_commit(&writer->sink, bytes);
}

static void units_are_written(struct malloctape_lane *lane, size_t count)
{
    lane->writer.read_from += count;
    lane->writer.written += count;
}

/* How many of the lane's next units, half of so many or fewer, are whole records. */
static size_t half_of_units(const struct writer *writer, const struct malloctape_lane *lane,
                            size_t count)
{
    struct spool_segment segment = spool_segment_of(&writer->spool, lane->writer.read_slot);
    return units_whole(segment.profile, writer->features, lane->writer.read_from, count, count / 2);
}

/* Near the limit of bytes each chunk is written by itself. What does not fit is tried again with
 * half of the units: it is the end of the stream. A chunk is packed once only: that changes what
 * the packer knows. */
static void write_units_that_fit(struct writer *writer, struct malloctape_lane *lane, size_t count)
{
    bool packed = sink_wants_packed(&writer->sink);
    if (flush(writer) < 0) return;
    for (size_t part = count; part > 0;) {
        commit_units(writer, lane, part, packed);
        bool fits = sink_flush_within(&writer->sink, bytes_before_end(writer));
        if (fits) {
            units_are_written(lane, part);
            count -= part;
            if (count == 0) return;
            part = count;
        }
        packed = false;
        part = half_of_units(writer, lane, part);
    }
    writer->is_full = true;
    writer->end_status = RAW_END_LIMIT;
}

/* Puts the units of the lane's read slot from `lane->writer.read_from` to `to` into the stream. */
static void write_units(struct writer *writer, struct malloctape_lane *lane, const uint16_t *to)
{
    size_t count = (size_t)(to - lane->writer.read_from);
    /* After an error the units stay in the spool. */
    if (count == 0 || writer->error || writer->is_full) return;
    if (!fits(writer, CHUNK_BYTES_MAX(count))) return write_units_that_fit(writer, lane, count);
    commit_units(writer, lane, count, sink_wants_packed(&writer->sink));
    units_are_written(lane, count);
}

/* The thread has left the lane's read slot: writes the rest of it and goes to the next one. */
static void finish_slot(struct writer *writer, struct malloctape_lane *lane, uint32_t next)
{
    uint32_t slot = lane->writer.read_slot;
    uint32_t units = writer->spool.notes[slot].units;
    write_units(writer, lane, spool_units(&writer->spool, slot) + units);
    if (writer->is_full) return;
    writer->pending[writer->pending_count].slot = slot;
    writer->pending[writer->pending_count].units = units;
    writer->pending_count++;
    lane->writer.read_slot = next;
    lane->writer.read_from = spool_units(&writer->spool, next);
    if (writer->pending_count == WRITER_PENDING_SLOTS || sink_wants_flush(&writer->sink))
        flush(writer);
}

/* Writes what lies before `upto`, an address in a slot of this lane. NULL: only slots that the
 * thread has left, and at most SLOTS_PER_PASS, because it may fill them as fast as they are
 * written. Returns the number of slots finished. */
static uint32_t drain_lane(struct writer *writer, struct malloctape_lane *lane,
                           const uint16_t *upto)
{
    uint32_t slots = 0;
    for (;;) {
        const uint16_t *units = spool_units(&writer->spool, lane->writer.read_slot);
        if (upto && upto >= units && upto <= units + SPOOL_SLOT_UNITS) {
            write_units(writer, lane, upto);
            return slots;
        }
        uint32_t next = atomic_load_acquire(&writer->spool.notes[lane->writer.read_slot].next);
        if (next == 0 || (!upto && slots == SLOTS_PER_PASS) || writer->is_full) return slots;
        finish_slot(writer, lane, next - 1);
        slots++;
    }
}

static uint32_t drain_full_slots(struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint32_t slots = 0;
    for (uint32_t i = 0; i < used; i++) {
        struct malloctape_lane *lane = lane_at(writer->registry, i);
        if (cursor_of(lane)) slots += drain_lane(writer, lane, NULL);
    }
    return slots;
}

/* --- ticks --- */

static uint64_t read_rss(struct writer *writer)
{
    char text[128];
    long bytes = os_file_read_start(writer->statm, text, sizeof text);
    uint64_t pages = 0;
    long at = 0;
    while (at < bytes && text[at] != ' ')
        at++;
    for (at++; at < bytes && text[at] >= '0' && text[at] <= '9'; at++)
        pages = pages * 10 + (uint64_t)(text[at] - '0');
    return pages * PAGE_BYTES;
}

static void look_at_memory(struct writer *writer)
{
    writer->tick.rss_bytes = read_rss(writer);
    writer->tick.usage.recorder_bytes = os_memory_resident_bytes();
    atomic_store_relaxed(&writer->look_wanted, 1);
}

/* The kernel divides a time into user and system by samples, so either may seem to go back. */
static uint64_t since(uint64_t now_ns, uint64_t before_ns)
{
    return now_ns > before_ns ? now_ns - before_ns : 0;
}

static void look_at_usage(struct writer *writer)
{
    struct os_usage usage = os_process_usage_without_caller();
    writer->tick.usage.user_ns = since(usage.user_ns, writer->usage_before.user_ns);
    writer->tick.usage.system_ns = since(usage.system_ns, writer->usage_before.system_ns);
}

/* What the allocator says, and STATISTIC_SIZES_ASKED. */
static void look_at_statistics(struct writer *writer)
{
    struct original_statistics *statistics = &writer->tick.statistics;
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint64_t asked = 0;
    statistics->count = 0;
    if (malloctape_front_end.read_statistics) malloctape_front_end.read_statistics(statistics);
    for (uint32_t i = 0; i < used; i++)
        asked += atomic_load_relaxed(&lane_at(writer->registry, i)->sizes_asked);
    statistics->values[statistics->count++] = asked;
}

/* How many nanoseconds 2^32 cycles of the processor's clock take. */
static uint64_t measure_cycles(const struct writer *writer, uint64_t now_ns)
{
    uint64_t cycles = __builtin_ia32_rdtsc() - writer->start_cycles;
    return (uint64_t)((double)since(now_ns, writer->start_ns) / (double)cycles * 0x1p32);
}

/* Reading the time takes a system call. */
uint64_t writer_cycles_ns(const struct writer *writer, uint64_t cycles)
{
    uint64_t ns = atomic_load_relaxed(&writer->ns_of_2_32_cycles);
    if (ns == 0) ns = measure_cycles(writer, os_clock_ns());
    return (uint64_t)((double)cycles * (double)ns / 0x1p32);
}

static void put_tick(struct writer *writer, uint64_t now)
{
    if (!fits(writer, CHUNK_TICK_BYTES_MAX)) return;
    if (writer->ticks < WRITER_TICKS_THAT_LOOK || writer->ticks % WRITER_TICKS_PER_MEMORY_LOOK == 0)
        look_at_memory(writer);
    look_at_usage(writer);
    writer->tick.since_start_ns = now - writer->start_ns;
    writer->tick.heap_bytes = writer->heap_bytes();
    look_at_statistics(writer);
    uint8_t *room = sink_room(&writer->sink, CHUNK_TICK_BYTES_MAX);
    sink_commit(&writer->sink, chunk_write_tick(writer->ticks++, &writer->tick, room));
}

/* Behind all else, whether anything has happened or not. */
static void put_last_tick(struct writer *writer)
{
    look_at_memory(writer);
    writer->tick.usage.peak_rss_bytes = os_process_peak_bytes();
    put_tick(writer, os_clock_ns());
}

/* A lane without a thread gives its slot back. Whoever continues the lane takes a new one, and
 * records the end of the thread if there was no room for that here. */
static void retire_lane(struct writer *writer, struct malloctape_lane *lane)
{
    if (lane->registry.ended || writer->is_full || !cursor_of(lane) ||
        !lane_take_over(writer->registry, lane))
        return;
    uint32_t slot = lane->slot.number;
    bool ended = units_cursor(&lane->units) < lane->slot.end;
    if (ended) units_thread(&lane->units, RAW_THREAD_END, 0);
    uint16_t *cursor = units_cursor(&lane->units);
    drain_lane(writer, lane, cursor);
    if (writer->is_full) return lane_put_back(writer->registry, lane);
    uint32_t units = (uint32_t)(cursor - lane->slot.start);
    if (flush(writer) == 0) spool_give(&writer->spool, slot, units);
    lane->slot.earlier_units += units;
    lane->units.limit = 0;
    lane->slot.room = NULL;
    lane->slot.number = SPOOL_NO_SLOT;
    lane->registry.ended = ended;
    atomic_store_release(&lane->units.head, units_head(NULL, lane->units.head));
    lane_put_back(writer->registry, lane);
}

/* FORMAT.md 4.3. Returns whether any lane has got further. */
static bool close_window(struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint64_t now = os_clock_ns();
    bool progress = false;
    /* Both clocks at once: what follows takes milliseconds. */
    atomic_store_relaxed(&writer->ns_of_2_32_cycles, measure_cycles(writer, now));
    for (uint32_t i = 0; i < used; i++)
        writer->snapshot[i] = cursor_of(lane_at(writer->registry, i));
    for (uint32_t i = 0; i < used; i++) {
        struct malloctape_lane *lane = lane_at(writer->registry, i);
        if (!writer->snapshot[i]) continue;
        if (writer->snapshot[i] != lane->writer.read_from) {
            drain_lane(writer, lane, writer->snapshot[i]);
            progress = true;
        } else if (writer->windows % WRITER_WINDOWS_PER_THREAD_LOOK == 0) {
            lane_notice_gone(writer->registry, lane);
            retire_lane(writer, lane);
        }
    }
    sink_rate(&writer->sink, now);
    writer->windows++;
    if (progress) put_tick(writer, now);
    return progress;
}

static void tick(struct writer *writer, uint64_t now)
{
    bool progress = close_window(writer);
    if (!progress || writer->ticks % WRITER_TICKS_PER_FLUSH == 0) flush(writer);
    writer->next_tick_ns = now + WRITER_TICK_NS;
}

/* --- totals --- */

/* How many events the stream has got. Any thread: approximately. */
static uint64_t events_so_far(const struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint64_t events = 0;
    for (uint32_t i = 0; i < used; i++) {
        const struct malloctape_lane *lane = lane_at(writer->registry, i);
        uint64_t written = atomic_load_relaxed(&lane->writer.written);
        uint64_t extra = atomic_load_relaxed(&lane->units.extra_units);
        events += written > extra ? written - extra : 0;
    }
    return events;
}

void writer_watch(struct writer *writer, struct watch_counts *counts)
{
    atomic_store_relaxed(&writer->watch.until_window,
                         atomic_load_relaxed(&writer->windows) + WATCH_WINDOWS);
    *counts = writer->watch.counts;
    memcpy(counts->ok, "ok\n", 4);
    counts->bytes = sizeof *counts;
    counts->opaque = malloctape_front_end.opaque;
    counts->heap_bytes = writer->heap_bytes();
    if (malloctape_front_end.used_bytes) counts->used_bytes = malloctape_front_end.used_bytes();
    if (malloctape_front_end.read_statistics) {
        const char *names = malloctape_front_end.statistics();
        memcpy(counts->names, names, strlen(names) + 1);
        malloctape_front_end.read_statistics(&counts->statistics);
    }
    counts->recorder_bytes = writer->tick.usage.recorder_bytes;
    counts->events = events_so_far(writer);
}

/* Events of the lane in the stream, exactly, though its thread may be in the middle of one. Up to
 * its slot the lane's own count holds; in the slot they are counted. */
static uint64_t events_of_lane(const struct writer *writer, const struct malloctape_lane *lane)
{
    uint64_t extra = atomic_load_acquire(&lane->units.extra_units);
    /* Without a slot the lane had no thread when `extra` was read. */
    if (!cursor_of(lane)) return lane->writer.written - extra;
    const uint16_t *units = spool_units(&writer->spool, lane->writer.read_slot);
    struct spool_segment segment = spool_segment_of(&writer->spool, lane->writer.read_slot);
    return segment.first_unit - segment.extra_units +
           units_events(segment.profile, writer->features, units,
                        (size_t)(lane->writer.read_from - units));
}

static uint64_t events_in_stream(const struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint64_t events = 0;
    for (uint32_t i = 0; i < used; i++)
        events += events_of_lane(writer, lane_at(writer->registry, i));
    return events;
}

static uint64_t events_lost(const struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint64_t events = atomic_load_relaxed(&writer->lost_events);
    for (uint32_t i = 0; i < used; i++)
        events += atomic_load_relaxed(&lane_at(writer->registry, i)->slot.lost_events_total);
    return events;
}

/* --- messages: written here because this thread has standard error as it was at the start --- */

static void report_failure(const struct writer *writer, const char *what)
{
    struct message message;
    if (writer->quiet) return;
    message_begin(&message);
    message_put(&message, "%s%s: ", what, writer->failed);
    message_error(&message, writer->error);
    if (writer->files.status > 0)
        message_put(&message, "; the command ended with status %lu",
                    (uint64_t)writer->files.status);
    /* One that lies beside the stream is found without a word. */
    if (writer->files.settled && !writer->files.spool_is_beside)
        message_put(&message, "; what was not written is in %s", writer->files.spool_path);
    report_line(writer->report, &message);
}

static void report_command(const struct writer *writer)
{
    struct message message;
    message_begin(&message);
    message_put(&message, "%s: the command ended with status %lu and may not have read everything",
                writer->output, (uint64_t)writer->files.status);
    report_line(writer->report, &message);
}

/* The program goes on, and what it does is in neither file. */
static void note_incomplete(struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    for (uint32_t i = 0; i < used; i++) {
        uint32_t slot = lane_at(writer->registry, i)->slot.number;
        if (slot != SPOOL_NO_SLOT) spool_note_incomplete(&writer->spool, slot);
    }
}

void writer_tell_free(struct writer *writer)
{
    struct message message;
    if (!writer_is_gone(writer) || atomic_load_acquire(&writer->done) ||
        atomic_load_acquire(&writer->stage) != WRITER_BEGUN ||
        atomic_exchange_acquire(&writer->free_announced, 1))
        return;
    note_incomplete(writer);
    if (writer->quiet) return;
    message_begin(&message);
    message_put(&message, "recording ended early: %s: the system has killed the writer thread",
                writer->output);
    report_line(writer->report, &message);
}

void writer_look(const struct writer *writer, struct writer_totals *totals)
{
    *totals = (struct writer_totals){
        .events = events_so_far(writer),
        .bytes = atomic_load_relaxed(&writer->sink.bytes_out),
        .lost = events_lost(writer),
        .waits = atomic_load_relaxed(&writer->waits),
        .waited_ns = atomic_load_relaxed(&writer->waited_ns),
    };
}

void writer_put_totals(struct message *message, const struct writer_totals *totals)
{
    message_put(message, "%lu events, %lu bytes", totals->events, totals->bytes);
    if (totals->waited_ns >= 1000000)
        message_put(message, ", threads waited %lu ms for the writer", totals->waited_ns / 1000000);
    if (totals->lost) message_put(message, ", lost %lu events", totals->lost);
}

static void put_summary(const struct writer *writer, struct message *message, uint64_t events)
{
    struct writer_totals totals;
    writer_look(writer, &totals);
    totals.events = events;
    message_begin(message);
    message_put(message, "%s: ", writer->output);
    writer_put_totals(message, &totals);
    if (writer->end_status == RAW_END_LIMIT) message_put(message, "; a limit was reached");
    if (writer->reason) message_put(message, "%s", writer->reason);
    if (*writer->foreign_malloc)
        message_put(message, "; malloc of this process is not ours%s: %s",
                    events ? ", which sees what is passed on" : "", writer->foreign_malloc);
}

static void tell_end(const struct writer *writer)
{
    struct message message;
    uint64_t events = writer->error ? 0 : events_in_stream(writer);
    message_clear(&message);
    if (!writer->error && !writer->quiet && writer->files.status <= 0)
        put_summary(writer, &message, events);
    report_end(writer->report, writer->process_id, events, *writer->foreign_malloc, &message);
    if (message.bytes && writer->speaks) message_write(&message);
}

/* --- the end --- */

/* Lanes that have nothing in the stream may have come since its length was looked at. */
static uint32_t lanes_written(const struct writer *writer)
{
    uint32_t lanes = atomic_load_acquire(&writer->registry->used);
    while (lanes > 0 && lane_at(writer->registry, lanes - 1)->writer.written == 0)
        lanes--;
    return lanes;
}

static void put_end(struct writer *writer)
{
    uint32_t used = lanes_written(writer);
    size_t bytes_max = end_bytes_max(used);
    /* With very many lanes the chunk would not fit the ring; it is built apart. */
    uint8_t *chunk = reserve(writer, bytes_max + VARINT_SLACK);
    if (!chunk) {
        fail(writer, -ENOMEM, "memory");
        return;
    }
    uint8_t *payload = chunk + RAW_CHUNK_HEADER_BYTES;
    uint8_t *at = varint_put(payload, writer->end_status);
    at = varint_put(at, os_clock_ns() - writer->start_ns);
    at = varint_put(at, events_in_stream(writer));
    at = varint_put(at, events_lost(writer));
    at = varint_put(at, atomic_load_relaxed(&writer->waits));
    at = varint_put(at, atomic_load_relaxed(&writer->waited_ns));
    at = varint_put(at, used);
    for (uint32_t i = 0; i < used; i++)
        at = varint_put(at, lane_at(writer->registry, i)->writer.written);
    size_t bytes = chunk_seal(chunk, RAW_CHUNK_END, (size_t)(at - payload), writer->ticks);
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < SINK_FLUSH_BYTES ? bytes - done : SINK_FLUSH_BYTES;
        memcpy(sink_room(&writer->sink, part), chunk + done, part);
        sink_commit(&writer->sink, part);
        done += part;
    }
}

static void forget_output(struct writer *writer)
{
    output_forget(&writer->files);
    report_forget(writer->report, writer->process_id);
    writer->report = "";
    writer->quiet = true;
}

static void end_output(struct writer *writer)
{
    if (atomic_load_acquire(&writer->discard) && events_so_far(writer) < WRITER_DISCARDED_EVENTS)
        forget_output(writer);
    if (writer->error) note_incomplete(writer);
    int result = output_end(&writer->files, !writer->error, writer->patience_ns);
    os_file_close(writer->statm);
    if (result < 0 && !writer->error) fail(writer, result, writer->output);
    if (writer->error)
        report_failure(writer, "recording ended early: ");
    else if (writer->files.status > 0)
        report_command(writer);
    tell_end(writer);
}

static void end_stream(struct writer *writer)
{
    close_window(writer);
    flush(writer);
    /* After an error the stream is one that was cut: the rest is in the spool. */
    if (!writer->error) put_last_tick(writer);
    if (!writer->error) put_end(writer);
    int result = sink_close(&writer->sink);
    PROBE(recording_end, writer->output, writer->end_status);
    if (result < 0 && !writer->error) fail(writer, result, writer->output);
    end_output(writer);
}

/* --- more slots --- */

/* If there is no space for more slots, the threads go on with those that there are, unless most of
 * them are the lanes' own. */
static void grow(struct writer *writer)
{
    uint32_t lanes = atomic_load_relaxed(&writer->registry->used);
    uint32_t before = writer->spool.mapped, latest;
    int result;
    /* To twice as many: on a busy machine it may be long until the writer runs again. */
    do {
        latest = writer->spool.mapped;
        result = spool_grow(&writer->spool, lanes + SPOOL_SLOTS_AHEAD);
        atomic_add_seq_cst(&writer->space_epoch, 1);
        os_wake_all(&writer->space_epoch);
    } while (writer->spool.mapped > latest && writer->spool.mapped < 2 * before);
    bool grown = writer->spool.mapped > before;
    if (result < 0 && !grown && lanes > before / 2) fail(writer, result, writer->files.spool_path);
    atomic_store_relaxed(&writer->cannot_grow, !grown);
}

/* While a write waits for the reader: the threads go on as long as there is space. */
static void grow_meanwhile(void *argument)
{
    struct writer *writer = argument;
    if (atomic_exchange_acq_rel(&writer->starved, 0)) grow(writer);
}

/* --- the beginning --- */

static void put_header(struct writer *writer)
{
    uint8_t *header = sink_room(&writer->sink, RAW_HEADER_BYTES + writer->metadata_bytes);
    uint8_t *metadata = header + RAW_HEADER_BYTES;
    memset(header, 0, RAW_HEADER_BYTES);
    bytes_put64(header + RAW_HEADER_MAGIC, RAW_MAGIC);
    bytes_put16(header + RAW_HEADER_VERSION_MAJOR, RAW_VERSION_MAJOR);
    bytes_put16(header + RAW_HEADER_VERSION_MINOR, RAW_VERSION_MINOR);
    bytes_put32(header + RAW_HEADER_METADATA_BYTES, (uint32_t)writer->metadata_bytes);
    bytes_put64(header + RAW_HEADER_FEATURES, writer->features);
    memcpy(header + RAW_HEADER_RECORDING_ID, writer->recording_id, RAW_RECORDING_ID_BYTES);
    bytes_put64(header + RAW_HEADER_START_NS,
                os_wall_clock_ns() - (os_clock_ns() - writer->start_ns));
    bytes_put32(header + RAW_HEADER_PID, (uint32_t)writer->process_id);
    memcpy(metadata, writer->metadata, writer->metadata_bytes);
    bytes_put32(header + RAW_HEADER_CHECKSUM,
                checksum_of_two(header, RAW_HEADER_CHECKSUM, metadata, writer->metadata_bytes));
    sink_commit(&writer->sink, RAW_HEADER_BYTES + writer->metadata_bytes);
}

static int begin_stream(struct writer *writer)
{
    struct output_files *files = &writer->files;
    int result = sink_open(&writer->sink, files->file);
    if (result < 0) return fail(writer, result, writer->output);
    put_header(writer);
    result = sink_flush(&writer->sink);
    return result < 0 ? fail(writer, result, writer->output) : 0;
}

static int reserve_memory(struct writer *writer)
{
    writer->snapshot = reserve(writer, RAW_LANES_MAX * sizeof *writer->snapshot);
    if (!writer->snapshot) return -ENOMEM;
    packer_init(&writer->packer,
                &(struct pack_source){malloctape_front_end.class_of_size, shadow_block_class(0),
                                      os_memory_reserve, os_memory_release,
                                      (writer->features & RAW_FEATURE_OPAQUE) != 0});
    return sink_prepare(&writer->sink);
}

static int open_output(struct writer *writer)
{
    struct output_files *files = &writer->files;
    *files = (struct output_files){.name = writer->output, .scratch = writer->scratch};
    memcpy(&files->id, writer->recording_id, sizeof files->id);
    int result = output_make(files);
    if (result < 0) return fail(writer, result, files->failed);
    struct spool_identity identity = {writer->recording_id, writer->process_id, writer->features};
    result = spool_open(&writer->spool, files->spool, &identity);
    if (result < 0) return fail(writer, result, files->spool_path);
    result = output_start(files);
    if (result < 0) return fail(writer, result, files->failed);
    writer->sink.has_reader = files->has_reader;
    writer->sink.patience_ns = writer->patience_ns;
    writer->sink.meanwhile = grow_meanwhile;
    writer->sink.meanwhile_argument = writer;
    if (files->kind == OUTPUT_FIFO) return 0;
    result = begin_stream(writer);
    if (result < 0) return result;
    result = output_settle(files);
    return result < 0 ? fail(writer, result, files->failed) : 0;
}

/* Until then, an older recording of the same name is what it was. */
static int open_all(struct writer *writer)
{
    writer->start_ns = os_clock_ns();
    writer->start_cycles = __builtin_ia32_rdtsc();
    int result = reserve_memory(writer);
    if (result < 0) return fail(writer, result, "memory");
    writer->statm = os_file_open_read("/proc/self/statm");
    result = open_output(writer);
    if (result < 0) {
        output_discard(&writer->files);
        os_file_close(writer->statm);
        return result;
    }
    writer->next_tick_ns = writer->start_ns + WRITER_TICK_NS;
    writer->sleep_ns = SLEEP_NS_MIN;
    return 0;
}

/* --- the loop --- */

static void grow_if_starved(struct writer *writer)
{
    if (!atomic_exchange_acq_rel(&writer->starved, 0)) return;
    flush(writer);
    grow(writer);
}

static void adapt_sleep(struct writer *writer, uint32_t slots)
{
    if (slots > PASS_SLOTS_MAX)
        writer->sleep_ns /= 2;
    else if (slots < PASS_SLOTS_MIN)
        writer->sleep_ns *= 2;
    if (writer->sleep_ns < SLEEP_NS_MIN) writer->sleep_ns = SLEEP_NS_MIN;
    if (writer->sleep_ns > WRITER_TICK_NS) writer->sleep_ns = WRITER_TICK_NS;
}

/* A writer that is not let sleep would take a processor. */
static void note_sleep(struct writer *writer, int result)
{
    if (result < 0) writer->reason = "; the system did not let the writer sleep";
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
    if (!atomic_load_seq_cst(&writer->finish) && !atomic_load_seq_cst(&writer->starved))
        note_sleep(writer, os_wait(&writer->asleep, 1, sleep_ns));
    atomic_store_relaxed(&writer->asleep, 0);
}

/* A FIFO may have no reader yet. Meanwhile the threads go on into the spool. All that they need of
 * the writer is that it grows. */
static int await_reader(struct writer *writer)
{
    int result;
    while ((result = output_connect(&writer->files)) == -ENXIO) {
        if (writer->patience_ns && os_clock_ns() - writer->start_ns >= writer->patience_ns)
            return fail(writer, -ETIMEDOUT, writer->output);
        grow_if_starved(writer);
        if (writer->error) return writer->error;
        atomic_store_seq_cst(&writer->asleep, 1);
        if (!atomic_load_seq_cst(&writer->starved)) os_wait(&writer->asleep, 1, READER_LOOK_NS);
    }
    if (result < 0) return fail(writer, result, writer->output);
    result = begin_stream(writer);
    if (result < 0) os_file_close(writer->files.file);
    return result;
}

/* --- the thread --- */

/* The error, the limit or the end of the program that ends the stream without anybody asking. */
static bool is_at_end(struct writer *writer)
{
    const struct writer_limits *limits = &writer->limits;
    if (writer->error || writer->sink.error || writer->reason) return true;
    if (writer->is_full || (limits->events && events_so_far(writer) >= limits->events) ||
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
    close_window(writer);
    flush(writer);
    atomic_store_release(&writer->sync_done, wanted);
    os_wake_all(&writer->sync_done);
}

static void tell_status(struct writer *writer, enum writer_status status)
{
    atomic_store_release(&writer->status, status);
    os_wake_all(&writer->status);
}

/* A thread whose beginning was deferred. */
static int take_up(struct writer *writer)
{
    int result = output_take_up(&writer->files);
    writer->sink.file = writer->files.file;
    writer->spool.file = writer->files.spool;
    writer->statm = os_file_open_read("/proc/self/statm");
    tell_status(writer, WRITER_RUNNING);
    return result < 0 ? fail(writer, result, writer->files.failed) : 0;
}

/* Said first: a program that goes on may end at once. */
static bool open_or_report(struct writer *writer)
{
    int result = open_all(writer);
    if (result < 0)
        report_failure(writer, "not recording: ");
    else
        report_begin(writer->report, writer->process_id, writer->output);
    if (result == 0) PROBE(recording_begin, writer->output, writer->process_id);
    return result == 0;
}

static void writer_main(struct writer *writer)
{
    int result = 0;
    if (atomic_load_acquire(&writer->status) == WRITER_PUT_ASIDE) {
        result = take_up(writer);
    } else {
        bool opened = open_or_report(writer);
        tell_status(writer, opened ? WRITER_RUNNING : WRITER_FAILED);
        if (!opened) return;
    }
    if (result == 0 && writer->files.kind == OUTPUT_FIFO) result = await_reader(writer);
    if (result < 0) {
        writer->ends();
        end_output(writer);
        return;
    }
    while (!atomic_load_acquire(&writer->finish) && !is_at_end(writer)) {
        uint32_t slots = drain_full_slots(writer);
        adapt_sleep(writer, slots);
        uint64_t now = os_clock_ns();
        if (now >= writer->next_tick_ns) tick(writer, now);
        grow_if_starved(writer);
        if (slots < SLOTS_PER_PASS) sleep_until_next_pass(writer);
        fulfil_sync(writer);
    }
    if (!atomic_load_acquire(&writer->finish)) writer->ends();
    end_stream(writer);
}

static void thread_main(void *argument)
{
    struct writer *writer = argument;
    writer_main(writer);
    spool_close(&writer->spool);
    release_memory(writer);
}

/* A thread that was ended by somebody else has left everything as it was. */
void writer_reset(struct writer *writer)
{
    bool left = writer->stage != WRITER_NONE && !atomic_load_acquire(&writer->done);
    os_thread_release(&writer->thread);
    if (left) {
        spool_close(&writer->spool);
        release_memory(writer);
    }
    memset(&writer->thread, 0, sizeof *writer - offsetof(struct writer, thread));
}

void writer_forget(struct writer *writer)
{
    writer->thread.alive = 0;
    os_thread_release(&writer->thread);
    release_memory(writer);
    memset(writer, 0, sizeof *writer);
    os_memory_forked();
}

static int start_thread(struct writer *writer)
{
    int result = os_thread_start(&writer->thread, thread_main, writer, &writer->done,
                                 output_name_descriptor(writer->output));
    atomic_store_release(&writer->stage, result < 0 ? WRITER_NEVER : WRITER_BEGUN);
    if (result < 0) fail(writer, result, "the writer thread");
    return result;
}

static void open_apart(void *argument)
{
    struct writer *writer = argument;
    bool opened = open_or_report(writer);
    if (opened) {
        output_put_aside(&writer->files);
        atomic_store_release(&writer->stage, WRITER_DEFERRED);
    } else {
        spool_close(&writer->spool);
        release_memory(writer);
    }
    tell_status(writer, opened ? WRITER_PUT_ASIDE : WRITER_FAILED);
}

/* What would need the descriptors all the time needs the thread at once. */
static bool can_defer(const struct writer *writer)
{
    struct os_file_status there;
    if (!writer->may_defer || writer->output[0] == '|' ||
        output_name_descriptor(writer->output) >= 0 ||
        os_file_look(OS_NO_DIRECTORY, writer->output, &there) < 0)
        return false;
    return there.kind == OS_FILE_MISSING || (there.kind == OS_FILE_PLAIN && there.is_own_name);
}

int writer_start(struct writer *writer)
{
    writer->usage_before = os_process_usage();
    bool deferred = can_defer(writer) && os_call_apart(open_apart, writer) == 0;
    if (!deferred && start_thread(writer) < 0) {
        report_failure(writer, "not recording: ");
        return writer->error;
    }
    while (!deferred && atomic_load_acquire(&writer->status) == WRITER_STARTING &&
           !writer_is_gone(writer))
        os_wait(&writer->status, WRITER_STARTING, WRITER_TICK_NS);
    uint32_t status = atomic_load_acquire(&writer->status);
    if (status == WRITER_RUNNING || status == WRITER_PUT_ASIDE) return 0;
    while (!deferred && !writer_is_gone(writer))
        os_wait(&writer->done, 0, WRITER_TICK_NS);
    if (!writer->error) {
        fail(writer, -EINTR, "the writer thread");
        report_failure(writer, "not recording: ");
    }
    return writer->error;
}

/* The spool has all so far. */
static void begin_deferred(struct writer *writer)
{
    int result = os_is_confined() ? -EPERM : start_thread(writer);
    if (result == 0) return;
    fail(writer, result, "the writer thread");
    note_incomplete(writer);
    report_failure(writer, "recording ended early: ");
    atomic_store_release(&writer->stage, WRITER_NEVER);
    writer->ends();
}

/* Whoever is interrupted here would leave the others waiting. */
void writer_need(struct writer *writer)
{
    uint32_t deferred = WRITER_DEFERRED;
    if (atomic_load_acquire(&writer->stage) != WRITER_DEFERRED) return;
    int kept_errno = errno;
    uint64_t signals = os_signals_block();
    if (atomic_swap_once(&writer->stage, &deferred, WRITER_BEGINNING)) begin_deferred(writer);
    os_signals_restore(signals);
    errno = kept_errno;
}

void writer_need_now(struct writer *writer)
{
    writer_need(writer);
    while (atomic_load_acquire(&writer->status) == WRITER_PUT_ASIDE && !writer_is_gone(writer))
        os_wait(&writer->status, WRITER_PUT_ASIDE, WRITER_TICK_NS);
}

void writer_sync(struct writer *writer)
{
    uint32_t wish = atomic_add_seq_cst(&writer->sync_wanted, 1) + 1;
    writer_need(writer);
    wake(writer);
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
    wake(writer);
}
