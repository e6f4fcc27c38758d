#include "stream/units_own.h"

/* ---- codes of the ranges, FORMAT.md 5.2 and 5.5 ---- */

#define CODE_OF_RANGE(range, form, first, limit) [RAW_##range][RAW_##form] = {first, limit},
const struct units_range_code units_range_codes[RAW_RANGES][RAW_CODE_FORMS] = {
    RAW_CODE_LIST(CODE_OF_RANGE)};

/* The same by first units. */
#define IS_ALLOCATION(range) (RAW_##range >= RAW_ALLOCATION_1 && RAW_##range <= RAW_ALLOCATION_3)
#define ROW(range, form, first, limit)                                    \
    {first, (uint16_t)(RAW_##form == RAW_LONG ? (limit) >> 16 : (limit)), \
     RAW_##form != RAW_LONG && !IS_ALLOCATION(range), RAW_##range,        \
     IS_ALLOCATION(range) ? UNITS_CALL_ALLOCATION : UNITS_CALL_##form},
const struct units_row units_rows[] = {RAW_CODE_LIST(ROW)};
const size_t units_rows_count = sizeof units_rows / sizeof *units_rows;

/* ---- segments ---- */

void units_forget_segment(struct units_lane *lane, bool key)
{
    memset(lane->remote, 0, sizeof lane->remote);
    lane->latest_remote = lane->remote;
    lane->last_address = lane->page_place = lane->page_address = 0;
    lane->next_code = lane->next_node = 0;
    if (key) memset(lane->sequences, 0, sizeof lane->sequences);
}

/* ---- objects that end ---- */

/* The object of a record f000..f0ff. Returns the flags of the code. */
static unsigned units_put_object(struct units_lane *lane, uint16_t **at,
                                 const struct units_object *object)
{
    if (object->unknown) {
        *at = units_put_place(lane, *at, object);
        return RAW_GENERAL_UNKNOWN;
    }
    if (!object->bound) {
        *at = units_put_number(*at, object->place);
        return 0;
    }
    uint32_t number = raw_allocations_lane(object->bound);
    units_remember(lane, object->bound, object->lane);
    *at = units_put_number(units_put_number(*at, number), raw_allocations_count(object->bound));
    *at = units_put_place(lane, *at, object);
    return RAW_GENERAL_REMOTE;
}

/* The first unit of the code for an object that this lane has; 0 if there is none. */
static unsigned put_own(const struct units_lane *lane, uint16_t **at, unsigned range,
                        const struct units_object *object)
{
    if (range == RAW_RANGES || object->unknown || object->bound || !object->place) return 0;
    const struct units_range_code *codes = units_range_codes[range];
    bool is_long = !lane->dialect->has_short_frees || (lane->long_frees && range == RAW_FREE_1);
    if (object->place < codes[RAW_SHORT].limit && !is_long)
        return codes[RAW_SHORT].first + object->place;
    if (object->place >= codes[RAW_LONG].limit) return 0;
    *(*at)++ = (uint16_t)object->place;
    return codes[RAW_LONG].first + (object->place >> 16);
}

/* ---- calls, but for allocations ---- */

void units_realloc(struct units_lane *lane, unsigned kind, const struct units_object *old,
                   uint64_t size, const struct units_allocation_of *allocation)
{
    uint16_t *at = units_rest_of_record(lane);
    unsigned unit = put_own(lane, &at, units_range_of(lane, kind), old);
    if (!unit) unit = RAW_UNIT_GENERAL + kind + units_put_object(lane, &at, old);
    at = units_put_number(at, size);
    if (kind == CALL_REALLOC_MOVED && allocation->taken)
        at = units_put_number(at, RAW_PLACE_NONE);
    else if (kind == CALL_REALLOC_MOVED)
        at = units_put_place(lane, at, &allocation->object);
    units_finish_event(lane, unit, units_put_address(lane, at, allocation->address), 1);
}

/* The first unit of a free that names the lane of its object by an entry; 0: it cannot. */
static inline unsigned put_remote(struct units_lane *lane, uint16_t **at,
                                  const struct units_object *object)
{
    unsigned entry = raw_allocations_lane(object->bound) % RAW_REMOTE_ENTRIES;
    uint64_t latest = units_remembered(lane, object->bound), more = object->bound - latest;
    if (!latest || object->place >= RAW_REMOTE_LIMIT) return 0;
    units_remember(lane, object->bound, object->lane);
    *(*at)++ = (uint16_t)object->place;
    if (lane->dialect->has_classes) more = more * RAW_REMOTE_CLASSES + object->size_class;
    *at = units_put_number(*at, more);
    return RAW_UNIT_REMOTE + (entry << RAW_REMOTE_ENTRY_SHIFT) + (object->place >> 16);
}

void units_free(struct units_lane *lane, unsigned kind, const struct units_object *object,
                uint64_t size, uint64_t alignment)
{
    uint16_t *at = units_rest_of_record(lane);
    unsigned shape = call_shapes[kind], range = units_range_of(lane, kind), first = 0;
    if (!object->bound)
        first = put_own(lane, &at, range, object);
    else if (range == RAW_FREE_1)
        first = put_remote(lane, &at, object);
    if (!first) first = RAW_UNIT_GENERAL + kind + units_put_object(lane, &at, object);
    if (shape_has_size(shape)) at = units_put_number(at, size);
    if (shape_has_alignment(shape)) at = units_put_number(at, alignment);
    units_finish_event(lane, first, at, lane->dialect->counts_frees);
}

void units_failed(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  const struct units_object *object)
{
    uint16_t *at = units_put_number(units_rest_of_record(lane), kind);
    unsigned flags = 0;
    if (call_shapes[kind] == SHAPE_REALLOC) flags = units_put_object(lane, &at, object);
    at = units_put_number(at, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) at = units_put_number(at, alignment);
    units_finish_event(lane, RAW_UNIT_GENERAL + RAW_FAILED + flags, at, 0);
}

void units_heap_call(struct units_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second)
{
    uint16_t *at = units_put_number(units_rest_of_record(lane), count);
    if (count > 0) at = units_put_number(at, first);
    if (count > 1) at = units_put_number(at, second);
    units_finish_event(lane, RAW_UNIT_GENERAL + kind, at, 0);
}

/* ---- threads, and what was lost ---- */

void units_thread(struct units_lane *lane, unsigned record, uint64_t thread_id)
{
    uint16_t *at = units_rest_of_record(lane);
    if (record == RAW_THREAD_BEGIN) at = units_put_number(at, thread_id);
    units_finish(lane, RAW_UNIT_GENERAL + record, at);
}

void units_lost(struct units_lane *lane, uint64_t events, uint64_t allocations)
{
    uint16_t *at =
        units_put_number(units_put_number(units_rest_of_record(lane), events), allocations);
    units_finish_record(lane, RAW_UNIT_GENERAL + RAW_LOST, at, false, allocations);
}
