#include "inspect/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "reading/raw_source.h"
#include "stream/metadata.h"

#define INFO_ERROR_LIST(X)                      \
    X(INFO_TOTALS_DIFFER, "info_totals_differ", \
      "the number of events is not that of the end chunk (FORMAT.md 4.4)")
enum info_error { INFO_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind info_errors[] = {INFO_ERROR_LIST(ERROR_LIST_KIND)};

struct raw_info {
    struct info *info;
    struct raw_source source;
    uint64_t allocated, freed; /* objects of known allocations */
    uint64_t lost;             /* events that `lost` records count */
};

/* ---- records ---- */

static void info_raw_take_call(struct raw_info *state, const struct record *record)
{
    state->info->events++;
    state->info->by_kind[record->kind]++;
    state->allocated += shape_begins(record->shape);
    state->freed += shape_ends(record->shape) && record->bound != 0;
}

static void info_raw_take_stack(struct raw_info *state, uint32_t node)
{
    state->info->stacks++;
    if (!stacks_use(&state->source.stacks, node))
        error_set_system(&state->source.error, "no memory for call stacks");
}

static void info_raw_take_inside(struct info *info, const struct record *record)
{
    if (record->structure < RAW_STRUCTURES) {
        info->lock_waits++;
        info->lock_waited_ns += record->size;
    } else if (record->structure == RAW_INSIDE_RELEASE) {
        info->released_bytes += record->size;
    } else if (record->structure < RAW_INSIDE_RELEASE) {
        info->taken_bytes += record->size;
    }
}

static void info_raw_take_record(struct raw_info *state, const struct record *record)
{
    struct info *info = state->info;
    if (record->number < CALL_KINDS && record->stack != STACK_END)
        info_raw_take_stack(state, record->stack);
    if (record->number < CALL_KINDS) return info_raw_take_call(state, record);
    switch (record->number) {
    case RAW_THREAD_BEGIN: info->threads++; break;
    case RAW_SEQUENCE_BEFORE:
    case RAW_SEQUENCE_AFTER: info->sequences++; break;
    case RAW_INSIDE: info_raw_take_inside(info, record); break;
    case RAW_LOST: state->lost += record->size; break;
    case RAW_FAILED:
        info->events++;
        info->failed++;
        info->by_kind[record->kind]++;
        break;
    }
}

static void info_raw_take_records(void *of, const struct raw_batch *batch)
{
    struct raw_info *state = of;
    const uint64_t before = state->info->events;
    for (uint32_t i = 0; i < batch->count; i++)
        info_raw_take_record(state, &batch->records[i]);
    if (batch->chunk->spool) state->info->spool_events += state->info->events - before;
}

static void info_raw_take_tick(void *of, const struct raw_chunk *chunk)
{
    struct raw_info *state = of;
    const struct raw_tick *tick = &state->source.reader.tick;
    (void)chunk;
    state->info->statistics = tick->statistics;
    info_take_tick(state->info, tick->since_start_ns - state->info->original.now_ns,
                   tick->rss_bytes, tick->has_usage ? &tick->usage : NULL);
}

static void info_raw_take_mappings(void *of, const struct raw_chunk *chunk)
{
    info_take_mappings(((struct raw_info *)of)->info, chunk);
}

static void info_raw_take_residency(void *of, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct residency residency;
    if (residency_take(&at, end, &residency) == NULL)
        info_take_residency(((struct raw_info *)of)->info, &residency, at, end);
}

/* ---- header and end ---- */

static void info_raw_take_header(struct info *info, const struct raw_header *header)
{
    char text[2 * RAW_RECORDING_ID_BYTES + 1];
    info->version_major = header->version_major;
    info->version_minor = header->version_minor;
    info->has_addresses = (header->features & RAW_FEATURE_ADDRESSES) != 0;
    info->has_stacks = (header->features & RAW_FEATURE_STACKS) != 0;
    info->has_mappings = (header->info & RAW_INFO_MAPPINGS) != 0;
    info->program = metadata_copy(header->metadata, header->metadata_bytes, "program");
    info->architecture = metadata_copy(header->metadata, header->metadata_bytes, "architecture");
    info->page_bytes = metadata_page_bytes(header->metadata, header->metadata_bytes);
    info->allocator = metadata_copy(header->metadata, header->metadata_bytes, "allocator");
    info->heap_unknown = metadata_copy(header->metadata, header->metadata_bytes, "heap.unknown");
    info->foreign_malloc = metadata_copy(header->metadata, header->metadata_bytes, "malloc");
    statistics_take(&info->names, header->metadata, header->metadata_bytes);
    for (unsigned i = 0; i < RAW_RECORDING_ID_BYTES; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", header->recording_id[i]);
    info->recording = strdup(text);
    snprintf(text, sizeof text, "%" PRIu32, header->pid);
    info->pid = strdup(text);
    info->start_s = (double)header->start_ns / 1e9;
}

/* Compares the number of events; the reader has already compared the units of each lane. */
static bool info_raw_check_totals(struct raw_info *state)
{
    const struct raw_end *end = &state->source.reader.end;
    if (end->events == state->info->events) return true;
    return error_set(
        &state->source.error, &info_errors[INFO_TOTALS_DIFFER], state->source.stream_end,
        "%" PRIu64 " events in the end chunk, %" PRIu64 " read", end->events, state->info->events);
}

/* Takes the totals of the end chunk. It counts all lost events, also those without a `lost` record,
 * from threads that could not record at all. */
static void info_raw_take_end(struct raw_info *state)
{
    static const char *const texts[] = {"complete", "complete: recording ended at a limit",
                                        "complete: an error ended recording",
                                        "complete: another program ran in the process (exec)"};
    const struct raw_end *end = &state->source.reader.end;
    struct info *info = state->info;
    info->duration_ns = end->since_start_ns;
    info->lost_events = end->lost_events;
    info->waits = end->waits;
    info->waited_ns = end->waited_ns;
    info->ended = texts[end->status];
    info_raw_check_totals(state);
}

static void take_cut(struct raw_info *state)
{
    static const char *const texts[] = {
        [RAW_CUT_WHOLE] = ("cut short, but every event is here: the program is still running, was "
                           "killed by a signal, or exited without finishing the recording"),
        [RAW_CUT_FAILED] = "cut short: an error ended the recording before the program ended",
        [RAW_CUT_UNKNOWN] = "cut short, and no spool has the rest"};
    state->info->truncated = true;
    state->info->ended = texts[raw_source_cut(&state->source)];
    state->info->duration_ns = state->source.reader.tick.since_start_ns;
    state->info->lost_events = state->lost;
}

int info_raw(struct info *info, struct stream *stream, const char *path, struct error *error)
{
    struct raw_info state = {.info = info};
    struct raw_source *source = &state.source;
    static const struct raw_visitor visitor = {.records = info_raw_take_records,
                                               .tick = info_raw_take_tick,
                                               .cache_records = true,
                                               .mappings = info_raw_take_mappings,
                                               .residency = info_raw_take_residency};
    raw_source_open(source, stream->fd, path);
    if (source->reader.has_header) info_raw_take_header(info, &source->reader.header);
    raw_source_visit(source, &visitor, &state);
    for (size_t lane = 0; lane < source->decoders_count; lane++)
        info->lanes += source->decoders[lane] != NULL && source->decoders[lane]->records > 0;
    info->ticks = source->reader.ticks;
    info->spool = source->spool_use;
    info->residencies = source->reader.residencies;
    if (source->reader.state == RAW_STREAM_COMPLETE)
        info_raw_take_end(&state);
    else
        take_cut(&state);
    bool has_all =
        source->reader.state == RAW_STREAM_COMPLETE || raw_source_cut(source) == RAW_CUT_WHOLE;
    info->frees_too_many = state.freed > state.allocated;
    info->live_is_known = has_all && info->lost_events == 0 && !info->frees_too_many;
    info->live_at_end = info->live_is_known ? state.allocated - state.freed : 0;
    info_take_stacks(info, &source->stacks);
    int status = raw_source_state(source, error);
    raw_source_close(source);
    return status;
}
