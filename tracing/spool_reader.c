#include "tracing/spool_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "tracing/raw_decoder.h"

/* A spool is a few hundred slots; more than this is not one. */
#define SPOOL_SLOTS_MAX (1u << 24)

struct spool_slot {
    uint64_t offset; /* in the file */
    uint64_t serial;
    uint64_t first_birth;
    uint64_t first_record_plus_1;
    uint32_t lane;
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
    memcpy(spool->run_id, at + SPOOL_HEADER_RUN_ID, RAW_RUN_ID_BYTES);
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
    struct spool_slot slot = {
        .offset = offset,
        .serial = bytes_get64(at + SPOOL_SLOT_SERIAL),
        .first_birth = bytes_get64(at + SPOOL_SLOT_FIRST_BIRTH),
        .first_record_plus_1 = bytes_get64(at + SPOOL_SLOT_FIRST_RECORD),
        .lane = bytes_get32(at + SPOOL_SLOT_LANE),
    };
    if (state != SPOOL_SLOT_IN_USE || slot.lane >= RAW_LANES_MAX ||
        slot.first_birth > RAW_SERIAL_MAX)
        return SPOOL_FAIL(spool, SPOOL_SLOT_DAMAGED, offset, "state %" PRIu32 ", lane %" PRIu32,
                          state, slot.lane);
    if ((spool->slots_used & (spool->slots_used - 1)) == 0) {
        size_t room = spool->slots_used == 0 ? 1 : (size_t)spool->slots_used * 2;
        struct spool_slot *slots = realloc(spool->slots, room * sizeof *slots);
        if (slots == NULL) return spool_no_memory(spool);
        spool->slots = slots;
    }
    spool->slots[spool->slots_used++] = slot;
    return true;
}

static int spool_compare_slots(const void *left, const void *right)
{
    const struct spool_slot *a = left, *b = right;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}

static bool spool_list_slots(struct spool_reader *spool)
{
    struct stat status;
    if (fstat(spool->fd, &status) != 0)
        return error_set_system(&spool->error, "cannot read the spool");
    uint64_t slots = (uint64_t)status.st_size <= SPOOL_SLOTS_OFFSET
                         ? 0
                         : ((uint64_t)status.st_size - SPOOL_SLOTS_OFFSET + spool->slot_bytes - 1) /
                               spool->slot_bytes;
    if (slots > SPOOL_SLOTS_MAX)
        return SPOOL_FAIL(spool, SPOOL_SLOT_SIZE, SPOOL_HEADER_SLOT_BYTES, "%" PRIu64 " slots",
                          slots);
    for (uint64_t slot = 0; slot < slots; slot++)
        if (!spool_list_slot(spool, SPOOL_SLOTS_OFFSET + slot * spool->slot_bytes)) return false;
    if (spool->slots_used > 0)
        qsort(spool->slots, spool->slots_used, sizeof *spool->slots, spool_compare_slots);
    return true;
}

bool spool_reader_open(struct spool_reader *spool, const char *path)
{
    *spool = (struct spool_reader){.fd = -1};
    spool->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (spool->fd < 0) return error_set_system(&spool->error, "cannot open the spool");
    if (!spool_check_header(spool) || !spool_list_slots(spool)) return false;
    spool->words = malloc(spool->slot_bytes);
    return spool->words != NULL || spool_no_memory(spool);
}

void spool_reader_close(struct spool_reader *spool)
{
    if (spool->fd >= 0) close(spool->fd);
    free(spool->slots);
    free(spool->words);
    *spool = (struct spool_reader){.fd = -1};
}

bool spool_reader_belongs(struct spool_reader *spool, const struct raw_reader *reader)
{
    if (!reader->has_header || memcmp(spool->run_id, reader->header.run_id, RAW_RUN_ID_BYTES) == 0)
        return true;
    return SPOOL_FAIL(spool, SPOOL_OTHER_RUN, SPOOL_HEADER_RUN_ID, NULL);
}

/* ---- slots as chunks ---- */

/* Where the records of a slot are, in words. */
struct spool_extent {
    uint32_t begin, end; /* words that the stream does not have */
    uint32_t skipped;    /* records before them */
    uint32_t records;    /* in them */
    uint64_t births_skipped, births;
};

/* Walks over the slot's records. False for one that cannot be: the extent ends before it. */
static bool spool_measure(const uint64_t *words, uint32_t count, uint64_t skip,
                          struct spool_extent *extent)
{
    *extent = (struct spool_extent){0};
    uint32_t at = 0;
    bool good = true;
    while (at < count && words[at] != 0) {
        uint32_t length = raw_record_words(words[at]);
        good = length != 0 && length <= count - at;
        if (!good) break;
        if (extent->skipped < skip) {
            extent->skipped++;
            extent->births_skipped += raw_record_births(words + at);
            extent->begin = at + length;
        } else {
            extent->records++;
            extent->births += raw_record_births(words + at);
        }
        at += length;
    }
    extent->end = at;
    return good;
}

/* Reads the words of a slot; what the file does not have is zero. */
static bool spool_load(struct spool_reader *spool, const struct spool_slot *slot)
{
    size_t got;
    memset(spool->words, 0, spool->slot_bytes);
    return spool_read(spool, spool->words, spool->slot_bytes - SPOOL_SLOT_HEADER_BYTES,
                      slot->offset + SPOOL_SLOT_HEADER_BYTES, &got);
}

/* Passes by the remaining slots of a lane. */
static void spool_end_lane(struct spool_reader *spool, uint32_t lane)
{
    while (spool->next_slot < spool->slots_used && spool->slots[spool->next_slot].lane == lane)
        spool->next_slot++;
}

/* Whether the slot continues its lane where stream and earlier slots have got to; *skip is how many of its records
 * are there already. */
static bool spool_continues(const struct spool_reader *spool, const struct spool_slot *slot,
                            const struct raw_lane_position *lane, uint64_t *skip)
{
    bool first = slot == spool->slots || slot[-1].lane != slot->lane;
    if (!first && slot->serial != slot[-1].serial + 1) return false;
    *skip = 0;
    if (slot->first_record_plus_1 == 0)
        return lane->births_unknown || slot->first_birth == lane->births;
    if (slot->first_record_plus_1 - 1 > lane->records) return false;
    *skip = lane->records - (slot->first_record_plus_1 - 1);
    return true;
}

static struct raw_chunk *spool_make_chunk(struct spool_reader *spool, struct raw_reader *reader,
                                          const struct spool_slot *slot,
                                          const struct spool_extent *extent)
{
    struct raw_lane_position *lane = &reader->lanes[slot->lane];
    uint32_t bytes = (extent->end - extent->begin) * (uint32_t)sizeof *spool->words;
    struct raw_chunk *chunk = raw_chunk_new(reader, bytes);
    if (chunk == NULL) {
        spool_no_memory(spool);
        return NULL;
    }
    memcpy(chunk->payload, spool->words + extent->begin, bytes);
    chunk->type = RAW_CHUNK_RECORDS;
    chunk->key = false;
    chunk->words = true;
    chunk->lane = slot->lane;
    chunk->records = extent->records;
    chunk->first_record = lane->records;
    chunk->first_birth = slot->first_birth + extent->births_skipped;
    chunk->offset = slot->offset + SPOOL_SLOT_HEADER_BYTES + extent->begin * sizeof *spool->words;
    lane->records += extent->records;
    lane->births = chunk->first_birth + extent->births;
    lane->births_unknown = false;
    spool->records += extent->records;
    return chunk;
}

/* The slot at next_slot as a chunk; NULL if it has nothing for the stream. */
static struct raw_chunk *spool_take_slot(struct spool_reader *spool, struct raw_reader *reader)
{
    const struct spool_slot *slot = &spool->slots[spool->next_slot++];
    struct spool_extent extent;
    uint64_t skip;
    if (!raw_reader_know_lane(reader, slot->lane)) {
        spool_no_memory(spool);
        return NULL;
    }
    const struct raw_lane_position *lane = &reader->lanes[slot->lane];
    if (!spool_continues(spool, slot, lane, &skip)) {
        spool->lanes_gapped++;
        spool_end_lane(spool, slot->lane);
        return NULL;
    }
    if (!spool_load(spool, slot)) return NULL;
    uint32_t count = (spool->slot_bytes - SPOOL_SLOT_HEADER_BYTES) / (uint32_t)sizeof *spool->words;
    if (!spool_measure(spool->words, count, skip, &extent))
        SPOOL_FAIL(spool, SPOOL_SLOT_DAMAGED, slot->offset, "lane %" PRIu32 ", word %" PRIu32,
                   slot->lane, extent.end);
    if (extent.records == 0) return NULL;
    return spool_make_chunk(spool, reader, slot, &extent);
}

struct raw_chunk *spool_reader_next(struct spool_reader *spool, struct raw_reader *reader)
{
    while (spool->next_slot < spool->slots_used && !error_is_set(&spool->error)) {
        struct raw_chunk *chunk = spool_take_slot(spool, reader);
        if (chunk != NULL) return chunk;
    }
    return NULL;
}
