/* raw_decoder - the records of one lane, decoded from its chunks one after another.
 *
 * One decoder follows one lane from its first chunk to its last and carries what a chunk takes
 * from those before it. What each of these lasts for:
 *
 *   the lane             allocations so far; the thread's cache and the size classes (raw_cache)
 *   up to a key segment  latest sequence number of each structure
 *   a segment            the profile, the latest remote objects, the latest address
 *
 *     raw_decoder_init(&decoder, lane);
 *     for each chunk of the lane:
 *         raw_decoder_open(&decoder, chunk)
 *         while ((count = raw_decoder_next(&decoder, records, room)) > 0) ...
 *         decoder.error is set if the chunk could not be decoded to its end
 *     raw_decoder_free(&decoder);
 *
 * A chunk is decoded lazily, so that many lanes can be in the middle of one. It must stay where
 * it is until its last record has been decoded.
 *
 * A lookahead is a second decoder at the same position. It knows no places that the stream leaves
 * to the cache or says by ages, and finds no errors that concern the cache. It owns nothing: it is
 * copied by assignment and not freed. A decoder that is no lookahead must not be copied.
 *
 * Where chunks are missing, raw_decoder_resume() goes on at a later one. After such a gap the cache
 * holds only what is certain: an allocation that takes anything else has no place.
 *
 * Records are absolute: allocations have their place, also where the stream leaves it to the cache
 * (FORMAT.md 2.6), sequence numbers have their number. Which fields have a meaning depends on the
 * record's number:
 *
 *   number                   ends, bound   size           operand       other
 *   ALLOCATION                             size                         serial, place, address
 *   ALLOCATION_ALIGNED                     size           alignment     the same
 *   REALLOC                  ends          new size                     the same
 *   FREE...                  ends          size given     alignment
 *   HEAP                                   first number   second        count
 *   thread_begin                                          thread id
 *   sequence_before, _after                number                       structure
 *   lost                                   events         allocations
 *   failed                   stays         size           alignment     kind
 *   after                    bound                        1: a realloc
 *
 * and, only if `cache_records` is set:
 *
 *   class                                  bytes                        structure (the class)
 *   cache_begin
 *   cached (for each place)                                             structure, place
 *   uncached                                              count         structure (the class)
 *   inside                                 amount         after         structure (what)
 *   page                                                                place (the first), address
 *   stack                                  node
 *   define                                               what           decoder.definition: the last of
 *                                                                       what one call returns
 *
 * The node of a `stack` is in the record of its call, too. Definitions go to `define`.
 *
 * In an opaque stream, serials and bounds count calls (FORMAT.md 2.7), and there is no cache:
 * places that packed chunks leave out come from raw_places.h.
 *
 * Everything else is zero. Errors that show in one lane are found here; whether an object lives at
 * a place, and the order of sequence numbers across lanes, is for ordering.
 *
 * There are two ways through a chunk: raw_calls.h for what nearly all records are, and
 * units.h for all.
 *
 * Memory   about 2.5 KiB a lane, and its cache (raw_cache.h); in an opaque stream up to 204 KiB for
 *          its places, two pages for each of its objects at most.
 * Threads  one per decoder. */
#ifndef MALLOCTAPE_RAW_DECODER_H
#define MALLOCTAPE_RAW_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/call_table.h"
#include "stream/raw_cache.h"
#include "stream/raw_error.h"
#include "stream/raw_format.h"
#include "stream/raw_places.h"
#include "stream/raw_reader.h"
#include "stream/units_read.h"

#ifdef __cplusplus
extern "C" {
#endif

struct record {
    uint8_t number; /* FORMAT.md 3 */
    uint8_t shape;  /* enum call_shape of a call, else SHAPE_UNDEFINED */
    uint8_t kind;   /* of the call that failed; of other records the number */
    uint8_t count;
    uint32_t structure;
    /* raw_allocations(): the object that ends is the latest at its place among this many
     * allocations of that lane; 0: its allocation was not recorded. Of `after`: this many calls of
     * that lane. */
    uint64_t bound;
    uint64_t size;
    uint64_t serial; /* of the object that begins */
    uint64_t operand;
    uint64_t address;
    /* Place of the object that ends, also of an unknown one; 0: it has none that matters. */
    uint32_t ends;
    /* Of the object that begins; 0: unknown, after damage or with `underrun`, or because an object
     * of unknown place was resized in place. */
    uint32_t place;
    uint32_t stack; /* the call's node (FORMAT.md 2.8); 0: none is known */
};

/* Whether bounds count it. */
static inline bool raw_record_counts(const struct record *record, bool opaque)
{
    return record->serial != 0 || (opaque && shape_is_free(record->shape));
}

/* Whether it is returned only with `cache_records`. */
static inline bool raw_record_is_of_cache(const struct record *record)
{
    return record->number >= RAW_CLASS && record->number <= RAW_DEFINE;
}

/* Structures are kept in a short table: the size classes, then the page heap. */
#define RAW_SEQUENCE_ENTRIES (RAW_SIZE_CLASSES_MAX + 1)

/* A lane and how many allocations it had; both 0: empty. */
struct raw_remote_entry {
    uint32_t lane;
    uint64_t bound;
};

/* The most memory for the places of all lanes together; no real program needs more. A lane that has
 * had some hundred objects takes 204 KiB. */
#define RAW_PLACES_BYTES_MAX (UINT64_C(4) << 30)

struct raw_decoder {
    uint32_t lane;
    const struct raw_dialect *dialect;
    uint64_t records;     /* decoded so far, of all chunks */
    uint64_t allocations; /* so far; of an opaque stream calls that count */
    struct error error;
    /* The first time that a list of the cache had less than was taken from it, or no error. That
     * is right where the program freed an object twice (FORMAT.md 2.6), and damage where it did
     * not. */
    struct error underrun;
    uint64_t unplaced; /* the first allocation whose place is unknown for this reason; 0: none */
    /* Set after raw_decoder_init(): records that ordering does not need are returned too; they are
     * not counted, and there must be room for RAW_CACHED_MAX. */
    bool cache_records;
    /* Set after raw_decoder_init(), or NULL: the memory of all lanes' places, up to
     * RAW_PLACES_BYTES_MAX. */
    uint64_t *all_places_bytes;
    /* Set after raw_decoder_init(), or NULL: takes what the stream defines (FORMAT.md 5.8), which
     * is within its limits. Returns NULL, or what is wrong with it. A lookahead does not call
     * it. */
    const char *(*define)(void *context, const struct stack_definition *definition);
    void *define_context;
    /* The same for the places and addresses in `page` records. */
    void (*page)(void *context, uint32_t place, uint64_t address);
    void *page_context;
    struct stack_definition definition; /* the latest */

    /* From here on: raw_decoder.c only. */
    bool lookahead;
    uint32_t features;
    bool begun;              /* a segment has */
    bool packed, open_ended; /* the chunk is */
    uint8_t profile[RAW_PROFILE_BYTES];
    uint64_t units;          /* of the lane, the present chunk included */
    uint64_t payload_offset; /* of the chunk */
    const uint8_t *payload, *at, *end;
    uint64_t segment_allocation;
    uint64_t last_address;
    uint64_t page_place, page_address; /* of the latest `page` */
    uint32_t stack;                    /* of the next call that can have one; 0: none */
    uint32_t next_code, next_node;     /* after the latest that the segment has defined */
    struct raw_remote_entry remote[RAW_REMOTE_ENTRIES];
    struct units_call codes[UNITS_CALLS]; /* of the chunk */
    struct raw_cache cache;
    struct raw_places *places; /* of an opaque stream, once a chunk of the lane was packed */
    uint64_t places_bytes;     /* how much of it may have been touched: in `*all_places_bytes` */
    uint64_t latest_sequence[RAW_SEQUENCE_ENTRIES];
};

/* `features`: of the stream. */
void raw_decoder_init(struct raw_decoder *decoder, uint32_t lane, uint32_t features);
void raw_decoder_free(struct raw_decoder *decoder);

/* A lookahead where the decoder is, which may be a lookahead itself. */
void raw_decoder_lookahead(struct raw_decoder *lookahead, const struct raw_decoder *decoder);

/* The same for an opaque stream, but places are known: 200 KB for each. raw_decoder_free() releases
 * it. False: no memory. */
bool raw_decoder_copy(struct raw_decoder *copy, const struct raw_decoder *decoder);

/* Prepares for a key chunk after a gap, with the counts of units and allocations that the chunk
 * says come before it. An error is forgotten. raw_decoder_open() is next. */
void raw_decoder_resume(struct raw_decoder *decoder, const struct raw_chunk *chunk);

/* Begins with the next chunk of the lane, the one before being used up. False: see error; also
 * when the chunk does not follow on what was decoded (units, allocations). */
bool raw_decoder_open(struct raw_decoder *decoder, const struct raw_chunk *chunk);

/* Decodes up to `room` records. Returns how many; 0 at the end of the chunk, and after an error
 * once the records before it have been returned. */
uint32_t raw_decoder_next(struct raw_decoder *decoder, struct record *records, uint32_t room);

/* The same, but stops, after at least one record, before a call that raw_calls.h may show: for
 * callers that use both. */
uint32_t raw_decoder_next_special(struct raw_decoder *decoder, struct record *records,
                                  uint32_t room);

/* Whether the current chunk may have more records. */
static inline bool raw_decoder_has_more(const struct raw_decoder *decoder)
{
    return decoder->at < decoder->end && !error_is_set(&decoder->error);
}

/* Units of the current chunk that were decoded, if it is not packed. */
static inline uint32_t raw_decoder_units_taken(const struct raw_decoder *decoder)
{
    return (uint32_t)((decoder->at - decoder->payload) / 2);
}

#ifdef __cplusplus
}
#endif
#endif
