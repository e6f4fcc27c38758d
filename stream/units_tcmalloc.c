/* units_tcmalloc - what a stream has whose allocator tells its classes and caches. */
#include "stream/units_own.h"

/* ---- calls, FORMAT.md 5.2 ---- */

void units_allocation(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                      const struct units_allocation_of *allocation)
{
    if (allocation->taken && units_usual_allocation(lane, kind, size)) return;
    unsigned range = units_range_of(lane, kind), unit = RAW_UNIT_GENERAL + kind;
    uint16_t *at = units_rest_of_record(lane);
    bool is_short =
        allocation->taken && range < RAW_RANGES && size < units_range_codes[range][RAW_SHORT].limit;
    if (is_short)
        unit = units_range_codes[range][RAW_SHORT].first + (unsigned)size;
    else
        at = units_put_number(at, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) at = units_put_number(at, alignment);
    if (!is_short && allocation->taken)
        at = units_put_number(at, RAW_PLACE_NONE);
    else if (!is_short)
        at = units_put_place(lane, at, &allocation->object);
    units_finish_event(lane, unit, units_put_address(lane, at, allocation->address), 1);
}

static bool tcmalloc_take_allocation(struct units_reader *reader, struct units_record *coded)
{
    return units_take_rest(reader, false, coded);
}

/* ---- sequence numbers, FORMAT.md 5.3 ---- */

void units_sequence(struct units_lane *lane, unsigned structure, uint64_t number)
{
    unsigned entry = structure == RAW_STRUCTURE_PAGE_HEAP ? RAW_SIZE_CLASSES_MAX : structure;
    unsigned first = lane->allocating ? RAW_UNIT_SEQUENCE_BEFORE : RAW_UNIT_SEQUENCE_AFTER;
    MUST_HOLD(number > lane->sequences[entry]);
    uint16_t *at = units_put_number(units_rest_of_record(lane), number - lane->sequences[entry]);
    lane->sequences[entry] = number;
    units_finish(lane, first + structure, at);
}

static bool is_structure(uint64_t number)
{
    return number < RAW_SIZE_CLASSES_MAX || number == RAW_STRUCTURE_PAGE_HEAP;
}

static bool take_sequence_number(struct units_reader *reader, unsigned number, unsigned structure,
                                 struct units_record *coded)
{
    units_begin_record(coded, number);
    coded->structure = structure;
    coded->size = units_take_number(reader);
    return is_structure(structure) || units_fail(coded, RAW_STRUCTURE, structure);
}

/* ---- caches, FORMAT.md 2.6 ---- */

void units_class(struct units_lane *lane, unsigned size_class, uint64_t bytes)
{
    uint16_t *at =
        units_put_number(units_put_number(units_rest_of_record(lane), size_class), bytes);
    lane->announced[size_class / 64] |= UINT64_C(1) << size_class % 64;
    units_finish(lane, RAW_UNIT_GENERAL + RAW_CLASS, at);
}

void units_uncached(struct units_lane *lane, unsigned size_class, unsigned count)
{
    uint16_t *at =
        units_put_number(units_put_number(units_rest_of_record(lane), size_class), count);
    units_finish(lane, RAW_UNIT_GENERAL + RAW_UNCACHED, at);
}

void units_cached(struct units_lane *lane, unsigned size_class, unsigned count,
                  const uint32_t *places)
{
    uint16_t *at =
        units_put_number(units_put_number(units_rest_of_record(lane), size_class), count);
    at = units_put_number(at, places[0]);
    for (unsigned i = 1; i < count; i++)
        at = units_put_number(at, zigzag((int64_t)places[i] - places[i - 1]));
    units_finish(lane, RAW_UNIT_GENERAL + RAW_CACHED, at);
}

static bool units_tcmalloc_take_cached(struct units_reader *reader, struct units_record *coded)
{
    uint64_t count = units_take_number(reader), place = 0;
    if (count == 0 || count > RAW_CACHED_MAX) return units_fail(coded, RAW_OPERAND, count);
    for (; coded->count < count; coded->count++) {
        uint64_t number = units_take_number(reader);
        place += coded->count == 0 ? number : (uint64_t)unzigzag(number);
        if (place == RAW_PLACE_NONE || place >= RAW_PLACE_LIMIT)
            return units_fail(coded, RAW_PLACE, place);
        coded->cached[coded->count] = (uint32_t)place;
    }
    return true;
}

/* class, cached, uncached: of any class but 0, whose objects are in no cache. */
static bool take_of_class(struct units_reader *reader, struct units_record *coded)
{
    if (!units_take_class(reader, coded, &coded->structure)) return false;
    if (coded->structure == 0) return units_fail(coded, RAW_SIZE_CLASS, 0);
    if (coded->number == RAW_CACHED) return units_tcmalloc_take_cached(reader, coded);
    uint64_t number = units_take_number(reader);
    if (coded->number == RAW_CLASS)
        coded->size = number;
    else
        coded->operand = number;
    if (number == 0 || (coded->number == RAW_CLASS && number > UINT32_MAX))
        return units_fail(coded, RAW_OPERAND, number);
    return true;
}

/* ---- what happens inside a call, FORMAT.md 3 ---- */

void units_inside(struct units_lane *lane, unsigned what, uint64_t amount)
{
    uint16_t *at = units_put_number(units_rest_of_record(lane), 2 * what + !lane->allocating);
    units_finish(lane, RAW_UNIT_GENERAL + RAW_INSIDE, units_put_number(at, amount));
}

static bool units_tcmalloc_take_inside(struct units_reader *reader, struct units_record *coded)
{
    uint64_t number = units_take_number(reader), what = number / 2;
    coded->structure = (uint32_t)what;
    coded->operand = number % 2;
    coded->size = units_take_number(reader);
    return is_structure(what) || (what >= RAW_INSIDE_SBRK && what <= RAW_INSIDE_MERGE) ||
           units_fail(coded, RAW_OPERAND, number);
}

/* ---- any record ---- */

static bool tcmalloc_take_other(struct units_reader *reader, unsigned unit,
                                struct units_record *coded)
{
    switch (coded->number) {
    case RAW_THREAD_CACHE_DELETED:
    case RAW_CACHE_BEGIN: return true;
    case RAW_CLASS:
    case RAW_CACHED:
    case RAW_UNCACHED: return take_of_class(reader, coded);
    case RAW_INSIDE: return units_tcmalloc_take_inside(reader, coded);
    default: return units_fail(coded, RAW_NUMBER, unit);
    }
}

static bool tcmalloc_take_record(struct units_reader *reader, unsigned unit,
                                 struct units_record *coded)
{
    if (unit >= RAW_UNIT_SEQUENCE_AFTER && unit < RAW_UNIT_STACK)
        return take_sequence_number(reader, RAW_SEQUENCE_AFTER, unit - RAW_UNIT_SEQUENCE_AFTER,
                                    coded);
    if (unit >= RAW_UNIT_SEQUENCE_BEFORE && unit < RAW_UNIT_STACK)
        return take_sequence_number(reader, RAW_SEQUENCE_BEFORE, unit - RAW_UNIT_SEQUENCE_BEFORE,
                                    coded);
    return units_take_record(reader, unit, coded);
}

const struct units_dialect units_tcmalloc = {.read = tcmalloc_take_record,
                                             .has_classes = true,
                                             .take_allocation = tcmalloc_take_allocation,
                                             .take_own = tcmalloc_take_other,
                                             .allocation_units = 1,
                                             .has_short_frees = true,
                                             .fast_size_limit = UNITS_FAST_SIZE_LIMIT,
                                             .classes_of_bound = RAW_REMOTE_CLASSES};
