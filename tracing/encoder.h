/* encoder - event words of one lane to chunks of the raw stream (FORMAT.md 5 and 7).
 *
 * The only writer of chunks of type 1. Pure: memory in, memory out, no system call. */
#ifndef MALLOCTAPE_ENCODER_H
#define MALLOCTAPE_ENCODER_H

#include "raw_format.h"

#include <stddef.h>

/* What the encoding of a lane carries from chunk to chunk. */
struct encoder_lane {
    uint64_t records;          /* encoded so far */
    uint64_t births;           /* among them, and among the lost */
    uint64_t chunks;           /* written so far */
    uint64_t stamps[RAW_STRUCTURES]; /* latest number of each structure, FORMAT.md 5.2 */
};

/* Totals of the stream. */
struct encoder_totals {
    uint64_t by_kind[RAW_NUMBERS];
    uint64_t lost_events;
};

/* Most words that one call of encoder_chunk() takes. */
#define ENCODER_WORDS_MAX 4096u

/* Bytes that a chunk can need for so many words: the worst is a word that becomes an opcode and the
 * longest integer, and a heap call. */
#define ENCODER_CHUNK_BYTES_MAX(words) (RAW_CHUNK_HEADER_BYTES + 64 + 20 * (size_t)(words))

/* Columns under construction, and for each lane its latest foreign object in the chunk that `epoch`
 * counts. Large, so it is the caller's; zeroed at first. */
struct encoder_scratch {
    uint64_t epoch;
    struct {
        uint64_t epoch;
        uint64_t serial;
    } foreign[RAW_LANES_MAX];
    uint8_t opcodes[ENCODER_WORDS_MAX + 16];
    uint8_t sizes[ENCODER_WORDS_MAX * 9 + 16];
    uint8_t objects[ENCODER_WORDS_MAX * 12 + 16];
    uint8_t misc[ENCODER_WORDS_MAX * 18 + 16];
};

/* Encodes words[0 .. count) of lane `number`, which hold whole records, into one chunk at `out`, which
 * has ENCODER_CHUNK_BYTES_MAX(count) bytes. Returns the bytes written, 0 if there was no record. */
size_t encoder_chunk(struct encoder_lane *lane, uint32_t number, const uint64_t *words, size_t count,
                     struct encoder_scratch *scratch, struct encoder_totals *totals, uint8_t *out);

/* A tick chunk (FORMAT.md 4.3), the `ticks`th from 0. Needs 128 bytes. */
size_t encoder_tick(uint64_t ticks, uint64_t time_ns, uint64_t rss_bytes, uint64_t heap_bytes, uint8_t *out);

/* Completes a chunk whose payload of `payload` bytes stands behind the header's place at `out`. */
size_t encoder_seal(uint8_t *out, unsigned type, unsigned flags, uint32_t lane, size_t payload,
                    uint32_t records, uint64_t first_record, uint64_t first_birth);

#endif
