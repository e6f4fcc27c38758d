#include "stream/spool_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/text.h"
#include "stream/cell.h"
#include "stream/checksum.h"
#include "stream/spool_format.h"

/* A spool is a few hundred slots; more than this is not one. */
#define FILE_SLOTS_MAX (1u << 24)

struct spool_slot {
    uint64_t offset; /* in the file */
    struct spool_segment segment;
};

#define SPOOL_FAIL(spool, which, offset, ...) \
    error_set(&(spool)->error, &raw_errors[which], offset, __VA_ARGS__)

static bool spool_no_memory(struct spool_reader *spool)
{
    errno = ENOMEM;
    return error_set_system(&spool->error, "no memory for the spool");
}

/* Reads up to `bytes`; *got is less at the end of the file only. */
static bool spool_read(struct spool_reader *spool, void *to, size_t bytes, uint64_t offset,
                       size_t *got)
{
    *got = 0;
    while (*got < bytes) {
        ssize_t part = pread(spool->fd, (uint8_t *)to + *got, bytes - *got, (off_t)(offset + *got));
        if (part == 0) return true;
        if (part > 0)
            *got += (size_t)part;
        else if (errno != EINTR)
            return error_set_system(&spool->error, "cannot read the spool");
    }
    return true;
}

/* ---- where it is ---- */

const char *spool_scratch_directory(void)
{
    const char *directory = secure_getenv("TMPDIR");
    return directory != NULL && directory[0] == '/' ? directory : "/tmp";
}

bool spool_elsewhere_path(const char *directory, const uint8_t *recording_id, char *path,
                          size_t bytes)
{
    struct text text = {path, 0, bytes};
    uint64_t id;
    memcpy(&id, recording_id, sizeof id);
    text_string(&text, directory);
    text_string(&text, "/malloctape-");
    text_hexadecimal(&text, id);
    text_string(&text, ".spool");
    return text_end(&text);
}

/* ---- opening ---- */

static bool spool_check_header(struct spool_reader *spool)
{
    uint8_t at[SPOOL_HEADER_BYTES];
    size_t got;
    if (!spool_read(spool, at, sizeof at, 0, &got)) return false;
    if (got < sizeof at || bytes_get64(at + SPOOL_HEADER_MAGIC) != SPOOL_MAGIC)
        return SPOOL_FAIL(spool, SPOOL_NO_SPOOL, 0, NULL);
    if (bytes_get16(at + SPOOL_HEADER_VERSION_MAJOR) != SPOOL_VERSION_MAJOR)
        return SPOOL_FAIL(spool, SPOOL_VERSION, SPOOL_HEADER_VERSION_MAJOR, "%u",
                          (unsigned)bytes_get16(at + SPOOL_HEADER_VERSION_MAJOR));
    if (checksum_of_two(at, SPOOL_HEADER_CHECKSUM, at, 0) !=
        bytes_get32(at + SPOOL_HEADER_CHECKSUM))
        return SPOOL_FAIL(spool, SPOOL_HEADER_DAMAGED, SPOOL_HEADER_CHECKSUM, NULL);
    spool->slot_bytes = bytes_get32(at + SPOOL_HEADER_SLOT_BYTES);
    if (spool->slot_bytes == 0 || spool->slot_bytes > SPOOL_SLOT_BYTES_MAX ||
        spool->slot_bytes % SPOOL_SLOT_ALIGNMENT != 0)
        return SPOOL_FAIL(spool, SPOOL_SLOT_SIZE, SPOOL_HEADER_SLOT_BYTES, "%" PRIu32,
                          spool->slot_bytes);
    spool->cells = bytes_get32(at + SPOOL_HEADER_CELLS);
    if (spool->cells > SPOOL_CELLS_MAX || spool->cells % SPOOL_CELLS_ALIGNMENT != 0)
        return SPOOL_FAIL(spool, SPOOL_SLOT_SIZE, SPOOL_HEADER_CELLS, "%" PRIu32 " cells",
                          spool->cells);
    spool->features = bytes_get64(at + SPOOL_HEADER_FEATURES);
    if ((spool->features & ~RAW_FEATURES_KNOWN) != 0)
        return SPOOL_FAIL(spool, RAW_FEATURE, SPOOL_HEADER_FEATURES, "bit %d",
                          __builtin_ctzll(spool->features & ~RAW_FEATURES_KNOWN));
    memcpy(spool->recording_id, at + SPOOL_HEADER_RECORDING_ID, RAW_RECORDING_ID_BYTES);
    spool->pid = bytes_get32(at + SPOOL_HEADER_PID);
    return true;
}

/* Adds the slot at `offset` to the list if it is in use. */
static bool spool_list_slot(struct spool_reader *spool, uint64_t offset)
{
    uint8_t at[SPOOL_SLOT_HEADER_BYTES];
    size_t got;
    if (!spool_read(spool, at, sizeof at, offset, &got)) return false;
    uint32_t state = got < sizeof at ? SPOOL_SLOT_FREE : bytes_get32(at + SPOOL_SLOT_STATE);
    if (state == SPOOL_SLOT_FREE) return true;
    struct spool_slot slot = {offset, spool_segment_in(at)};
    if (bytes_get32(at + SPOOL_SLOT_FLAGS) & SPOOL_SLOT_FLAG_INCOMPLETE)
        spool->is_incomplete = true;
    if (state != SPOOL_SLOT_IN_USE || slot.segment.lane >= RAW_LANES_MAX ||
        slot.segment.first_allocation > RAW_SERIAL_MAX)
        return SPOOL_FAIL(spool, SPOOL_SLOT_DAMAGED, offset, "state %" PRIu32 ", lane %" PRIu32,
                          state, slot.segment.lane);
    if (!array_reserve(&spool->slots, &spool->slots_room, (size_t)spool->slots_used + 1,
                       sizeof *spool->slots))
        return spool_no_memory(spool);
    spool->slots[spool->slots_used++] = slot;
    return true;
}

static int spool_compare_slots(const void *left, const void *right)
{
    const struct spool_slot *a = left, *b = right;
    if (a->segment.lane != b->segment.lane) return a->segment.lane < b->segment.lane ? -1 : 1;
    return a->segment.serial < b->segment.serial ? -1 : a->segment.serial > b->segment.serial;
}

static bool spool_list_slots(struct spool_reader *spool)
{
    struct stat status;
    if (fstat(spool->fd, &status) != 0)
        return error_set_system(&spool->error, "cannot read the spool");
    const uint64_t from = SPOOL_CELLS_OFFSET + (uint64_t)spool->cells * SPOOL_CELL_BYTES;
    const uint64_t bytes = (uint64_t)status.st_size;
    uint64_t slots = bytes <= from ? 0 : (bytes - from + spool->slot_bytes - 1) / spool->slot_bytes;
    if (slots > FILE_SLOTS_MAX)
        return SPOOL_FAIL(spool, SPOOL_SLOT_SIZE, SPOOL_HEADER_SLOT_BYTES, "%" PRIu64 " slots",
                          slots);
    for (uint64_t slot = 0; slot < slots; slot++)
        if (!spool_list_slot(spool, from + slot * spool->slot_bytes)) return false;
    if (spool->slots_used > 0)
        qsort(spool->slots, spool->slots_used, sizeof *spool->slots, spool_compare_slots);
    return true;
}

/* Whether it belongs to the recording that wrote the stream. A stream without a header is taken to
 * be the same, and gets what the spool knows of it. */
static bool spool_join(struct spool_reader *spool, struct raw_header *header, bool has_header)
{
    if (has_header) {
        if (memcmp(spool->recording_id, header->recording_id, RAW_RECORDING_ID_BYTES) == 0)
            return true;
        return SPOOL_FAIL(spool, SPOOL_OTHER_RECORDING, SPOOL_HEADER_RECORDING_ID, NULL);
    }
    memcpy(header->recording_id, spool->recording_id, RAW_RECORDING_ID_BYTES);
    header->pid = spool->pid;
    header->features = spool->features;
    if (spool->cells > 0) header->info |= RAW_INFO_MAPPINGS;
    return true;
}

bool spool_is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool spool_reader_open(struct spool_reader *spool, const char *path, struct raw_reader *reader)
{
    /* What was a plain file a moment ago need not be one any more. */
    return spool_reader_open_fd(spool, open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
                                reader);
}

bool spool_reader_open_fd(struct spool_reader *spool, int fd, struct raw_reader *reader)
{
    *spool = (struct spool_reader){.fd = fd};
    if (fd < 0) return error_set_system(&spool->error, "cannot open the spool");
    return spool_check_header(spool) && spool_list_slots(spool) &&
           spool_join(spool, &reader->header, reader->has_header);
}

void spool_reader_close(struct spool_reader *spool)
{
    if (spool->fd >= 0) close(spool->fd);
    free(spool->slots);
    *spool = (struct spool_reader){.fd = -1};
}

/* ---- slots as chunks ---- */

/* Skips the remaining slots of a lane. */
static void spool_end_lane(struct spool_reader *spool, uint32_t lane)
{
    while (spool->next_slot < spool->slots_used &&
           spool->slots[spool->next_slot].segment.lane == lane)
        spool->next_slot++;
    spool->lanes_gapped++;
}

static uint32_t spool_slot_units(const struct spool_reader *spool)
{
    return (spool->slot_bytes - SPOOL_SLOT_HEADER_BYTES) / 2;
}

/* The next slot of the lane, if it begins where this one's segment can end; else NULL. */
static const struct spool_slot *spool_following(const struct spool_reader *spool,
                                                const struct spool_slot *slot)
{
    const struct spool_slot *next = slot + 1;
    if (next == spool->slots + spool->slots_used || next->segment.lane != slot->segment.lane)
        return NULL;
    bool follows = next->segment.serial == slot->segment.serial + 1 &&
                   next->segment.first_unit >= slot->segment.first_unit &&
                   next->segment.first_unit - slot->segment.first_unit <= spool_slot_units(spool);
    return follows ? next : NULL;
}

/* Whether the slot continues the one before it, if that is in the spool, and the stream. */
static bool spool_continues(const struct spool_reader *spool, const struct spool_slot *slot,
                            const struct raw_lane_position *lane)
{
    bool first = slot == spool->slots || slot[-1].segment.lane != slot->segment.lane;
    if (!first && spool_following(spool, slot - 1) == NULL) return false;
    if (slot->segment.first_unit >= lane->units) return slot->segment.first_unit == lane->units;
    return lane->segment_unit >= slot->segment.first_unit;
}

/* The slot's segment, without the first `skip` units, which the stream has. */
static struct raw_chunk *spool_make_chunk(struct spool_reader *spool, const struct spool_slot *slot,
                                          uint32_t skip, uint32_t units, bool open_ended)
{
    struct raw_chunk *chunk = raw_chunk_new(2 * units);
    size_t got;
    if (chunk == NULL) {
        spool_no_memory(spool);
        return NULL;
    }
    chunk->type = RAW_CHUNK_UNITS;
    chunk->begin = skip == 0;
    chunk->key = chunk->begin && slot->segment.key;
    chunk->spool = true;
    chunk->open_ended = open_ended;
    memcpy(chunk->profile, slot->segment.profile, RAW_PROFILE_BYTES);
    chunk->lane = slot->segment.lane;
    chunk->units = units;
    chunk->first_unit = slot->segment.first_unit + skip;
    chunk->first_allocation = slot->segment.first_allocation;
    chunk->offset = slot->offset;
    chunk->payload_offset = slot->offset + SPOOL_SLOT_HEADER_BYTES + 2 * skip;
    chunk->end_offset = chunk->payload_offset + chunk->payload_bytes;
    if (!spool_read(spool, chunk->payload, chunk->payload_bytes, chunk->payload_offset, &got)) {
        free(chunk);
        return NULL;
    }
    /* A file that was cut may end inside a record. Zeros must not complete it. */
    if (got < chunk->payload_bytes) {
        memset(chunk->payload + got / 2 * 2, 0, got % 2);
        chunk->units = (uint32_t)(got / 2);
    }
    return chunk;
}

/* The slot at next_slot as a chunk; NULL if it has nothing for the stream. */
static struct raw_chunk *spool_take_slot(struct spool_reader *spool, struct raw_reader *reader)
{
    const struct spool_slot *slot = &spool->slots[spool->next_slot++];
    const struct spool_slot *next = spool_following(spool, slot);
    if (!raw_reader_know_lane(reader, slot->segment.lane)) {
        spool_no_memory(spool);
        return NULL;
    }
    const struct raw_lane_position *lane = &reader->lanes[slot->segment.lane];
    if (!spool_continues(spool, slot, lane)) {
        spool_end_lane(spool, slot->segment.lane);
        return NULL;
    }
    uint64_t units = next != NULL ? next->segment.first_unit - slot->segment.first_unit
                                  : spool_slot_units(spool);
    uint64_t skip = lane->units - slot->segment.first_unit;
    if (skip >= units || lane->segment_unit > slot->segment.first_unit) return NULL;
    struct raw_chunk *chunk =
        spool_make_chunk(spool, slot, (uint32_t)skip, (uint32_t)(units - skip), next == NULL);
    if (chunk == NULL) return NULL;
    if (chunk->open_ended && bytes_get16(chunk->payload) == 0) {
        free(chunk);
        return NULL;
    }
    raw_reader_advance_lane(reader, chunk);
    return chunk;
}

/* ---- cells as a chunk ---- */

/* Threads that were ended, or were about to write, left cells that are not complete: how many come
 * before the next mapping; 0: there is none before `end`. */
static uint32_t spool_hole(const struct cell_ring *ring, uint64_t number, uint64_t end)
{
    char name[SPOOL_CELL_NAME_BYTES_MAX];
    struct mapping_record record;
    for (uint64_t at = number + 1; at < end; at++)
        if (cell_take(ring, at, &record, name)) return (uint32_t)(at - number);
    return 0;
}

/* The mappings in the ring that the stream lacks, as the payload of a chunk with enough room. */
static void spool_fill_mappings(struct spool_reader *spool, struct raw_reader *reader,
                                const struct cell_ring *ring, struct raw_chunk *chunk)
{
    char name[SPOOL_CELL_NAME_BYTES_MAX];
    struct mapping_record record;
    uint64_t latest = 0, number = reader->mapping_cells + 1;
    uint8_t *at = chunk->payload;
    const uint64_t end = number + spool->cells;
    while (number < end) {
        uint32_t cells = cell_take(ring, number, &record, name);
        if (cells == 0) {
            cells = spool_hole(ring, number, end);
            record = (struct mapping_record){.what = MAPPING_LOST, .length = cells};
        }
        if (cells == 0 || number + cells > end) break;
        at = mapping_record_put(at, &record, &latest);
        number += cells;
        reader->mappings++;
    }
    chunk->type = RAW_CHUNK_MAPPINGS;
    chunk->spool = true;
    chunk->first_unit = reader->mapping_cells;
    chunk->units = (uint32_t)(number - 1 - reader->mapping_cells);
    chunk->offset = chunk->payload_offset = chunk->end_offset = SPOOL_CELLS_OFFSET;
    chunk->payload_bytes = (uint32_t)(at - chunk->payload);
    reader->mapping_cells += chunk->units;
}

/* NULL: there are none, or the spool cannot be read. */
static struct raw_chunk *spool_take_cells(struct spool_reader *spool, struct raw_reader *reader)
{
    const size_t bytes = (size_t)spool->cells * SPOOL_CELL_BYTES;
    size_t got;
    spool->cells_read = true;
    if (bytes == 0) return NULL;
    struct cell_ring ring = {calloc(1, bytes), spool->cells};
    /* A record takes no more bytes in a stream than its cells, but for numbers that are longer. */
    struct raw_chunk *chunk = raw_chunk_new((uint32_t)(2 * bytes + MAPPING_BYTES_MAX));
    if (ring.words == NULL || chunk == NULL) {
        spool_no_memory(spool);
    } else if (spool_read(spool, ring.words, bytes, SPOOL_CELLS_OFFSET, &got)) {
        spool_fill_mappings(spool, reader, &ring, chunk);
    }
    free(ring.words);
    if (chunk != NULL && chunk->payload_bytes > 0 && !error_is_set(&spool->error) &&
        chunk->type == RAW_CHUNK_MAPPINGS)
        return chunk;
    free(chunk);
    return NULL;
}

struct raw_chunk *spool_reader_next(struct spool_reader *spool, struct raw_reader *reader)
{
    struct raw_chunk *mappings = spool->cells_read ? NULL : spool_take_cells(spool, reader);
    if (mappings != NULL) return mappings;
    while (spool->next_slot < spool->slots_used && !error_is_set(&spool->error)) {
        struct raw_chunk *chunk = spool_take_slot(spool, reader);
        if (chunk != NULL) return chunk;
    }
    return NULL;
}
