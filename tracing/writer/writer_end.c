#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "stream/chunk_seal.h"
#include "stream/units_read.h"
#include "stream/varint.h"
#include "tracing/data/notice.h"
#include "tracing/data/settings.h"
#include "tracing/os/probes.h"

#include <errno.h>
#include <string.h>

/* ---- totals ---- */

uint64_t writer_events(const struct writer *writer)
{
    const struct lane_registry *registry = atomic_load_acquire(&writer->registry);
    uint32_t used = atomic_load_acquire(&registry->used);
    uint64_t events = 0;
    for (uint32_t i = 0; i < used; i++) {
        const struct malloctape_lane *lane = lane_at(registry, i);
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
    watch_read(&writer->watch, counts);
    counts->opaque = malloctape_front_end.opaque;
    counts->heap_bytes = malloctape_front_end.heap_bytes();
    if (malloctape_front_end.used_bytes != NULL)
        counts->used_bytes = malloctape_front_end.used_bytes();
    if (malloctape_front_end.read_statistics != NULL) {
        const char *names = malloctape_front_end.statistics();
        memcpy(counts->names, names, strlen(names) + 1);
        malloctape_front_end.read_statistics(&counts->statistics);
    }
    counts->recorder_bytes = atomic_load_relaxed(&writer->tick.usage.recorder_bytes);
    counts->events = writer_events(writer);
}

/* Events of the lane in the stream, exactly, though its thread may be in the middle of one: then
 * those before its slot are known from the lane's own counts, and those in the slot are counted. */
static uint64_t events_of_lane(const struct writer *writer, const struct malloctape_lane *lane)
{
    uint64_t extra = atomic_load_acquire(&lane->units.extra_units);
    const uint16_t *cursor = writer_cursor_of(lane);
    /* Without a slot the lane had no thread when `extra` was read; or that one has gone, and all
     * that it recorded is in the stream. */
    if (cursor == NULL || (cursor == lane->writer.read_from &&
                           os_thread_is_gone(atomic_load_relaxed(&lane->registry.thread_id))))
        return lane->writer.written - extra;
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

/* ---- messages: written here because this thread has standard error as it was at the start ---- */

void writer_report_failure(const struct writer *writer, const char *what)
{
    struct message message;
    message_begin(&message);
    message_put(&message, "%s%s: ", what, writer->failed);
    message_error(&message, writer_error(writer));
    if (writer->files.status > 0)
        message_put(&message, "; the command ended with status %lu",
                    (uint64_t)writer->files.status);
    /* One that lies beside the stream is found anyway. */
    if (writer->files.settled && !writer->files.spool_is_beside)
        message_put(&message, "; what could not be written is in %s", writer->files.spool_path);
    notice_line(&message);
}

void writer_note_incomplete(struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    for (uint32_t i = 0; i < used; i++) {
        uint32_t slot = atomic_load_relaxed(&lane_at(writer->registry, i)->slot.number);
        if (slot != SPOOL_NO_SLOT) spool_note_incomplete(&writer->spool, slot);
    }
}

void writer_report_killed(struct writer *writer)
{
    if (!writer_is_gone(writer) || atomic_load_acquire(&writer->done) ||
        atomic_load_acquire(&writer->stage) != WRITER_THREAD_BEGUN ||
        atomic_exchange_acquire(&writer->killed_reported, 1))
        return;
    writer_note_incomplete(writer);
    notice_text("recording ended early: %s: the system has killed the writer thread",
                writer->output);
}

void writer_look(const struct writer *writer, struct writer_totals *totals)
{
    *totals = (struct writer_totals){
        .events = writer_events(writer),
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
    if (writer->reason != NULL) message_put(message, "%s", writer->reason);
    if (*settings.other_malloc)
        message_put(message, "; another malloc is in use%s: %s",
                    events ? ", only what it passes on was recorded" : "", settings.other_malloc);
}

static void report_end(const struct writer *writer)
{
    struct message message;
    uint64_t events = writer_error(writer) ? 0 : writer->events;
    message_clear(&message);
    if (!writer_error(writer) && !settings.quiet && writer->files.status <= 0)
        put_summary(writer, &message, events);
    notice_for_record("end %lu %lu %s %s", (uint64_t)writer->process_id, events,
                      *settings.other_malloc ? "1" : "0", message.text);
    if (message.bytes && settings.speaks) message_write(&message);
}

/* ---- the end ---- */

/* Leaves out lanes at the end that have nothing in the stream: they may have come since room for
 * the end chunk was reserved. */
static uint32_t lanes_written(const struct writer *writer)
{
    uint32_t lanes = atomic_load_acquire(&writer->registry->used);
    while (lanes > 0 && lane_at(writer->registry, lanes - 1)->writer.written == 0)
        lanes--;
    return lanes;
}

static uint64_t units_written(const void *registry, uint32_t lane)
{
    return lane_at(registry, lane)->writer.written;
}

static void put_end(struct writer *writer)
{
    uint32_t used = lanes_written(writer);
    writer->events = events_in_stream(writer);
    uint8_t *chunk = sink_room(&writer->sink, writer_end_bytes_max(used) + VARINT_SLACK);
    const bool at_exec =
        writer->end_status == RAW_END_STOPPED && atomic_load_acquire(&writer->at_exec);
    const struct raw_end end = {.status = at_exec ? RAW_END_EXEC : writer->end_status,
                                .since_start_ns = os_clock_ns() - writer->start_ns,
                                .events = writer->events,
                                .lost_events = events_lost(writer),
                                .waits = atomic_load_relaxed(&writer->waits),
                                .waited_ns = atomic_load_relaxed(&writer->waited_ns),
                                .lanes = used};
    size_t bytes = chunk_write_end(writer->ticks, &end, units_written, writer->registry, chunk);
    /* What was counted may have been zeros. */
    if (!writer_has_read_zeros(writer)) sink_commit(&writer->sink, bytes);
}

void writer_end_output(struct writer *writer)
{
    bool forgotten =
        atomic_load_acquire(&writer->discard) && writer_events(writer) < WRITER_DISCARDED_EVENTS;
    if (forgotten) output_forget(&writer->files);
    if (writer_error(writer)) writer_note_incomplete(writer);
    bool needs_spool = writer_error(writer) && !spool_is_cut(&writer->spool);
    int result = output_end(&writer->files, needs_spool, settings.patience_ns);
    if (forgotten) {
        notice_for_record("forget %lu", (uint64_t)writer->process_id);
        return;
    }
    if (result < 0 && !writer_error(writer)) writer_check(writer, result, writer->output);
    if (writer_error(writer))
        writer_report_failure(writer, "recording ended early: ");
    else if (writer->files.status > 0)
        notice_text("%s: the command ended with status %lu and may not have read everything",
                    writer->output, (uint64_t)writer->files.status);
    report_end(writer);
}

void writer_end_stream(struct writer *writer)
{
    writer_drain_last_cells(writer);
    writer_close_window(writer);
    writer_flush(writer);
    /* After an error the stream is one that was cut: the rest is in the spool. */
    if (!writer_error(writer)) writer_put_last_tick(writer);
    if (!writer_error(writer)) put_end(writer);
    int result = sink_close(&writer->sink);
    PROBE(recording_end, writer->output, writer->end_status);
    if (result < 0 && !writer_error(writer)) writer_check(writer, result, writer->output);
    writer_end_output(writer);
}
