#include "stream/raw_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "stream/checksum.h"
#include "stream/magic.h"
#include "stream/mapping.h"
#include "stream/raw_unpack.h"
#include "stream/residency.h"
#include "stream/varint.h"

const struct error_kind raw_errors[] = {RAW_ERROR_LIST(ERROR_LIST_KIND)};

_Static_assert(INPUT_PEEK_MAX >= RAW_CHUNK_HEADER_BYTES + RAW_CHUNK_PAYLOAD_BYTES_MAX,
               "a whole chunk can be looked at");
_Static_assert(INPUT_PEEK_MAX >= RAW_HEADER_BYTES + RAW_METADATA_BYTES_MAX,
               "the whole header can be looked at");

/* ---- ending ---- */

static bool raw_reader_fail(struct raw_reader *reader)
{
    reader->state = RAW_STREAM_FAILED;
    return false;
}

#define RAW_FAIL(reader, which, offset, ...) \
    (error_set(&(reader)->error, &raw_errors[which], offset, __VA_ARGS__), raw_reader_fail(reader))

static bool raw_reader_no_memory(struct raw_reader *reader)
{
    errno = ENOMEM;
    error_set_system(&reader->error, "no memory for the stream");
    return raw_reader_fail(reader);
}

/* The input has fewer bytes than are needed for what begins at its present offset: cut, unless
 * the input itself has failed. */
static bool cut(struct raw_reader *reader, enum raw_error which)
{
    uint64_t offset = input_offset(&reader->input);
    size_t left = (size_t)(reader->input.end - reader->input.next);
    if (reader->input.state == INPUT_FAILED) {
        reader->error = reader->input.error;
        return raw_reader_fail(reader);
    }
    if (left > 0)
        error_set(&reader->error, &raw_errors[which], offset, "%zu bytes of it are there", left);
    else if (which == RAW_EMPTY)
        error_set(&reader->error, &raw_errors[which], offset,
                  reader->input.state == INPUT_CUT ? "the first LZ4 block is incomplete"
                                                   : "the input is empty");
    else
        error_set(&reader->error, &raw_errors[which], offset, NULL);
    reader->state = RAW_STREAM_CUT;
    return false;
}

/* ---- chunks as memory ---- */

struct raw_chunk *raw_chunk_new(uint32_t payload_bytes)
{
    struct raw_chunk *chunk = calloc(1, sizeof *chunk + payload_bytes + RAW_CHUNK_SLACK);
    if (chunk == NULL) return NULL;
    chunk->payload = (uint8_t *)(chunk + 1);
    chunk->payload_bytes = payload_bytes;
    return chunk;
}

/* ---- header ---- */

static bool check_header(struct raw_reader *reader, const uint8_t *at, uint32_t metadata)
{
    if (bytes_get64(at + RAW_HEADER_MAGIC) != RAW_MAGIC)
        return RAW_FAIL(reader, RAW_NO_STREAM, 0, NULL);
    if (bytes_get16(at + RAW_HEADER_VERSION_MAJOR) != RAW_VERSION_MAJOR)
        return RAW_FAIL(reader, RAW_VERSION, RAW_HEADER_VERSION_MAJOR, "%u",
                        (unsigned)bytes_get16(at + RAW_HEADER_VERSION_MAJOR));
    if (metadata > RAW_METADATA_BYTES_MAX)
        return RAW_FAIL(reader, RAW_METADATA, RAW_HEADER_METADATA_BYTES, "%" PRIu32 " bytes",
                        metadata);
    uint64_t unknown = bytes_get64(at + RAW_HEADER_FEATURES) & ~RAW_FEATURES_KNOWN;
    if (unknown != 0)
        return RAW_FAIL(reader, RAW_FEATURE, RAW_HEADER_FEATURES, "bit %d",
                        __builtin_ctzll(unknown));
    return true;
}

static bool raw_reader_take_header(struct raw_reader *reader, const uint8_t *at, uint32_t metadata)
{
    struct raw_header *header = &reader->header;
    header->version_major = bytes_get16(at + RAW_HEADER_VERSION_MAJOR);
    header->version_minor = bytes_get16(at + RAW_HEADER_VERSION_MINOR);
    header->features = bytes_get64(at + RAW_HEADER_FEATURES);
    pack_fill_entries(reader->packed_entries);
    header->info = bytes_get64(at + RAW_HEADER_INFO);
    memcpy(header->recording_id, at + RAW_HEADER_RECORDING_ID, RAW_RECORDING_ID_BYTES);
    header->start_ns = bytes_get64(at + RAW_HEADER_START_NS);
    header->pid = bytes_get32(at + RAW_HEADER_PID);
    header->metadata = malloc((size_t)metadata + 1);
    if (header->metadata == NULL) return raw_reader_no_memory(reader);
    memcpy(header->metadata, at + RAW_HEADER_BYTES, metadata);
    header->metadata[metadata] = '\0';
    header->metadata_bytes = metadata;
    reader->has_header = true;
    return true;
}

static bool header_bytes_read(struct raw_reader *reader)
{
    size_t there = input_peek(&reader->input, RAW_HEADER_BYTES);
    size_t compare = there < 8 ? there : 8;
    uint64_t magic = RAW_MAGIC;
    if (memcmp(reader->input.next, &magic, compare) != 0)
        return RAW_FAIL(reader, RAW_NO_STREAM, 0, "%s", magic_text(reader->input.next, there));
    if (there < RAW_HEADER_BYTES) return cut(reader, RAW_EMPTY);
    uint32_t metadata = bytes_get32(reader->input.next + RAW_HEADER_METADATA_BYTES);
    if (!check_header(reader, reader->input.next, metadata)) return false;
    if (input_peek(&reader->input, RAW_HEADER_BYTES + metadata) < RAW_HEADER_BYTES + metadata)
        return cut(reader, RAW_EMPTY);
    const uint8_t *at = reader->input.next;
    if (checksum_of_two(at, RAW_HEADER_CHECKSUM, at + RAW_HEADER_BYTES, metadata) !=
        bytes_get32(at + RAW_HEADER_CHECKSUM))
        return RAW_FAIL(reader, RAW_HEADER_DAMAGED, RAW_HEADER_CHECKSUM, NULL);
    if (!raw_reader_take_header(reader, at, metadata)) return false;
    input_skip(&reader->input, RAW_HEADER_BYTES + metadata);
    return true;
}

/* ---- opening and closing ---- */

bool raw_reader_open_fd(struct raw_reader *reader, int fd)
{
    *reader = (struct raw_reader){.fd = fd};
    input_open_fd(&reader->input, fd);
    return header_bytes_read(reader);
}

bool raw_reader_open(struct raw_reader *reader, const char *path)
{
    if (strcmp(path, "-") == 0) return raw_reader_open_fd(reader, STDIN_FILENO);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *reader = (struct raw_reader){.fd = -1, .state = RAW_STREAM_FAILED};
        return error_set_system(&reader->error, "cannot open");
    }
    bool opened = raw_reader_open_fd(reader, fd);
    reader->owned = true;
    return opened;
}

void raw_reader_close(struct raw_reader *reader)
{
    if (reader->fd >= 0) input_close(&reader->input);
    if (reader->owned) close(reader->fd);
    free(reader->lanes);
    free(reader->end_units);
    free(reader->header.metadata);
    *reader = (struct raw_reader){.fd = -1, .state = RAW_STREAM_FAILED};
}

bool raw_reader_is_dry(const struct raw_reader *reader)
{
    const struct input *input = &reader->input;
    if (input->state != INPUT_MORE) return false;
    size_t there = (size_t)(input->end - input->next);
    if (there >= RAW_CHUNK_HEADER_BYTES &&
        there >= RAW_CHUNK_HEADER_BYTES + bytes_get32(input->next + RAW_CHUNK_HEADER_PAYLOAD))
        return false;
    struct pollfd one = {.fd = reader->fd, .events = POLLIN};
    return poll(&one, 1, 0) == 0;
}

uint64_t raw_reader_bytes(const struct raw_reader *reader)
{
    return input_file_offset(&reader->input);
}

/* ---- chunks ---- */

/* Lanes appear in any order; the table covers them all up to the highest. */
bool raw_reader_know_lane(struct raw_reader *reader, uint32_t lane)
{
    if (lane < reader->lanes_count) return true;
    if (!array_reserve(&reader->lanes, &reader->lanes_room, (size_t)lane + 1,
                       sizeof *reader->lanes))
        return raw_reader_no_memory(reader);
    reader->lanes_count = lane + 1;
    return true;
}

void raw_reader_advance_lane(struct raw_reader *reader, const struct raw_chunk *chunk)
{
    struct raw_lane_position *lane = &reader->lanes[chunk->lane];
    if (chunk->begin) lane->segment_unit = chunk->first_unit;
    lane->segment_allocation = chunk->first_allocation;
    lane->units = chunk->first_unit + chunk->units;
    lane->begun = true;
}

static bool check_sequence(struct raw_reader *reader, const struct raw_chunk *chunk)
{
    const struct raw_lane_position *lane = &reader->lanes[chunk->lane];
    if (chunk->gap) return true;
    if (chunk->first_unit != lane->units)
        return RAW_FAIL(reader, RAW_SEQUENCE, chunk->offset,
                        "lane %" PRIu32 " continues with unit %" PRIu64 ", expected %" PRIu64,
                        chunk->lane, chunk->first_unit, lane->units);
    if (!lane->begun && !chunk->key)
        return RAW_FAIL(reader, RAW_SEQUENCE, chunk->offset,
                        "lane %" PRIu32 " begins with a chunk that does not begin a key segment",
                        chunk->lane);
    if (chunk->begin ? chunk->first_allocation < lane->segment_allocation
                     : chunk->first_allocation != lane->segment_allocation)
        return RAW_FAIL(reader, RAW_SEQUENCE, chunk->offset,
                        "lane %" PRIu32 " continues a segment after allocation %" PRIu64
                        ", it was %" PRIu64,
                        chunk->lane, chunk->first_allocation, lane->segment_allocation);
    return true;
}

/* Whether the chunk can be used though others of its lane are missing. */
static bool bridges_gap(const struct raw_reader *reader, const struct raw_chunk *chunk)
{
    const struct raw_lane_position *lane = &reader->lanes[chunk->lane];
    return reader->salvage && chunk->key && chunk->first_unit > lane->units &&
           chunk->first_allocation >= lane->segment_allocation;
}

static bool raw_reader_take_units(struct raw_reader *reader, struct raw_chunk *chunk)
{
    if (!raw_reader_know_lane(reader, chunk->lane)) return false;
    chunk->gap = bridges_gap(reader, chunk);
    if (!check_sequence(reader, chunk)) return false;
    raw_reader_advance_lane(reader, chunk);
    return true;
}

static bool raw_reader_take_tick(struct raw_reader *reader, const struct raw_chunk *chunk)
{
    if (reader->salvage && chunk->first_unit > reader->ticks) reader->ticks = chunk->first_unit;
    if (chunk->first_unit != reader->ticks)
        return RAW_FAIL(reader, RAW_SEQUENCE, chunk->offset, "tick %" PRIu64 ", expected %" PRIu64,
                        chunk->first_unit, reader->ticks);
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct raw_tick tick = {0};
    tick.since_start_ns = varint_get(&at);
    tick.rss_bytes = varint_get(&at);
    tick.heap_bytes = varint_get(&at);
    tick.has_usage = at < end;
    if (tick.has_usage) {
        tick.usage.recorder_bytes = varint_get(&at);
        tick.usage.user_ns = varint_get(&at);
        tick.usage.system_ns = varint_get(&at);
        tick.usage.peak_rss_bytes = varint_get(&at);
    }
    while (at < end && tick.statistics.count < ORIGINAL_STATISTICS_MAX)
        tick.statistics.values[tick.statistics.count++] = varint_get(&at);
    if (at != end) return RAW_FAIL(reader, RAW_TICK_DAMAGED, chunk->payload_offset, NULL);
    if (tick.since_start_ns < reader->tick.since_start_ns)
        return RAW_FAIL(reader, RAW_TICK_DAMAGED, chunk->payload_offset, "time goes backwards");
    reader->tick = tick;
    reader->ticks++;
    return true;
}

static bool raw_reader_take_mappings(struct raw_reader *reader, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct mapping_record record;
    uint64_t latest = 0, records = 0;
    if (chunk->first_unit < reader->mapping_cells ||
        (chunk->first_unit > reader->mapping_cells && !reader->salvage))
        return RAW_FAIL(reader, RAW_SEQUENCE, chunk->offset,
                        "mappings continue with cell %" PRIu64 ", expected %" PRIu64,
                        chunk->first_unit, reader->mapping_cells);
    for (; at < end; records++) {
        const uint8_t *from = at;
        const char *wrong = mapping_record_take(&at, end, &latest, &record);
        if (wrong != NULL)
            return RAW_FAIL(reader, RAW_MAPPING,
                            chunk->payload_offset + (uint64_t)(from - chunk->payload), "%s", wrong);
    }
    reader->mapping_cells = chunk->first_unit + chunk->units;
    reader->mappings += records;
    return true;
}

static bool raw_reader_take_residency(struct raw_reader *reader, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    const char *wrong = residency_check(at, end);
    if (wrong != NULL) return RAW_FAIL(reader, RAW_RESIDENCY, chunk->payload_offset, "%s", wrong);
    reader->residencies++;
    return true;
}

/* Fills `end` as far as the payload goes; returns where reading stopped, NULL if a number is out of
 * range. */
static const uint8_t *parse_end(struct raw_reader *reader, const uint8_t *at, const uint8_t *limit)
{
    struct raw_end *end = &reader->end;
    uint64_t status = varint_get(&at);
    end->since_start_ns = varint_get(&at);
    end->events = varint_get(&at);
    end->lost_events = varint_get(&at);
    end->waits = varint_get(&at);
    end->waited_ns = varint_get(&at);
    uint64_t lanes = varint_get(&at);
    if (at > limit || status >= RAW_END_STATUSES || lanes > RAW_LANES_MAX) return NULL;
    end->status = (uint32_t)status;
    end->lanes = (uint32_t)lanes;
    free(reader->end_units); /* of an end chunk that salvage went past */
    reader->end_units = calloc(lanes + 1, sizeof *reader->end_units);
    if (reader->end_units == NULL) return NULL;
    for (uint64_t lane = 0; lane < lanes; lane++) {
        if (at >= limit) return NULL;
        reader->end_units[lane] = varint_get(&at);
    }
    return at;
}

static bool raw_reader_check_totals(struct raw_reader *reader, uint64_t offset)
{
    const struct raw_end *end = &reader->end;
    if (end->lanes < reader->lanes_count)
        return RAW_FAIL(reader, RAW_END_DIFFERS, offset, "%" PRIu32 " lanes, read %" PRIu32,
                        end->lanes, reader->lanes_count);
    for (uint32_t lane = 0; lane < end->lanes; lane++) {
        uint64_t units = lane < reader->lanes_count ? reader->lanes[lane].units : 0;
        if (reader->end_units[lane] != units)
            return RAW_FAIL(reader, RAW_END_DIFFERS, offset,
                            "%" PRIu64 " units in lane %" PRIu32 ", read %" PRIu64,
                            reader->end_units[lane], lane, units);
    }
    return true;
}

static bool raw_reader_take_end(struct raw_reader *reader, const struct raw_chunk *chunk)
{
    const uint8_t *limit = chunk->payload + chunk->payload_bytes;
    if (parse_end(reader, chunk->payload, limit) != limit)
        return RAW_FAIL(reader, RAW_END_DAMAGED, chunk->payload_offset, NULL);
    if (!raw_reader_check_totals(reader, chunk->payload_offset)) return false;
    if (input_peek(&reader->input, 1) > 0)
        return RAW_FAIL(reader, RAW_TRAILING, input_offset(&reader->input), NULL);
    if (reader->input.state == INPUT_FAILED) {
        reader->error = reader->input.error;
        return raw_reader_fail(reader);
    }
    reader->state = RAW_STREAM_COMPLETE;
    return true;
}

/* Makes a whole chunk available at input.next. Checks limits first, before it trusts a length. */
static bool peek_chunk(struct raw_reader *reader)
{
    struct input *input = &reader->input;
    size_t there = input_peek(input, RAW_CHUNK_HEADER_BYTES);
    if (there < RAW_CHUNK_HEADER_BYTES)
        return cut(reader, there == 0 ? RAW_CUT_NO_END : RAW_CUT_CHUNK);
    if (bytes_get32(input->next) != RAW_CHUNK_MAGIC)
        return RAW_FAIL(reader, RAW_CHUNK_MAGIC_WRONG, input_offset(input), NULL);
    uint32_t payload_bytes = bytes_get32(input->next + RAW_CHUNK_HEADER_PAYLOAD);
    uint32_t units = bytes_get32(input->next + RAW_CHUNK_HEADER_UNITS);
    if (payload_bytes > RAW_CHUNK_PAYLOAD_BYTES_MAX || units > RAW_CHUNK_UNITS_MAX)
        return RAW_FAIL(reader, RAW_CHUNK_LIMIT, input_offset(input),
                        "%" PRIu32 " bytes, %" PRIu32 " units", payload_bytes, units);
    size_t bytes = RAW_CHUNK_HEADER_BYTES + payload_bytes;
    if (input_peek(input, bytes) < bytes) return cut(reader, RAW_CUT_CHUNK);
    if (checksum_of_two(input->next, RAW_CHUNK_HEADER_CHECKSUM,
                        input->next + RAW_CHUNK_HEADER_BYTES,
                        payload_bytes) != bytes_get32(input->next + RAW_CHUNK_HEADER_CHECKSUM))
        return RAW_FAIL(reader, RAW_CHUNK_DAMAGED, input_offset(input), NULL);
    return true;
}

/* Fields whose value a chunk of a known type cannot choose. */
static bool check_fields(struct raw_reader *reader, const struct raw_chunk *chunk, uint8_t flags)
{
    bool fits = chunk->type == RAW_CHUNK_UNITS ? (flags & ~RAW_CHUNK_FLAGS_KNOWN) == 0 : flags == 0;
    if (!fits || (chunk->key && !chunk->begin))
        return RAW_FAIL(reader, RAW_CHUNK_FIELD, chunk->offset, "flags 0x%02x", flags);
    if (chunk->type != RAW_CHUNK_UNITS &&
        (chunk->lane != 0 || (chunk->units != 0 && chunk->type != RAW_CHUNK_MAPPINGS) ||
         chunk->first_allocation != 0))
        return RAW_FAIL(reader, RAW_CHUNK_FIELD, chunk->offset,
                        "a lane, units or an allocation in a chunk of type %u", chunk->type);
    if (chunk->first_allocation > RAW_SERIAL_MAX)
        return RAW_FAIL(reader, RAW_ALLOCATIONS, chunk->offset, "%" PRIu64,
                        chunk->first_allocation);
    return true;
}

/* Fills the chunk from the one at input.next, but for its payload. */
static void take_fields(const struct raw_reader *reader, struct raw_chunk *chunk)
{
    const uint8_t *at = reader->input.next;
    uint8_t flags = at[RAW_CHUNK_HEADER_FLAGS];
    chunk->type = at[RAW_CHUNK_HEADER_TYPE];
    chunk->begin = (flags & RAW_CHUNK_FLAG_BEGIN) != 0;
    chunk->key = (flags & RAW_CHUNK_FLAG_KEY) != 0;
    chunk->packed = (flags & RAW_CHUNK_FLAG_PACKED) != 0;
    chunk->lane = bytes_get16(at + RAW_CHUNK_HEADER_LANE);
    chunk->units = bytes_get32(at + RAW_CHUNK_HEADER_UNITS);
    chunk->first_unit = bytes_get64(at + RAW_CHUNK_HEADER_FIRST);
    chunk->first_allocation = bytes_get64(at + RAW_CHUNK_HEADER_ALLOCATION);
    chunk->offset = input_offset(&reader->input);
    chunk->payload_offset = chunk->offset + RAW_CHUNK_HEADER_BYTES;
    chunk->end_offset = chunk->payload_offset + bytes_get32(at + RAW_CHUNK_HEADER_PAYLOAD);
}

/* For how many units one of a packed chunk may stand. In an opaque stream that of an allocation may
 * stand for three, or be longer than what it stands for. Elsewhere a unit that names an object by
 * its age may stand for two that name its place. */
static uint32_t units_unpacked(const struct raw_reader *reader)
{
    return reader->header.features & RAW_FEATURE_OPAQUE ? 3 : 1;
}

static bool raw_reader_unpack(struct raw_reader *reader, struct raw_chunk *chunk, const uint8_t *at,
                              uint32_t bytes)
{
    uint32_t units = units_unpacked(reader) * chunk->units;
    uint32_t most = units_unpacked(reader) > 1 ? units_unpacked(reader) : 2;
    if (!raw_unpack(reader->packed_entries, at, bytes, chunk->payload, &units) ||
        chunk->units > most * units)
        return RAW_FAIL(reader, RAW_PACKED, chunk->payload_offset,
                        "%" PRIu32 " bytes, %" PRIu32 " units", bytes, chunk->units);
    chunk->payload_bytes = 2 * units;
    return true;
}

/* Copies the payload, or unpacks it: in the chunk, units have two bytes each. */
static bool take_payload(struct raw_reader *reader, struct raw_chunk *chunk)
{
    const uint8_t *at = reader->input.next + RAW_CHUNK_HEADER_BYTES;
    uint32_t bytes = bytes_get32(reader->input.next + RAW_CHUNK_HEADER_PAYLOAD);
    uint32_t profile = chunk->begin ? RAW_PROFILE_BYTES : 0;
    if (chunk->type != RAW_CHUNK_UNITS) {
        memcpy(chunk->payload, at, bytes);
        return true;
    }
    if (bytes < profile || (!chunk->packed && bytes - profile != 2 * chunk->units))
        return RAW_FAIL(reader, RAW_PAYLOAD, chunk->payload_offset,
                        "%" PRIu32 " bytes, %" PRIu32 " units", bytes, chunk->units);
    memcpy(chunk->profile, at, profile);
    chunk->payload_offset += profile;
    if (chunk->packed) return raw_reader_unpack(reader, chunk, at + profile, bytes - profile);
    memcpy(chunk->payload, at + profile, bytes - profile);
    return true;
}

/* The chunk at input.next, NULL if its type is unknown or after a failure. */
static struct raw_chunk *copy_chunk(struct raw_reader *reader)
{
    const uint8_t *at = reader->input.next;
    uint8_t type = at[RAW_CHUNK_HEADER_TYPE];
    if (type < RAW_CHUNK_UNITS || type > RAW_CHUNK_LAST) return NULL;
    uint32_t bytes = bytes_get32(at + RAW_CHUNK_HEADER_PAYLOAD);
    if (type == RAW_CHUNK_UNITS)
        bytes = 2 * units_unpacked(reader) * bytes_get32(at + RAW_CHUNK_HEADER_UNITS);
    struct raw_chunk *chunk = raw_chunk_new(bytes);
    if (chunk == NULL) {
        raw_reader_no_memory(reader);
        return NULL;
    }
    take_fields(reader, chunk);
    if (check_fields(reader, chunk, at[RAW_CHUNK_HEADER_FLAGS]) && take_payload(reader, chunk))
        return chunk;
    free(chunk);
    return NULL;
}

/* True: the chunk is for the caller. */
static bool take_chunk(struct raw_reader *reader, struct raw_chunk *chunk)
{
    switch (chunk->type) {
    case RAW_CHUNK_UNITS: return raw_reader_take_units(reader, chunk);
    case RAW_CHUNK_TICK: return raw_reader_take_tick(reader, chunk);
    case RAW_CHUNK_MAPPINGS: return raw_reader_take_mappings(reader, chunk);
    case RAW_CHUNK_RESIDENCY: return raw_reader_take_residency(reader, chunk);
    default: raw_reader_take_end(reader, chunk); return false;
    }
}

/* ---- salvage ---- */

/* After a failure at a chunk: whether to go on, looking for another one. Failures while looking are
 * the same damage. */
static bool forgive(struct raw_reader *reader)
{
    const struct input *input = &reader->input;
    if (!reader->salvage || reader->error.kind == &error_system || input->state == INPUT_FAILED)
        return false;
    /* A chunk that seems to reach beyond the end, though others follow, has a wrong length. */
    const uint32_t magic = RAW_CHUNK_MAGIC;
    if (reader->state == RAW_STREAM_CUT &&
        (input->end - input->next <= (ptrdiff_t)sizeof magic ||
         memmem(input->next + 1, (size_t)(input->end - input->next - 1), &magic, sizeof magic) ==
             NULL))
        return false;
    if (!reader->searching) {
        if (reader->damages++ == 0) reader->damage = reader->error;
        reader->searching = true;
    }
    /* After an end chunk there is nothing to look for. */
    bool ended = reader->error.kind == &raw_errors[RAW_TRAILING] ||
                 reader->error.kind == &raw_errors[RAW_END_DIFFERS];
    reader->error = (struct error){0};
    reader->state = ended ? RAW_STREAM_COMPLETE : RAW_STREAM_MORE;
    return true;
}

/* Skips to where the next chunk may begin, at least a byte. */
static void search(struct raw_reader *reader)
{
    struct input *input = &reader->input;
    const uint32_t magic = RAW_CHUNK_MAGIC;
    size_t there = input_peek(input, 1), at = 1;
    while ((there = input_peek(input, at + sizeof magic)) >= at + sizeof magic) {
        const uint8_t *found = memmem(input->next + at, there - at, &magic, sizeof magic);
        if (found != NULL) {
            input_skip(input, (size_t)(found - input->next));
            return;
        }
        input_skip(input, there - sizeof magic + 1);
        at = 0;
    }
    input_skip(input, there);
}

/* The next chunk lies at input.next. False: there is none. */
static bool find_chunk(struct raw_reader *reader)
{
    while (reader->state == RAW_STREAM_MORE && !peek_chunk(reader)) {
        if (!forgive(reader)) return false;
        search(reader);
    }
    return reader->state == RAW_STREAM_MORE;
}

struct raw_chunk *raw_reader_next(struct raw_reader *reader)
{
    while (find_chunk(reader)) {
        size_t bytes =
            RAW_CHUNK_HEADER_BYTES + bytes_get32(reader->input.next + RAW_CHUNK_HEADER_PAYLOAD);
        struct raw_chunk *chunk = copy_chunk(reader);
        input_skip(&reader->input, bytes);
        if (chunk == NULL) continue;
        reader->chunks++;
        if (take_chunk(reader, chunk)) {
            reader->searching = false;
            return chunk;
        }
        free(chunk);
        if (reader->state == RAW_STREAM_FAILED && !forgive(reader)) break;
    }
    return NULL;
}
