#include "pack_opaque.h"

#include "../common/bytes.h"
#include "../common/call_kind.h"
#include "../common/call_table.h"
#include "../common/varint.h"
#include "raw_units.h"

/* Bytes beyond three for each unit: of places that are far, where nothing has been saved yet. */
#define SLACK_BYTES 8

/* A chunk that is being packed. At the end of each record it has no more than three bytes for each
 * unit that the records had so far, and the slack: so there is room. */
struct packing {
    const struct packer *packer;
    struct raw_places *places;
    uint8_t *out;
    const uint8_t *most; /* where that is */
};

static inline void put(struct packing *packing, uint32_t unit)
{
    packing->out = pack_put_unit(packing->packer, packing->out, unit);
}

static void put_all(struct packing *packing, const uint16_t *at, const uint16_t *end)
{
    while (at < end)
        put(packing, *at++);
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

static void put_number(struct packing *packing, uint64_t number)
{
    for (; number >= RAW_NUMBER_MORE; number >>= RAW_NUMBER_BITS)
        put(packing, RAW_NUMBER_MORE | (number & (RAW_NUMBER_MORE - 1)));
    put(packing, (uint32_t)number);
}

/* What stands before an allocation to say its place. */
static inline void put_place(struct packing *packing, uint64_t size, uint32_t place)
{
    const int first = (int)RAW_UNIT_NEARBY_FIRST - (int)RAW_UNIT_NEARBY;
    const int end = (int)RAW_UNIT_NEARBY_END - (int)RAW_UNIT_NEARBY;
    struct raw_places *places = packing->places;
    uint32_t index = raw_places_find(places, size, place);
    int64_t difference = (int64_t)place - places->last;
    if (index < RAW_PLACES_NAMED) {
        raw_places_take(places, size, index);
        if (index > 0) put(packing, RAW_UNIT_LISTED + index);
    } else if (difference >= first && difference < end) {
        put(packing, (uint32_t)(RAW_UNIT_NEARBY + difference));
    } else {
        put(packing, RAW_UNIT_DISTANT);
        put_number(packing, zigzag(difference));
    }
}

/* The unit that names the object of a lane by its age; 0: it has none. */
static inline uint32_t aged_unit(struct raw_places *places, unsigned range, uint32_t place)
{
    uint32_t age = raw_places_age(places, place);
    return age != 0 && age < pack_aged_units[range].ages ? pack_aged_units[range].unit + age : 0;
}

/* --- records --- */

/* An allocation of a range: its place is said before it and not behind it. `own`: its first unit.
 */
static void put_allocation(struct packing *packing, const struct raw_said *said,
                           const uint16_t *own, const uint16_t *end)
{
    const uint16_t *place = own + 1;
    if (call_shapes[said->number] == SHAPE_ALLOCATION_ALIGNED) place += number_units(place);
    put_place(packing, said->size, said->place);
    put_all(packing, own, place);
    put_all(packing, place + 2, end);
}

/* Units before the own first one of an allocation: whom it comes after. */
static size_t after_units(const struct raw_said *said, const uint16_t *at)
{
    if (said->after == RAW_AFTER_NONE) return 0;
    size_t units = 1 + number_units(at + 1);
    return said->after == RAW_AFTER_LANE ? units + number_units(at + units) : units;
}

static void put_record(struct packing *packing, const struct raw_said *said, const uint16_t *at,
                       const uint16_t *end)
{
    const uint16_t *own = at + after_units(said, at);
    bool is_own = said->naming == RAW_NAMES_OWN, has_range = said->range < RAW_RANGES;
    put_all(packing, at, own);
    if (said->begins && has_range && !said->ends) {
        put_allocation(packing, said, own, end);
    } else {
        uint32_t aged =
            is_own && has_range ? aged_unit(packing->places, said->range, said->ends) : 0;
        if (aged) {
            put(packing, aged);
            own += said->object_units;
        }
        put_all(packing, own, end);
    }
    if (said->number == RAW_FAILED) return;
    bool stays = said->number == CALL_REALLOC_IN_PLACE;
    if (said->begins)
        raw_places_began(packing->places, stays ? said->ends : said->place, said->size);
    if (is_own && !stays) raw_places_ended(packing->places, said->ends);
}

/* The same for a record that nothing is special about, of up to three units. NULL: it is one. */
static inline const uint16_t *put_short(struct packing *packing, const struct raw_form *form,
                                        const uint16_t *at)
{
    uint32_t operand = *at - form->base;
    if (form->form == RAW_FORM_ALLOCATION) {
        uint32_t place = at[1] | (uint32_t)at[2] << 16;
        put_place(packing, operand, place);
        put(packing, *at);
        raw_places_began(packing->places, place, operand);
        return at + 3;
    }
    if (form->form != RAW_FORM_FAR || (form->is_sized && at[2] >= RAW_NUMBER_MORE)) return NULL;
    uint32_t place = operand << 16 | at[1];
    uint32_t aged = aged_unit(packing->places, form->range, place);
    if (aged)
        put(packing, aged);
    else
        put_all(packing, at, at + 2);
    if (form->is_sized) put(packing, at[2]);
    raw_places_ended(packing->places, place);
    return at + 2 + form->is_sized;
}

uint8_t *pack_opaque_units(const struct packer *packer, struct raw_places *places,
                           const struct pack_records *records, uint8_t *out)
{
    const uint16_t *at = records->units, *end = at + records->count;
    struct packing packing = {
        .packer = packer, .places = places, .out = out, .most = out + SLACK_BYTES};
    struct raw_form forms[RAW_FORMS];
    struct raw_said said;
    places->rounding = records->profile[RAW_PROFILE_ROUNDING];
    raw_forms_fill(forms, records->profile, records->features, false);
    while (at < end) {
        const uint16_t *next = NULL;
        if (end - at >= 3) next = put_short(&packing, &forms[*at >> RAW_FORM_SHIFT], at);
        if (!next) {
            struct raw_units units = {.at = (const uint8_t *)at,
                                      .end = (const uint8_t *)end,
                                      .profile = records->profile,
                                      .features = records->features};
            if (!raw_units_take(&units, &said)) return NULL;
            next = at + (units.at - (const uint8_t *)at) / 2;
            put_record(&packing, &said, at, next);
        }
        packing.most += 3 * (next - at);
        if (packing.out > packing.most) return NULL;
        at = next;
    }
    return packing.out;
}
