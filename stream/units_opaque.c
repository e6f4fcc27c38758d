/* units_opaque - what a stream has of whose allocator only addresses are known (FORMAT.md 5.6): each
 * allocation names its place, and frees are counted. */
#include "stream/units_own.h"

/* ---- calls ---- */

void units_opaque_allocation(struct units_lane *lane, unsigned kind, uint64_t size,
                             uint64_t alignment, const struct units_allocation_of *allocation)
{
    const uint32_t place = allocation->object.place;
    if (units_opaque_usual_allocation(lane, kind, size, place)) return;
    static const struct units_range_code none = {RAW_UNIT_GENERAL, 0};
    unsigned range = units_range_of(lane, kind), unit = RAW_UNIT_GENERAL + kind;
    const struct units_range_code *code =
        range < RAW_RANGES ? &units_range_codes[range][RAW_SHORT] : &none;
    uint16_t *at = units_rest_of_record(lane);
    bool is_short = size < code->limit;
    bool compact = is_short && units_can_compact(code->first, size, place);
    if (compact) {
        uint32_t both = units_compact(size, place);
        unit = (uint16_t)both;
        *at++ = (uint16_t)(both >> 16);
    } else if (is_short) {
        unit = code->first + (unsigned)size;
    } else {
        at = units_put_number(at, size);
    }
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) at = units_put_number(at, alignment);
    if (!is_short) {
        at = units_put_number(at, place);
    } else if (!compact) {
        *at++ = (uint16_t)place;
        *at++ = (uint16_t)(place >> 16);
    }
    units_finish_event(lane, unit, units_put_address(lane, at, allocation->address), 1);
}

/* An allocation by its row. In a packed chunk units before it have named the place, or it is the
 * first of its list. */
static bool opaque_take_allocation(struct units_reader *reader, struct units_record *coded)
{
    if (shape_has_alignment(coded->shape)) coded->operand = units_take_number(reader);
    coded->begins = true;
    if (reader->packed) {
        if (coded->place_form == UNITS_PLACE_ITSELF) coded->place_form = UNITS_PLACE_LISTED;
    } else {
        coded->place = units_take_unit(reader);
        coded->place |= (uint32_t)units_take_unit(reader) << 16;
        if (coded->place == RAW_PLACE_NONE) return units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    }
    units_take_address(reader, coded);
    return true;
}

/* 0001..9fff, except in a packed chunk: allocation 1. */
static bool take_compact(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    struct units_size_place both = units_uncompact(unit, units_take_unit(reader));
    if (reader->profile[RAW_ALLOCATION_1] == 0) return units_fail(coded, RAW_UNIT, unit);
    units_begin_record(coded, reader->profile[RAW_ALLOCATION_1]);
    coded->range = RAW_ALLOCATION_1;
    coded->begins = true;
    coded->size = both.size;
    coded->place = both.place;
    if (both.place == RAW_PLACE_NONE) return units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    if (shape_has_alignment(coded->shape)) coded->operand = units_take_number(reader);
    units_take_address(reader, coded);
    return true;
}

/* ---- places, and what comes after what ---- */

void units_page(struct units_lane *lane, uint32_t first, uintptr_t address)
{
    uint64_t eighths = address / 8;
    uint16_t *at =
        units_put_number(units_rest_of_record(lane), zigzag((int64_t)(first - lane->page_place)));
    at = units_put_number(at, zigzag((int64_t)(eighths - lane->page_address)));
    lane->page_place = first;
    lane->page_address = eighths;
    units_finish(lane, RAW_UNIT_GENERAL + RAW_PAGE, at);
}

static void take_page(struct units_reader *reader, struct units_record *coded)
{
    coded->operand = units_take_number(reader);
    coded->address = units_take_number(reader);
}

bool units_after(struct units_lane *lane, uint64_t bound, bool is_realloc)
{
    unsigned entry = raw_allocations_lane(bound) % RAW_REMOTE_ENTRIES;
    uint64_t latest = units_remembered(lane, bound);
    uint16_t *at = units_rest_of_record(lane);
    if (latest && lane->remote[entry].waited == bound) return false;
    units_remember(lane, bound, NULL);
    /* The lane may not have to wait for all of that (FORMAT.md 6). */
    if (is_realloc) lane->remote[entry].waited = 0;
    if (latest)
        at = units_put_number(at, bound - latest);
    else
        at = units_put_number(units_put_number(at, raw_allocations_lane(bound)),
                              raw_allocations_count(bound));
    units_finish(lane,
                 (latest ? RAW_UNIT_AFTER + entry : RAW_UNIT_AFTER_LANE) +
                     (is_realloc ? RAW_UNIT_AFTER_REALLOC : 0),
                 at);
    return true;
}

/* f100..f108, f110..f118: whom the lane comes after. */
static bool take_after(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    unsigned entry = (unit & ~RAW_UNIT_AFTER_REALLOC) - RAW_UNIT_AFTER;
    units_begin_record(coded, RAW_AFTER);
    coded->operand = (unit & RAW_UNIT_AFTER_REALLOC) != 0;
    coded->object_form = entry < RAW_REMOTE_ENTRIES ? UNITS_OBJECT_BY_ENTRY : UNITS_OBJECT_REMOTE;
    coded->lane = entry < RAW_REMOTE_ENTRIES ? entry : units_take_number(reader);
    coded->bound = units_take_number(reader);
    return true;
}

/* In a packed chunk: takes the units before an allocation that name its place, if there are any.
 * Returns the unit that follows. */
static unsigned take_place_before(struct units_reader *reader, unsigned unit,
                                  struct units_record *coded)
{
    bool is_nearby = unit >= RAW_UNIT_NEARBY_FIRST && unit < RAW_UNIT_NEARBY_END;
    bool is_listed = unit >= RAW_UNIT_LISTED && unit < RAW_UNIT_LISTED_END;
    if (!is_nearby && !is_listed && unit != RAW_UNIT_DISTANT) return unit;
    coded->place_form = is_listed ? UNITS_PLACE_LISTED : UNITS_PLACE_NEARBY;
    if (is_listed)
        coded->place_code = unit - RAW_UNIT_LISTED;
    else if (is_nearby)
        coded->place_code = zigzag((int32_t)unit - (int32_t)RAW_UNIT_NEARBY);
    else
        coded->place_code = units_take_number(reader);
    return units_take_unit(reader);
}

/* ---- any record ---- */

static bool opaque_take_other(struct units_reader *reader, unsigned unit,
                              struct units_record *coded)
{
    if (coded->number != RAW_PAGE) return units_fail(coded, RAW_NUMBER, unit);
    take_page(reader, coded);
    return true;
}

static bool opaque_take_record(struct units_reader *reader, unsigned unit,
                               struct units_record *coded)
{
    if (unit >= RAW_UNIT_AFTER && (unit & ~RAW_UNIT_AFTER_REALLOC) < RAW_UNIT_AFTER_END)
        return take_after(reader, unit, coded);
    unsigned own = reader->packed ? take_place_before(reader, unit, coded) : unit;
    bool says_place = own != unit;
    if (own >= RAW_COMPACT_FIRST && own < RAW_COMPACT_END && !reader->packed)
        return take_compact(reader, own, coded);
    if (own >= RAW_UNIT_SEQUENCE_BEFORE && own < RAW_UNIT_STACK)
        return units_fail(coded, RAW_UNIT, own);
    if (!units_take_record(reader, own, coded)) return false;
    if (says_place &&
        (call_shapes[coded->number] > SHAPE_ALLOCATION_ALIGNED || coded->range == RAW_RANGES))
        return units_fail(coded, RAW_UNIT, own);
    return true;
}

static void add_compact_calls(struct units_call calls[UNITS_CALLS], const uint8_t *profile,
                              uint32_t features)
{
    const unsigned first = profile[RAW_ALLOCATION_1];
    if (features & RAW_FEATURE_ADDRESSES || call_shapes[first] != SHAPE_ALLOCATION) return;
    for (unsigned i = 0; i < RAW_COMPACT_END >> UNITS_CALL_SHIFT; i++)
        calls[i] =
            (struct units_call){.form = UNITS_CALL_COMPACT, .kind = (uint8_t)first, .units = 2};
}

const struct units_dialect units_opaque = {.read = opaque_take_record,
                                           .take_allocation = opaque_take_allocation,
                                           .take_own = opaque_take_other,
                                           .add_calls = add_compact_calls,
                                           .allocation_units = 3,
                                           .names_new_places = true,
                                           .counts_frees = true,
                                           .fast_size_limit = UINT32_MAX,
                                           .classes_of_bound = 1};
