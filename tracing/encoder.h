/* encoder - event words of one lane to chunks of the raw stream (FORMAT.md 5 and 7).
 *
 * The only writer of chunks of type 1. Pure: memory in, memory out, no system call. */
#ifndef MALLOCTAPE_ENCODER_H
#define MALLOCTAPE_ENCODER_H

#include "raw_format.h"

#include <stddef.h>

/* What the encoding of a lane carries from chunk to chunk. */
struct encoder_lane {
    uint64_t records;                /* encoded so far */
    uint64_t births;                 /* among them, and among the lost */
    uint64_t chunks;                 /* written so far */
    uint8_t slots[RAW_SLOTS];        /* kinds of the next chunk's slots, FORMAT.md 5.1 */
    uint64_t stamps[RAW_STRUCTURES]; /* latest number of each structure, FORMAT.md 5.2 */
};

/* Totals of the stream. */
struct encoder_totals {
    uint64_t by_kind[RAW_NUMBERS];
    uint64_t lost_events;
};

/* Bytes that a chunk can need for so many words. The worst word is a death that names a foreign
 * object: code, opcode, a lane in three bytes and the longest integer. */
#define ENCODER_CHUNK_BYTES_MAX(words) (RAW_CHUNK_HEADER_BYTES + 64 + 14 * (size_t)(words))

/* For each lane its latest foreign object in the chunk that `epoch` counts. Large, so it is the
 * caller's; zeroed at first. */
struct encoder_foreign {
    uint64_t epoch;
    uint32_t latest_lane; /* of the latest foreign object of all */
    uint64_t latest_epoch;
    struct {
        uint64_t epoch;
        uint64_t serial;
    } lanes[RAW_LANES_MAX];
};

/* Encodes words[0 .. count) of lane `number`, which hold whole records, into one chunk at `out`,
 * which has ENCODER_CHUNK_BYTES_MAX(count) bytes. Returns the bytes written, 0 if there was no
 * record. */
size_t encoder_chunk(struct encoder_lane *lane, uint32_t number, const uint64_t *words,
                     size_t count, struct encoder_foreign *foreign, struct encoder_totals *totals,
                     uint8_t *out);

/* A tick chunk (FORMAT.md 4.3), the `ticks`th from 0. Needs 128 bytes. */
size_t encoder_tick(uint64_t ticks, uint64_t time_ns, uint64_t rss_bytes, uint64_t heap_bytes,
                    uint8_t *out);

/* Completes a chunk whose payload of `payload` bytes stands behind the header's place at `out`. */
size_t encoder_seal(uint8_t *out, unsigned type, unsigned flags, uint32_t lane, size_t payload,
                    uint32_t records, uint64_t first_record, uint64_t first_birth);

#endif
