/* raw_decoder_own - what the files of the decoder share (raw_decoder.h).
 *
 *   raw_decoder.c            chunks; what a record says, in its lane
 *   raw_decoder_tcmalloc.c   what records do to the cache of a thread
 *   raw_decoder_opaque.c     what they do to the places of a lane of an opaque stream
 */
#ifndef MALLOCTAPE_RAW_DECODER_OWN_H
#define MALLOCTAPE_RAW_DECODER_OWN_H

#include <inttypes.h>

#include "stream/raw_calls.h"
#include "stream/units_own.h"

/* What tells the streams of one kind of allocator from those of another. */
struct raw_dialect {
    const struct units_dialect *units;
    bool (*prepare)(struct raw_decoder *decoder, const struct raw_chunk *chunk, bool was_packed);
    /* Of the lane's object of this age; 0: not known. */
    uint32_t (*place_of_age)(const struct raw_decoder *decoder, uint32_t age);
    /* What a record does to the rest of what is known of its lane. Not in a lookahead. */
    bool (*follow)(struct raw_decoder *decoder, struct record *record,
                   const struct units_record *coded);
    /* Decodes what nearly all records are. */
    uint32_t (*decode_calls)(struct raw_decoder *decoder, struct record *records, uint32_t room);
    unsigned roundings; /* that the profile may have */
};
extern const struct raw_dialect raw_tcmalloc, raw_opaque;

/* Packed units have no offsets of their own in the stream. */
static inline uint64_t raw_decoder_offset(const struct raw_decoder *decoder, const uint8_t *at)
{
    return decoder->payload_offset + (decoder->packed ? 0 : (uint64_t)(at - decoder->payload));
}

/* The record that is being decoded is the one after decoder->records; decoder->at is where it
 * begins. */
#define DECODER_FAIL(decoder, which, format, ...)                                                \
    error_set(&(decoder)->error, &raw_errors[which], raw_decoder_offset(decoder, (decoder)->at), \
              "lane %" PRIu32 ", record %" PRIu64 format, (decoder)->lane, (decoder)->records,   \
              __VA_ARGS__)

/* The record of a call, after so many allocations. */
static inline void raw_decoder_make_call(const struct raw_decoder *decoder,
                                         const struct raw_call *call, uint64_t allocations,
                                         struct record *record)
{
    *record = (struct record){.number = call->kind,
                              .shape = call_shapes[call->kind],
                              .kind = call->kind,
                              .size = call->size};
    if (call->is_allocation) {
        record->place = call->place;
        record->serial = allocations + 1;
    } else {
        record->ends = call->place;
        record->bound = raw_allocations(decoder->lane, allocations);
    }
}

/* The place that a packed chunk of an opaque stream leaves out. A lookahead does not know. */
bool raw_decoder_find_place(struct raw_decoder *decoder, const struct units_record *coded,
                            struct record *record);

#endif
