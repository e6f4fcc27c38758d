#include "chunk.h"

#include "../common/bytes.h"
#include "../common/checksum.h"
#include "../common/varint.h"

#include <string.h>

#define NO_CODE 255
/* Row of pages without units of one byte. */
#define NO_ROW  5

/* Units of one byte: `count` of them from `first` on in steps of `step`, with codes from `code`. */
static const struct {
    uint16_t first;
    uint8_t code, count, step;
} short_units[] = {
    {RAW_UNIT_DEATH_1 + 1, RAW_PACKED_DEATH_1, RAW_PACKED_BIRTH_1 - RAW_PACKED_DEATH_1, 1},
    {RAW_UNIT_BIRTH_1, RAW_PACKED_BIRTH_1, RAW_PACKED_DEATH_2 - RAW_PACKED_BIRTH_1, 8},
    {RAW_UNIT_DEATH_2 + 1, RAW_PACKED_DEATH_2, RAW_PACKED_BIRTH_2 - RAW_PACKED_DEATH_2, 1},
    {RAW_UNIT_BIRTH_2, RAW_PACKED_BIRTH_2, RAW_PACKED_PAGE - RAW_PACKED_BIRTH_2, 8},
};

static const struct {
    uint8_t first, last;
} pages[] = {
#define PAGE_ENTRY(first, last) {first, last},
    RAW_PACKED_PAGE_LIST(PAGE_ENTRY)
#undef PAGE_ENTRY
};

void chunk_packer_init(struct chunk_packer *packer)
{
    unsigned code = RAW_PACKED_PAGE;
    memset(packer->row, NO_ROW, sizeof packer->row);
    memset(packer->one, NO_CODE, sizeof packer->one);
    memset(packer->page, RAW_PACKED_UNIT, sizeof packer->page);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        for (unsigned page = pages[i].first; page <= pages[i].last; page++)
            packer->page[page] = (uint8_t)code++;
    /* A table of these units lies within a page, or goes on in the next one: birth 1. */
    unsigned row = 0;
    for (size_t i = 0; i < sizeof short_units / sizeof *short_units; i++) {
        for (unsigned n = 0; n < short_units[i].count; n++) {
            unsigned unit = short_units[i].first + n * short_units[i].step;
            if (packer->row[unit >> 8] == NO_ROW) packer->row[unit >> 8] = (uint8_t)row++;
            packer->one[packer->row[unit >> 8]][unit & 255] = (uint8_t)(short_units[i].code + n);
        }
    }
}

/* The whole code is stored at once: the lengths of codes follow no pattern that a processor could
 * predict. */
static uint8_t *pack(const struct chunk_packer *packer, uint8_t *at, const uint16_t *units,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t unit = units[i];
        uint32_t one = packer->one[packer->row[unit >> 8]][unit & 255];
        uint32_t page = packer->page[unit >> 8];
        bool is_one = one != NO_CODE;
        bool is_three = page == RAW_PACKED_UNIT;
        uint32_t word = is_three ? RAW_PACKED_UNIT | unit << 8 : page | (unit & 255) << 8;
        bytes_put32(at, is_one ? one : word);
        at += 2u - is_one + is_three;
    }
    return at;
}

static size_t seal(uint8_t *out, unsigned type, unsigned flags, uint32_t lane, size_t payload,
                   size_t units, uint64_t first, uint64_t first_birth)
{
    bytes_put32(out + RAW_CHUNK_HEADER_MAGIC, RAW_CHUNK_MAGIC);
    out[RAW_CHUNK_HEADER_TYPE] = (uint8_t)type;
    out[RAW_CHUNK_HEADER_FLAGS] = (uint8_t)flags;
    bytes_put16(out + RAW_CHUNK_HEADER_LANE, (uint16_t)lane);
    bytes_put32(out + RAW_CHUNK_HEADER_PAYLOAD, (uint32_t)payload);
    bytes_put32(out + RAW_CHUNK_HEADER_UNITS, (uint32_t)units);
    bytes_put64(out + RAW_CHUNK_HEADER_FIRST, first);
    bytes_put64(out + RAW_CHUNK_HEADER_BIRTH, first_birth);
    bytes_put32(
        out + RAW_CHUNK_HEADER_CHECKSUM,
        checksum_of_two(out, RAW_CHUNK_HEADER_CHECKSUM, out + RAW_CHUNK_HEADER_BYTES, payload));
    return RAW_CHUNK_HEADER_BYTES + payload;
}

size_t chunk_write(const struct chunk_packer *packer, const struct chunk_units *run, uint8_t *out)
{
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *at = payload;
    if (run->flags & RAW_CHUNK_FLAG_BEGIN) {
        memcpy(at, run->profile, RAW_PROFILE_BYTES);
        at += RAW_PROFILE_BYTES;
    }
    if (run->flags & RAW_CHUNK_FLAG_PACKED) {
        at = pack(packer, at, run->units, run->count);
    } else {
        memcpy(at, run->units, run->count * sizeof *run->units);
        at += run->count * sizeof *run->units;
    }
    return seal(out, RAW_CHUNK_UNITS, run->flags, run->lane, (size_t)(at - payload), run->count,
                run->first_unit, run->first_birth);
}

size_t chunk_write_tick(uint64_t ticks, uint64_t time_ns, uint64_t rss_bytes, uint64_t heap_bytes,
                        uint8_t *out)
{
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *at = varint_put(varint_put(varint_put(payload, time_ns), rss_bytes), heap_bytes);
    return chunk_seal(out, RAW_CHUNK_TICK, (size_t)(at - payload), ticks);
}

size_t chunk_seal(uint8_t *out, unsigned type, size_t payload, uint64_t first)
{
    return seal(out, type, 0, 0, payload, 0, first, 0);
}
