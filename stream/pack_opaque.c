#include "pack_opaque.h"

#include "../common/bytes.h"
#include "../common/call_kind.h"
#include "../common/call_table.h"
#include "raw_units.h"
#include "varint.h"

static uint8_t *put_all(const struct packer *packer, uint8_t *out, const uint16_t *at,
                        const uint16_t *end)
{
    while (at < end)
        out = pack_put_unit(packer, out, *at++);
    return out;
}

/* A unit whose upper byte says nothing special: of two bytes. */
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

/* --- places --- */

static __attribute__((noinline)) uint8_t *put_distant(const struct packer *packer, uint8_t *out,
                                                      uint64_t difference)
{
    out = put_two(out, RAW_UNIT_DISTANT);
    for (; difference >= RAW_NUMBER_MORE; difference >>= RAW_NUMBER_BITS)
        out = pack_put_unit(packer, out, RAW_NUMBER_MORE | (difference & (RAW_NUMBER_MORE - 1)));
    return pack_put_unit(packer, out, (uint32_t)difference);
}

/* What stands before an allocation to say its place. */
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
static inline uint32_t aged_unit(struct raw_places *places, unsigned range, uint32_t place)
{
    uint32_t age = raw_places_age(places, place);
    return age - 1 < pack_aged_units[range].ages - 1u ? pack_aged_units[range].unit + age : 0;
}

/* --- records --- */

/* An allocation of a range: its place is said before it and not behind it. `own`: its first unit.
 */
static uint8_t *put_allocation(const struct packer *packer, uint8_t *out, struct raw_places *places,
                               const struct raw_said *said, const uint16_t *own,
                               const uint16_t *end)
{
    const uint16_t *place = own + 1;
    if (*own < RAW_COMPACT_END) {
        out = put_place(packer, out, places, said->size, said->place);
        out = put_one_or_two(packer, out, RAW_UNIT_ALLOCATION_1 + (uint32_t)said->size);
        return put_all(packer, out, own + 2, end);
    }
    if (call_shapes[said->number] == SHAPE_ALLOCATION_ALIGNED) place += number_units(place);
    out = put_place(packer, out, places, said->size, said->place);
    out = put_all(packer, out, own, place);
    return put_all(packer, out, place + 2, end);
}

static uint8_t *put_record(const struct packer *packer, uint8_t *out, struct raw_places *places,
                           const struct raw_said *said, const uint16_t *own, const uint16_t *end)
{
    bool is_own = said->naming == RAW_NAMES_OWN, has_range = said->range < RAW_RANGES;
    if (said->begins && has_range && !said->ends) {
        out = put_allocation(packer, out, places, said, own, end);
    } else {
        uint32_t aged = is_own && has_range ? aged_unit(places, said->range, said->ends) : 0;
        if (aged) {
            out = pack_put_unit(packer, out, aged);
            own += said->object_units;
        }
        out = put_all(packer, out, own, end);
    }
    if (said->number == RAW_FAILED) return out;
    bool stays = said->number == CALL_REALLOC_IN_PLACE;
    if (said->begins) raw_places_began(places, stays ? said->ends : said->place, said->size);
    if (is_own && !stays) raw_places_ended(places, said->ends);
    return out;
}

/* Bytes of an object's place and of its allocation's unit, at most, and what may be stored behind
 * them. */
#define PLACED_BYTES_MAX 24

/* The same for records that nothing is special about, of up to three units. Stops before another
 * one, and before `out_end` is near. */
static __attribute__((noinline)) const uint16_t *put_shorts(const struct packer *packer,
                                                            struct raw_places *places,
                                                            const struct raw_form forms[RAW_FORMS],
                                                            const uint16_t *at, const uint16_t *end,
                                                            uint8_t **to, const uint8_t *out_end)
{
    uint8_t *out = *to;
    while (end - at >= 3 && out_end - out >= PLACED_BYTES_MAX) {
        const struct raw_form *form = &forms[*at >> RAW_FORM_SHIFT];
        uint32_t operand = *at - form->base;
        if (form->form <= RAW_FORM_COMPACT && form->form != RAW_FORM_OTHER) {
            bool compact = form->form == RAW_FORM_COMPACT;
            struct raw_compact both = {operand, at[1] | (uint32_t)at[2] << 16};
            if (compact) both = raw_compact_of(*at, at[1]);
            out = put_place(packer, out, places, both.size, both.place);
            out = put_one_or_two(packer, out,
                                 RAW_UNIT_ALLOCATION_1 + both.size +
                                     (compact ? 0 : form->base - RAW_UNIT_ALLOCATION_1));
            raw_places_began(places, both.place, both.size);
            at += 3 - compact;
        } else if (form->form == RAW_FORM_FAR) {
            uint32_t place = operand << 16 | at[1];
            if (form->is_sized && at[2] >= RAW_NUMBER_MORE) break;
            uint32_t aged = aged_unit(places, form->range, place);
            if (aged)
                out = pack_put_unit(packer, out, aged);
            else
                out = pack_put_unit(packer, put_two(out, *at), at[1]);
            if (form->is_sized) out = pack_put_unit(packer, out, at[2]);
            raw_places_ended(places, place);
            at += 2 + form->is_sized;
        } else {
            break;
        }
    }
    *to = out;
    return at;
}

uint8_t *pack_opaque_units(const struct packer *packer, struct raw_places *places,
                           const struct pack_records *records, uint8_t *out)
{
    const uint16_t *at = records->units, *end = at + records->count;
    const uint8_t *out_end = out + PACK_BYTES_MAX(records->count);
    struct raw_form forms[RAW_FORMS];
    struct raw_said said;
    places->rounding = records->profile[RAW_PROFILE_ROUNDING];
    raw_forms_fill(forms, records->profile, records->features, false);
    while (at < end) {
        at = put_shorts(packer, places, forms, at, end, &out, out_end);
        if (at == end) break;
        struct raw_units units = {.at = (const uint8_t *)at,
                                  .end = (const uint8_t *)end,
                                  .profile = records->profile,
                                  .features = records->features};
        if (!raw_units_take(&units, &said)) return NULL;
        const uint16_t *next = at + (units.at - (const uint8_t *)at) / 2;
        /* Where nothing is known yet, a place takes more bytes than its units. */
        if (out_end - out < 3 * (next - at) + PLACED_BYTES_MAX) return NULL;
        out = put_record(packer, out, places, &said, at, next);
        at = next;
    }
    return out;
}
