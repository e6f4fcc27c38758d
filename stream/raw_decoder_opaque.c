/* raw_decoder_opaque - the places of a lane of an opaque stream, as far as packed chunks leave them
 * out (FORMAT.md 5.6, raw_places.h). */
#include <string.h>

#include "common/pages.h"
#include "stream/raw_decoder_own.h"
#include "stream/raw_places.h"

/* Each object touches, in the lane's places, a page of sizes and one of lists; a few pages are
 * touched anyway. With PLACES_OBJECTS objects, all may be. */
enum { PAGE_BYTES = 4096, PLACES_PAGES = 3 };
#define PLACES_OBJECTS (sizeof(struct raw_places) / (2 * PAGE_BYTES))

/* Forgets them; untouched memory stays untouched. */
static bool decoder_opaque_clear_places(struct raw_decoder *decoder)
{
    if (decoder->places->objects >= PLACES_OBJECTS) {
        memset(decoder->places, 0, sizeof *decoder->places);
        return true;
    }
    pages_unmap(decoder->places, sizeof *decoder->places);
    decoder->places = pages_map(sizeof *decoder->places);
    return decoder->places != NULL;
}

/* Whether all lanes' places stay within their limit, with those that this lane has touched. */
static bool count_places(struct raw_decoder *decoder)
{
    uint64_t *all = decoder->all_places_bytes;
    const uint64_t objects = decoder->places->objects;
    const uint64_t bytes = objects < PLACES_OBJECTS ? (PLACES_PAGES + 2 * objects) * PAGE_BYTES
                                                    : sizeof *decoder->places;
    if (all == NULL || bytes <= decoder->places_bytes) return true;
    *all += bytes - decoder->places_bytes;
    decoder->places_bytes = bytes;
    return *all <= RAW_PLACES_BYTES_MAX ||
           error_set(&decoder->error, &raw_errors[RAW_PLACES_MEMORY], decoder->payload_offset,
                     "lane %" PRIu32, decoder->lane);
}

/* What a packed chunk leaves out is known from the chunks before it, back to
 * one that is key, or not packed. */
static bool prepare_places(struct raw_decoder *decoder, const struct raw_chunk *chunk,
                           bool was_packed)
{
    if (!chunk->packed || decoder->lookahead) return true;
    bool made = decoder->places != NULL;
    if (!made) decoder->places = pages_map(sizeof *decoder->places);
    if (decoder->places == NULL ||
        (made && (!was_packed || chunk->key) && !decoder_opaque_clear_places(decoder)))
        return error_set_system(&decoder->error, "no memory for the places of a thread");
    decoder->places->rounding = decoder->profile[RAW_PROFILE_ROUNDING];
    return count_places(decoder);
}

static uint32_t opaque_place_of_age(const struct raw_decoder *decoder, uint32_t age)
{
    return raw_places_of_age(decoder->places, age);
}

bool raw_decoder_find_place(struct raw_decoder *decoder, const struct units_record *coded,
                            struct record *record)
{
    struct raw_places *places = decoder->places;
    if (decoder->lookahead) return true;
    uint64_t place = coded->place_form == UNITS_PLACE_NEARBY
                         ? places->last + (uint64_t)unzigzag(coded->place_code)
                         : raw_places_take(places, coded->size, (uint32_t)coded->place_code);
    if (place == RAW_PLACE_NONE || place >= RAW_PLACE_LIMIT)
        return DECODER_FAIL(decoder, RAW_PLACE, ": %" PRIu64, place);
    record->place = (uint32_t)place;
    return true;
}

/* What a record does to the places of its lane. */
static bool follow_places(struct raw_decoder *decoder, struct record *record,
                          const struct units_record *coded)
{
    struct raw_places *places = decoder->places;
    bool is_own =
        coded->object_form == UNITS_OBJECT_OWN || coded->object_form == UNITS_OBJECT_BY_AGE;
    if (!decoder->packed || coded->number == RAW_FAILED) return true;
    if (coded->begins && record->place) raw_places_began(places, record->place, record->size);
    if (is_own && coded->number != CALL_REALLOC_IN_PLACE) raw_places_ended(places, record->ends);
    return true;
}

static uint32_t decode_opaque_calls(struct raw_decoder *decoder, struct record *records,
                                    uint32_t room)
{
    struct raw_call call;
    uint32_t done = 0;
    if (!raw_opaque_calls_begin(decoder)) return 0;
    for (; done < room && raw_opaque_calls_look(decoder, &call); done++) {
        raw_decoder_make_call(decoder, &call, decoder->allocations, &records[done]);
        raw_opaque_calls_take(decoder, &call);
    }
    return done;
}

const struct raw_dialect raw_opaque = {.units = &units_opaque,
                                       .prepare = prepare_places,
                                       .place_of_age = opaque_place_of_age,
                                       .follow = follow_places,
                                       .decode_calls = decode_opaque_calls,
                                       .roundings = RAW_ROUNDING_LIMIT};
