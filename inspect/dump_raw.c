#include "inspect/dump.h"

#include <stdlib.h>

#include "common/call_table.h"
#include "inspect/mapping_text.h"
#include "reading/path.h"
#include "reading/raw_source.h"

/* With --paths: the latest call of a lane, which is printed once its path is complete. */
struct latest_call {
    struct record record;
    uint64_t number, offset;
    bool is_waiting, spool;
    uint8_t path, coming_path; /* of this call; of the next one */
};

struct raw_dump {
    const struct dump *dump;
    struct raw_source source;
    uint64_t ticks;
    struct latest_call *latest; /* of each lane, with --paths */
};

/* Names an object: the latest at a place among the first `allocations` of a lane. */
static void object_text(char *to, uint32_t lane, uint64_t allocations, uint32_t place)
{
    snprintf(to, CALL_OBJECT_TEXT_MAX, "%" PRIu32 ":%" PRIu64 "@%" PRIu32, lane, allocations,
             place);
}

/* Names the object that a record ends: of this lane, of another one, or unknown. */
static void ended_text(char *to, uint32_t lane, const struct record *record)
{
    if (record->bound == 0 && record->ends == RAW_PLACE_NONE)
        snprintf(to, CALL_OBJECT_TEXT_MAX, "?");
    else if (record->bound == 0 || raw_allocations_lane(record->bound) == lane)
        snprintf(to, CALL_OBJECT_TEXT_MAX, "%s@%" PRIu32, record->bound == 0 ? "?" : "",
                 record->ends);
    else
        object_text(to, raw_allocations_lane(record->bound), raw_allocations_count(record->bound),
                    record->ends);
}

static const char *structure_text(uint32_t structure, char *to, size_t bytes)
{
    if (structure == RAW_STRUCTURE_PAGE_HEAP) return "page_heap";
    snprintf(to, bytes, "class %" PRIu32, structure);
    return to;
}

static void dump_raw_header_print(const struct dump *dump, const struct raw_header *header)
{
    if (!dump_wants_general(dump)) return;
    dump_offset(dump, 0);
    printf("raw %u.%u features 0x%" PRIx64 " info 0x%" PRIx64 " recording ", header->version_major,
           header->version_minor, header->features, header->info);
    for (unsigned i = 0; i < RAW_RECORDING_ID_BYTES; i++)
        printf("%02x", header->recording_id[i]);
    printf(" start %" PRIu64 " pid %" PRIu32 "\n", header->start_ns, header->pid);
    dump_metadata(dump, RAW_HEADER_BYTES, header->metadata, header->metadata_bytes);
}

static void dump_raw_call_print(const struct raw_dump *state, uint32_t lane,
                                const struct record *record)
{
    bool failed = record->number == RAW_FAILED;
    unsigned shape = call_shapes[record->kind];
    uint64_t numbers[RAW_HEAP_NUMBERS_MAX] = {record->size, record->operand};
    struct call_text text = {
        .kind = record->kind,
        .failed = failed,
        .size = record->size,
        .alignment = record->operand,
        .numbers = numbers,
        .numbers_count = record->count,
        .stack = record->stack,
    };
    bool begins = !failed && shape_begins(shape);
    if (shape_ends(shape)) ended_text(text.ended, lane, record);
    if (begins) {
        object_text(text.began, lane, record->serial, record->place);
        text.has_address = (state->source.reader.header.features & RAW_FEATURE_ADDRESSES) != 0;
        text.address = record->address;
    }
    call_text_print(stdout, &text);
}

static void inside_print(const struct record *record, const char *structure)
{
    static const char *const kinds[RAW_INSIDE_KINDS] = {"sbrk",  "mmap",  "release",
                                                        "reuse", "split", "merge"};
    const char *when = record->operand ? "after" : "before";
    if (record->structure < RAW_STRUCTURES)
        printf("waited_%s %s nanoseconds %" PRIu64 "\n", when, structure, record->size);
    else
        printf("%s_%s bytes %" PRIu64 "\n", kinds[record->structure - RAW_INSIDE_SBRK], when,
               record->size);
}

/* `definition`: if the record is one. */
static void other_print(const struct record *record, const struct stack_definition *definition)
{
    char structure[24];
    const char *name = structure_text(record->structure, structure, sizeof structure);
    switch (record->number) {
    case RAW_THREAD_BEGIN: printf("thread_begin %" PRIu64 "\n", record->operand); break;
    case RAW_THREAD_END: puts("thread_end"); break;
    case RAW_THREAD_CACHE_DELETED: puts("thread_cache_deleted"); break;
    case RAW_SEQUENCE_BEFORE:
        printf("sequence_before %s number %" PRIu64 "\n", name, record->size);
        break;
    case RAW_SEQUENCE_AFTER:
        printf("sequence_after %s number %" PRIu64 "\n", name, record->size);
        break;
    case RAW_AFTER:
        printf("after %" PRIu32 ":%" PRIu64 "%s\n", raw_allocations_lane(record->bound),
               raw_allocations_count(record->bound), record->operand ? " realloc" : "");
        break;
    case RAW_LOST:
        printf("lost events %" PRIu64 " allocations %" PRIu64 "\n", record->size, record->operand);
        break;
    case RAW_CLASS: printf("%s bytes %" PRIu64 "\n", name, record->size); break;
    case RAW_CACHE_BEGIN: puts("cache_begin"); break;
    case RAW_CACHED: printf("cached %s @%" PRIu32 "\n", name, record->place); break;
    case RAW_INSIDE: inside_print(record, name); break;
    case RAW_PAGE:
        printf("page @%" PRIu32 " at 0x%" PRIx64 "\n", record->place, record->address);
        break;
    case RAW_UNCACHED: printf("uncached %s count %" PRIu64 "\n", name, record->operand); break;
    case RAW_STACK: printf("stack %" PRIu64 "\n", record->size); break;
    case RAW_DEFINE: definition_text_print(stdout, definition); break;
    }
}

/* Prints the beginning of each line about a chunk. */
static void offset_print(const struct raw_dump *state, bool spool, uint64_t offset)
{
    if (spool && !state->dump->only_calls) fputs("spool ", stdout);
    dump_offset(state->dump, offset);
}

static void chunk_offset_print(const struct raw_dump *state, const struct raw_chunk *chunk)
{
    offset_print(state, chunk->spool, chunk->offset);
}

/* Prints the kinds of a segment's ranges, in the order of FORMAT.md 5.1. */
static void segment_print(void *of, const struct raw_chunk *chunk)
{
    const struct raw_dump *state = of;
    if (!chunk->begin || state->dump->only_calls || state->dump->paths ||
        !dump_wants_lane(state->dump, chunk->lane))
        return;
    chunk_offset_print(state, chunk);
    printf("L%" PRIu32 " segment unit %" PRIu64 " allocations %" PRIu64 "%s profile", chunk->lane,
           chunk->first_unit, chunk->first_allocation, chunk->key ? " key" : "");
    for (unsigned range = 0; range < RAW_RANGES; range++)
        printf(" %s", chunk->profile[range] != 0 ? call_names[chunk->profile[range]] : "-");
    putchar('\n');
}

/* `number` counts the records of the lane, except those about its cache only. */
static void record_print(const struct raw_dump *state, const struct raw_batch *batch,
                         const struct record *record, uint64_t number)
{
    const struct raw_chunk *chunk = batch->chunk;
    const struct dump *dump = state->dump;
    bool is_call = record->number < CALL_KINDS || record->number == RAW_FAILED;
    if (dump->only_calls && !is_call) return;
    if (!dump->only_calls) {
        chunk_offset_print(state, chunk);
        printf("L%" PRIu32 " #%" PRIu64 " ", chunk->lane, number);
    }
    if (is_call)
        dump_raw_call_print(state, chunk->lane, record);
    else
        other_print(record, &batch->decoder->definition);
}

static void latest_print(const struct raw_dump *state, uint32_t lane)
{
    struct latest_call *latest = &state->latest[lane];
    char letters[PATH_LETTERS];
    if (!latest->is_waiting) return;
    latest->is_waiting = false;
    path_letters(letters, latest->path);
    offset_print(state, latest->spool, latest->offset);
    if (!state->dump->only_calls) printf("L%" PRIu32 " #%" PRIu64 " ", lane, latest->number);
    printf("%s ", letters);
    dump_raw_call_print(state, lane, &latest->record);
}

static void path_take(const struct raw_dump *state, const struct raw_batch *batch,
                      const struct record *record, uint64_t number)
{
    const struct raw_chunk *chunk = batch->chunk;
    struct latest_call *latest = &state->latest[chunk->lane];
    const unsigned path = path_of_record(record);
    if (record->number < CALL_KINDS || record->number == RAW_FAILED) {
        latest_print(state, chunk->lane);
        *latest = (struct latest_call){
            *record, number, chunk->offset, true, chunk->spool, latest->coming_path, 0};
    } else if (record->number == RAW_THREAD_CACHE_DELETED) {
        latest_print(state, chunk->lane); /* what follows belongs to this, not to a call */
    } else if (path_is_of_latest(record)) {
        latest->path |= path;
    } else {
        latest->coming_path |= path;
    }
}

static void records_print(void *of, const struct raw_batch *batch)
{
    const struct raw_dump *state = of;
    uint64_t number = batch->number;
    if (!dump_wants_lane(state->dump, batch->chunk->lane)) return;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct record *record = &batch->records[i];
        (state->dump->paths ? path_take : record_print)(state, batch, record, number);
        number += !raw_record_is_of_cache(record);
    }
}

static void tick_print(void *of, const struct raw_chunk *chunk)
{
    struct raw_dump *state = of;
    const struct raw_tick *tick = &state->source.reader.tick;
    uint64_t number = state->ticks++;
    if (!dump_wants_general(state->dump)) return;
    chunk_offset_print(state, chunk);
    printf("tick %" PRIu64 " nanoseconds %" PRIu64 " rss %" PRIu64 " heap %" PRIu64, number,
           tick->since_start_ns, tick->rss_bytes, tick->heap_bytes);
    if (tick->has_usage)
        printf(" recorder %" PRIu64 " user %" PRIu64 " system %" PRIu64 " peak %" PRIu64,
               tick->usage.recorder_bytes, tick->usage.user_ns, tick->usage.system_ns,
               tick->usage.peak_rss_bytes);
    for (unsigned i = 0; i < tick->statistics.count; i++)
        printf("%s%" PRIu64, i == 0 ? " statistics " : " ", tick->statistics.values[i]);
    putchar('\n');
}

static void dump_raw_mappings(void *of, const struct raw_chunk *chunk)
{
    const struct raw_dump *state = of;
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct mapping_record record;
    uint64_t latest = 0;
    if (!dump_wants_general(state->dump)) return;
    while (at < end && mapping_record_take(&at, end, &latest, &record) == NULL) {
        chunk_offset_print(state, chunk);
        mapping_text_print(stdout, &record);
    }
}

static void dump_raw_residency(void *of, const struct raw_chunk *chunk)
{
    const struct raw_dump *state = of;
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct residency residency;
    struct residency_area area = {0};
    uint64_t latest_end = 0;
    if (!dump_wants_general(state->dump) || residency_take(&at, end, &residency) != NULL) return;
    chunk_offset_print(state, chunk);
    residency_text_print(stdout, &residency);
    while (at < end && residency_take_area(&at, end, &latest_end, &area) == NULL) {
        chunk_offset_print(state, chunk);
        residency_area_print(stdout, &area, residency.page_bytes);
    }
}

static void dump_raw_end_print(const struct dump *dump, const struct raw_reader *reader,
                               uint64_t offset)
{
    const struct raw_end *end = &reader->end;
    if (!dump_wants_general(dump)) return;
    dump_offset(dump, offset);
    printf("end status %" PRIu32 " nanoseconds %" PRIu64 " events %" PRIu64 " lost %" PRIu64
           " waits %" PRIu64 " waited %" PRIu64 "\n",
           end->status, end->since_start_ns, end->events, end->lost_events, end->waits,
           end->waited_ns);
    for (uint32_t lane = 0; lane < end->lanes; lane++) {
        dump_offset(dump, offset);
        printf("end lane %" PRIu32 " units %" PRIu64 "\n", lane, reader->end_units[lane]);
    }
}

int dump_raw(const struct dump *dump, struct stream *stream, const char *path, struct error *error)
{
    struct raw_dump state = {.dump = dump};
    struct raw_source *source = &state.source;
    const struct raw_visitor visitor = {segment_print,     records_print,
                                        tick_print,        !dump->only_calls || dump->paths,
                                        dump_raw_mappings, dump_raw_residency};
    if (dump->paths) state.latest = calloc(RAW_LANES_MAX, sizeof *state.latest);
    if (dump->paths && state.latest == NULL) return cli_fail(&cli_dump, "no memory for lanes");
    raw_source_open(source, stream->fd, path);
    if (source->reader.has_header) dump_raw_header_print(dump, &source->reader.header);
    const bool can = !dump->paths || !raw_source_is_opaque(source);
    if (can) raw_source_visit(source, &visitor, &state);
    for (uint32_t lane = 0; dump->paths && lane < RAW_LANES_MAX; lane++)
        latest_print(&state, lane);
    free(state.latest);
    int status =
        can ? raw_source_state(source, error)
            : cli_fail(&cli_dump, "%s: how far calls of this allocator went is not known", path);
    if (status == PROGRAM_OK) dump_raw_end_print(dump, &source->reader, source->stream_end);
    raw_source_close(source);
    return status;
}
