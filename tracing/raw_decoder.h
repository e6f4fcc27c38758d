/* raw_decoder - the records of one lane, decoded from its chunks one after another.
 *
 * One decoder follows one lane from its first chunk to its last and carries what a chunk takes from
 * those before it: how many births the lane has had, and the latest stamp number of each structure.
 *
 *     raw_decoder_init(&decoder, lane);
 *     for each chunk of the lane:
 *         raw_decoder_open(&decoder, chunk)
 *         while ((count = raw_decoder_next(&decoder, records, room)) > 0) ...
 *         decoder.error is set if the chunk could not be decoded to its end
 *
 * A chunk is decoded lazily, so that many lanes can be in the middle of one. It must stay where it is
 * until its last record has been decoded.
 *
 * What a record says is absolute: tokens are whole tokens, stamps have their number. Which fields mean
 * something depends on the number:
 *
 *   number                        token    size           operand        other
 *   BIRTH                                  size                          serial, address
 *   BIRTH_ALIGNED                          size           alignment      serial, address
 *   REALLOC                       ends     new size                      serial, address
 *   DEATH...                      ends     size given     alignment
 *   HEAP                                   first number   second         count
 *   thread_begin                                          thread id
 *   stamp_before, stamp_after              number                        structure
 *   lost                                   events         births
 *   failed                        stays    size           alignment      kind
 *   lost_stamps                            first number   count          structure
 *
 * Everything else is zero. Checked here: numbers, flags, codes, structures, operands; that an object
 * of this lane was born before; not that an object of another lane was, nor the order of stamps across
 * lanes: that is what ordering is for.
 *
 * Cost     2 to 3 ns for a call. Memory: about 3 KiB a lane, and 16 bytes for each other lane whose
 *          objects one chunk mentions.
 * Threads  one per decoder. */
#ifndef MALLOCTAPE_RAW_DECODER_H
#define MALLOCTAPE_RAW_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/raw_error.h"
#include "tracing/raw_format.h"
#include "tracing/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

struct record {
    uint8_t number; /* FORMAT.md 3 */
    uint8_t shape;  /* enum call_shape of a call, else SHAPE_UNDEFINED */
    uint8_t kind;   /* of the call that failed; of other records the number */
    uint8_t count;
    uint32_t structure;
    uint64_t token;
    uint64_t size;
    uint64_t serial; /* of the object that begins */
    uint64_t operand;
    uint64_t address;
};

/* Structures are kept in a short table: the size classes, then the page heap. */
#define RAW_STAMP_ENTRIES (RAW_SIZE_CLASSES_MAX + 1)

struct raw_foreign; /* the latest foreign serial of a lane in this chunk */

/* What the first byte of a code means in this chunk. */
struct raw_code {
    uint32_t head; /* what the record begins with */
    uint32_t base; /* main operand, but for what the further bytes add: */
    uint16_t mask; /* these of those */
    uint8_t plan;  /* raw_decoder.c */
    uint8_t bytes; /* of the code, without further operands */
};

struct raw_decoder {
    uint32_t lane;
    uint64_t records; /* decoded so far, of all chunks */
    uint64_t births;  /* so far */
    struct error error;

    /* From here on: raw_decoder.c only. */
    uint32_t left; /* records of this chunk that were not decoded yet */
    bool addresses;
    bool words;
    uint64_t payload_offset;
    const uint8_t *payload;
    const uint8_t *at; /* next code, or next word */
    const uint8_t *codes_end;
    const uint8_t *address_column;
    const uint8_t *payload_end;
    struct raw_code codes[256];
    uint8_t slots[RAW_SLOTS]; /* for which `codes` was made */
    uint32_t foreign_lane;    /* of the latest foreign object in this chunk */
    uint64_t last_address;
    uint64_t latest_stamp[RAW_STAMP_ENTRIES];
    struct raw_foreign *foreign; /* open addressing, by lane */
    uint32_t foreign_room;       /* a power of two, or 0 */
    uint32_t foreign_used;
    uint32_t generation; /* entries of other generations are empty */
};

/* `addresses`: whether the stream has feature bit 0. */
void raw_decoder_init(struct raw_decoder *decoder, uint32_t lane, bool addresses);
void raw_decoder_free(struct raw_decoder *decoder);

/* A second decoder at the same place, to look ahead with. False: no memory. */
bool raw_decoder_copy(struct raw_decoder *copy, const struct raw_decoder *decoder);

/* Begins with the next chunk of the lane, the one before being used up. False: see error; also when the
 * chunk does not follow on what was decoded (births). */
bool raw_decoder_open(struct raw_decoder *decoder, const struct raw_chunk *chunk);

/* Decodes up to `room` records. Returns how many; 0 at the end of the chunk, and after an error once the records
 * before it have been returned. */
uint32_t raw_decoder_next(struct raw_decoder *decoder, struct record *records, uint32_t room);

/* Whether the current chunk has more records. */
static inline bool raw_decoder_has_more(const struct raw_decoder *decoder)
{
    return decoder->left > 0 && !error_is_set(&decoder->error);
}

/* Size of the record that begins at `word` in words (FORMAT.md 7), 0 if its number is undefined. */
uint32_t raw_record_words(uint64_t word);

/* How many births the record that begins at `words` adds to its lane. */
uint64_t raw_record_births(const uint64_t *words);

#ifdef __cplusplus
}
#endif
#endif
