/* pack_opaque - packed units of an opaque stream (FORMAT.md 5.6): allocations leave out their places
 * where a reader finds them by itself (raw_places.h). */
#include "stream/pack_own.h"
#include "stream/units_read.h"

#include "common/bytes.h"
#include "common/call_kind.h"
#include "common/call_table.h"
#include "stream/raw_places.h"
#include "stream/varint.h"

#include <string.h>

/* A unit that takes two bytes, the upper one first. */
static inline uint8_t *put_two(uint8_t *out, uint32_t unit)
{
    bytes_put16(out, (uint16_t)(unit << 8 | unit >> 8));
    return out + 2;
}

static inline uint8_t *put_one_or_two(const struct packer *packer, uint8_t *out, uint32_t unit)
{
    uint8_t code = packer->codes[unit - PACK_CODES_FIRST];
    if (code == PACK_NO_CODE) return put_two(out, unit);
    *out = code;
    return out + 1;
}

/* Units of the number that begins there. */
static unsigned number_units(const uint16_t *at)
{
    unsigned units = 1;
    while (*at++ >= RAW_NUMBER_MORE)
        units++;
    return units;
}

/* ---- places ---- */

static __attribute__((noinline)) uint8_t *put_distant(const struct packer *packer, uint8_t *out,
                                                      uint64_t difference)
{
    out = put_two(out, RAW_UNIT_DISTANT);
    for (; difference >= RAW_NUMBER_MORE; difference >>= RAW_NUMBER_BITS)
        out = pack_put_unit(packer, out, RAW_NUMBER_MORE | (difference & (RAW_NUMBER_MORE - 1)));
    return pack_put_unit(packer, out, (uint32_t)difference);
}

/* The units before an allocation that name its place. */
static inline uint8_t *put_place(const struct packer *packer, uint8_t *out,
                                 struct raw_places *places, uint64_t size, uint32_t place)
{
    const int first = (int)RAW_UNIT_NEARBY_FIRST - (int)RAW_UNIT_NEARBY;
    uint32_t index = raw_places_find(places, size, place);
    if (index < RAW_PLACES_NAMED) {
        raw_places_take(places, size, index);
        return index > 0 ? put_two(out, RAW_UNIT_LISTED + index) : out;
    }
    int64_t difference = (int64_t)place - places->last;
    if ((uint64_t)(difference - first) < RAW_UNIT_NEARBY_END - RAW_UNIT_NEARBY_FIRST)
        return put_two(out, (uint32_t)(RAW_UNIT_NEARBY + difference));
    return put_distant(packer, out, zigzag(difference));
}

/* The unit that names the object of a lane by its age; 0: it has none. */
static inline uint32_t pack_opaque_unit_by_age(struct raw_places *places, unsigned range,
                                               uint32_t place)
{
    const struct units_range_code *code = &units_range_codes[range][RAW_BY_AGE];
    uint32_t age = raw_places_age(places, place);
    return age - 1 < code->limit - 1 ? code->first + age : 0;
}

/* ---- records ---- */

/* An allocation of a range: its place is put before it, not after it. `own`: its first unit. */
static uint8_t *pack_opaque_put_allocation(const struct packer *packer, uint8_t *out,
                                           struct raw_places *places,
                                           const struct units_record *coded, const uint16_t *own,
                                           const uint16_t *end)
{
    const uint16_t *place = own + 1;
    if (*own < RAW_COMPACT_END) {
        out = put_place(packer, out, places, coded->size, coded->place);
        out = put_one_or_two(packer, out, RAW_UNIT_ALLOCATION_1_SHORT + (uint32_t)coded->size);
        return pack_put_units(packer, out, own + 2, end);
    }
    if (call_shapes[coded->number] == SHAPE_ALLOCATION_ALIGNED) place += number_units(place);
    out = put_place(packer, out, places, coded->size, coded->place);
    out = pack_put_units(packer, out, own, place);
    return pack_put_units(packer, out, place + 2, end);
}

/* The most bytes of an object's place and its allocation's unit, with what may be stored after
 * them. */
#define PLACED_BYTES_MAX 24

/* Packs the record from `own` to `end`. Returns the end of what is packed. NULL: there is no room
 * for it; the places mean nothing then. */
static uint8_t *put_record(const struct packer *packer, struct raw_places *places,
                           const struct units_record *coded, const uint16_t *own,
                           const uint16_t *end, uint8_t *out, const uint8_t *out_end)
{
    /* Where nothing is known yet, a place takes more bytes than its units. */
    if (out_end - out < 3 * (end - own) + PLACED_BYTES_MAX) return NULL;
    bool is_own = coded->object_form == UNITS_OBJECT_OWN, has_range = coded->range < RAW_RANGES;
    if (coded->begins && has_range && !coded->ends) {
        out = pack_opaque_put_allocation(packer, out, places, coded, own, end);
    } else {
        uint32_t by_age =
            is_own && has_range ? pack_opaque_unit_by_age(places, coded->range, coded->ends) : 0;
        if (by_age) {
            out = pack_put_unit(packer, out, by_age);
            own += coded->object_units;
        }
        out = pack_put_units(packer, out, own, end);
    }
    if (coded->number == RAW_FAILED) return out;
    bool stays = coded->number == CALL_REALLOC_IN_PLACE;
    if (coded->begins) raw_places_began(places, stays ? coded->ends : coded->place, coded->size);
    if (is_own && !stays) raw_places_ended(places, coded->ends);
    return out;
}

/* Packs calls that their first unit identifies (units.h). Stops before any other record, where there
 * may be no room before `out_end`, and before the last units. */
static __attribute__((noinline)) const uint16_t *put_calls(const struct packer *packer,
                                                           struct raw_places *places,
                                                           const struct units_call *calls,
                                                           const uint16_t *at, const uint16_t *end,
                                                           uint8_t **to, const uint8_t *out_end)
{
    uint8_t *out = *to;
    while (end - at >= UNITS_CALL_UNITS_MAX && out_end - out >= PLACED_BYTES_MAX) {
        const struct units_call *call = &calls[*at >> UNITS_CALL_SHIFT];
        uint32_t operand = (uint32_t)*at - call->base;
        if (call->form == UNITS_CALL_OTHER) {
            if (!units_begins_stack(*at)) break;
            out = pack_put_unit(packer, pack_put_unit(packer, out, *at), at[1]);
            at += 2;
            continue;
        }
        if (call->form <= UNITS_CALL_COMPACT) {
            bool compact = call->form == UNITS_CALL_COMPACT;
            struct units_size_place both = {operand, at[1] | (uint32_t)at[2] << 16};
            if (compact) both = units_uncompact(*at, at[1]);
            out = put_place(packer, out, places, both.size, both.place);
            out = put_one_or_two(packer, out,
                                 both.size + (compact ? RAW_UNIT_ALLOCATION_1_SHORT : call->base));
            raw_places_began(places, both.place, both.size);
            at += call->units;
        } else {
            uint32_t place = operand << 16 | at[1];
            if (call->is_sized && at[2] >= RAW_NUMBER_MORE) break;
            uint32_t by_age = pack_opaque_unit_by_age(places, call->range, place);
            if (by_age)
                out = pack_put_unit(packer, out, by_age);
            else
                out = pack_put_unit(packer, put_two(out, *at), at[1]);
            if (call->is_sized) out = pack_put_unit(packer, out, at[2]);
            raw_places_ended(places, place);
            at += 2 + call->is_sized;
        }
    }
    *to = out;
    return at;
}

/* ---- lanes ---- */

struct opaque_lane {
    struct pack_lane lane;
    struct raw_places places;
};

static void opaque_begin_lane(struct packer *packer, struct pack_lane *of, bool is_new)
{
    struct raw_places *places = &((struct opaque_lane *)of)->places;
    (void)packer;
    if (!is_new) memset(places, 0, sizeof *places);
}

static uint8_t *opaque_pack(struct packer *packer, struct pack_lane *of,
                            const struct units_call *calls, const struct pack_records *records,
                            uint8_t *out)
{
    struct raw_places *places = &((struct opaque_lane *)of)->places;
    const uint16_t *at = records->units, *end = at + records->count;
    const uint8_t *out_end = out + PACK_BYTES_MAX(records->count);
    struct units_record coded;
    places->rounding = records->profile[RAW_PROFILE_ROUNDING];
    for (;;) {
        at = put_calls(packer, places, calls, at, end, &out, out_end);
        if (at == end) return out;
        const uint16_t *next = units_next(records->profile, records->features, at, end, &coded);
        out = next != NULL ? put_record(packer, places, &coded, at, next, out, out_end) : NULL;
        if (out == NULL) return NULL;
        at = next;
    }
}

/* To follow a lane clears 200 KiB, which takes as long as to pack 1 000 units or more. */
const struct pack_dialect pack_opaque = {.lane_bytes = sizeof(struct opaque_lane),
                                         .begin = opaque_begin_lane,
                                         .pack = opaque_pack,
                                         .needs_lane = true,
                                         .plain_segments = 1,
                                         .units_to_follow = 1024,
                                         .segments_to_follow = 8};
