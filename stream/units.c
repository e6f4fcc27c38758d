#include "units.h"

#include "../common/bytes.h"
#include "../common/call_table.h"
#include "varint.h"

#include <stddef.h>
#include <string.h>

/* Each section has what writes some part of a record (units_..., put_...) and then what reads it
 * (take_...). put_...() stores at `at` and returns the position after that, or advances `*at` and
 * returns the first unit of the record, or its flags. take_...() reads at reader->at; false: what
 * is there is wrong, and coded->wrong says how. */

/* ---- codes of the ranges, FORMAT.md 5.2 and 5.5 ---- */

#define CODE_OF_RANGE(range, form, first, limit) [RAW_##range][RAW_##form] = {first, limit},
const struct units_range_code units_range_codes[RAW_RANGES][RAW_CODE_FORMS] = {
    RAW_CODE_LIST(CODE_OF_RANGE)};

/* The same as a table by first units, which are first + least .. first + limit - 1. */
#define IS_ALLOCATION(range) (RAW_##range >= RAW_ALLOCATION_1 && RAW_##range <= RAW_ALLOCATION_3)
#define ROW(range, form, first, limit)                                    \
    {first, (uint16_t)(RAW_##form == RAW_LONG ? (limit) >> 16 : (limit)), \
     RAW_##form != RAW_LONG && !IS_ALLOCATION(range), RAW_##range,        \
     IS_ALLOCATION(range) ? UNITS_CALL_ALLOCATION : UNITS_CALL_##form},
static const struct row {
    uint16_t first, limit;
    uint8_t least, range, form; /* enum units_call_form */
} rows[] = {RAW_CODE_LIST(ROW)};

#define ROWS (sizeof rows / sizeof *rows)

/* Whether the allocator is opaque: each allocation names its place, and frees are counted. */
static inline bool is_opaque(uint32_t features)
{
    return features & RAW_FEATURE_OPAQUE;
}

/* Whether the stream uses the row. In an opaque stream the units of short frees mean something
 * else. */
static bool row_is_used(const struct row *row, uint32_t features, bool packed)
{
    if (row->form == UNITS_CALL_BY_AGE) return packed;
    return row->form != UNITS_CALL_SHORT || !(features & RAW_FEATURE_OPAQUE);
}

/* The range of a kind; RAW_RANGES: it has none. */
static unsigned range_of(const struct units_lane *lane, unsigned kind)
{
    unsigned range = 0;
    while (range < RAW_RANGES && lane->profile[range] != kind)
        range++;
    return range;
}

/* ---- segments ---- */

void units_forget_segment(struct units_lane *lane, bool key)
{
    memset(lane->remote, 0, sizeof lane->remote);
    lane->latest_remote = lane->remote;
    lane->last_address = lane->page_place = lane->page_address = 0;
    lane->next_code = lane->next_node = 0;
    if (key) memset(lane->sequences, 0, sizeof lane->sequences);
}

/* ---- units of a record ---- */

/* Where all units of the next record but its first go. */
static uint16_t *rest_of_record(const struct units_lane *lane)
{
    return units_cursor(lane) + 1;
}

/* Completes the record whose first unit is `first` and whose other units lie between the cursor and
 * `end`. `begins`: how many objects begin; of an opaque allocator calls. */
static void finish_record(struct units_lane *lane, unsigned first, const uint16_t *end,
                          bool is_event, uint64_t begins)
{
    uint16_t *cursor = units_cursor(lane);
    atomic_add_own_relaxed(&lane->extra_units, (uint64_t)(end - cursor) - is_event);
    atomic_store_release(cursor, (uint16_t)first);
    atomic_store_release(&lane->head, units_head(end, lane->head + begins));
}

static void finish_event(struct units_lane *lane, unsigned first, const uint16_t *end,
                         unsigned begins)
{
    finish_record(lane, first, end, true, begins);
}

static void finish(struct units_lane *lane, unsigned first, const uint16_t *end)
{
    finish_record(lane, first, end, false, 0);
}

static bool fail(struct units_record *coded, enum raw_error wrong, uint64_t value)
{
    coded->wrong = wrong;
    coded->wrong_value = value;
    return false;
}

static unsigned take_unit(struct units_reader *reader)
{
    if (reader->at == reader->end) {
        reader->is_cut = true;
        return 0;
    }
    unsigned unit = bytes_get16(reader->at);
    reader->at += 2;
    return unit;
}

static void begin_record(struct units_record *coded, unsigned number)
{
    coded->number = coded->kind = (uint8_t)number;
    coded->shape = call_shapes[number];
}

/* ---- numbers ---- */

static uint16_t *put_number(uint16_t *at, uint64_t value)
{
    while (value >= RAW_NUMBER_MORE) {
        *at++ = (uint16_t)(RAW_NUMBER_MORE | value);
        value >>= RAW_NUMBER_BITS;
    }
    *at++ = (uint16_t)value;
    return at;
}

static uint64_t take_number(struct units_reader *reader)
{
    uint64_t value = 0, unit = RAW_NUMBER_MORE;
    for (unsigned i = 0; unit >= RAW_NUMBER_MORE; i++) {
        if (i == RAW_NUMBER_UNITS_MAX) {
            reader->too_large = true;
            return value;
        }
        unit = take_unit(reader);
        uint64_t part = unit & (RAW_NUMBER_MORE - 1);
        value |= part << i * RAW_NUMBER_BITS;
        if (part << i * RAW_NUMBER_BITS >> i * RAW_NUMBER_BITS != part) reader->too_large = true;
    }
    return value;
}

/* ---- places and size classes ---- */

static uint16_t *put_place(const struct units_lane *lane, uint16_t *at, uint32_t place,
                           uint32_t size_class)
{
    at = put_number(at, place);
    return is_opaque(lane->features) ? at : put_number(at, size_class);
}

/* The place of a new object: RAW_PLACE_NONE for one that was the first of its class in the
 * cache. */
static uint16_t *put_new_place(const struct units_lane *lane, uint16_t *at,
                               const struct units_object *object, bool taken)
{
    if (taken) return put_number(at, RAW_PLACE_NONE);
    return put_place(lane, at, object->place, object->size_class);
}

/* An opaque allocator has no classes. */
static bool take_class(struct units_reader *reader, struct units_record *coded,
                       uint32_t *size_class)
{
    if (is_opaque(reader->features)) return true;
    uint64_t number = take_number(reader);
    *size_class = (uint32_t)number;
    return number < RAW_SIZE_CLASSES_MAX || fail(coded, RAW_SIZE_CLASS, number);
}

static bool take_place(struct units_reader *reader, struct units_record *coded, uint32_t *place)
{
    uint64_t number = take_number(reader);
    *place = (uint32_t)number;
    return number < RAW_PLACE_LIMIT || fail(coded, RAW_PLACE, number);
}

/* A place that must not be 0, and its class. */
static bool take_place_and_class(struct units_reader *reader, struct units_record *coded)
{
    if (!take_place(reader, coded, &coded->ends) || !take_class(reader, coded, &coded->ends_class))
        return false;
    return coded->ends != RAW_PLACE_NONE || fail(coded, RAW_PLACE, RAW_PLACE_NONE);
}

/* ---- addresses, FORMAT.md 5.4 ---- */

static uint16_t *put_address(struct units_lane *lane, uint16_t *at, const void *object)
{
    if (!(lane->features & RAW_FEATURE_ADDRESSES)) return at;
    uint64_t address = (uint64_t)(uintptr_t)object / 8;
    at = put_number(at, zigzag((int64_t)(address - lane->last_address)));
    lane->last_address = address;
    return at;
}

static void take_address(struct units_reader *reader, struct units_record *coded)
{
    if (reader->features & RAW_FEATURE_ADDRESSES) coded->address = take_number(reader);
}

/* ---- the other lanes that a segment remembers, FORMAT.md 5.2, "Remote" ---- */

/* `bound` is not 0. */
static void remember(struct units_lane *lane, uint64_t bound, const struct units_lane *other)
{
    uint32_t number = raw_allocations_lane(bound), entry = number % RAW_REMOTE_ENTRIES;
    lane->remote[entry] = (struct units_remote){
        .bound = bound,
        .waited = bound,
        .lane = lane->frees_have_stacks ? NULL : other,
        .owner = (uint16_t)(number + 1),
        .unit = (uint16_t)(RAW_UNIT_REMOTE + (entry << RAW_REMOTE_ENTRY_SHIFT))};
}

/* The bound that the segment remembers of the same lane; 0: none that is of use. */
static uint64_t remembered(const struct units_lane *lane, uint64_t bound)
{
    uint64_t latest = lane->remote[raw_allocations_lane(bound) % RAW_REMOTE_ENTRIES].bound;
    bool same = raw_allocations_lane(latest) == raw_allocations_lane(bound);
    return same && latest <= bound ? latest : 0;
}

/* ---- the object of a record f000..f0ff ---- */

/* Returns the flags of the code. */
static unsigned put_object(struct units_lane *lane, uint16_t **at,
                           const struct units_object *object)
{
    if (object->unknown) {
        *at = put_place(lane, *at, object->place, object->size_class);
        return RAW_GENERAL_UNKNOWN;
    }
    if (!object->bound) {
        *at = put_number(*at, object->place);
        return 0;
    }
    uint32_t number = raw_allocations_lane(object->bound);
    remember(lane, object->bound, object->lane);
    *at = put_number(put_number(*at, number), raw_allocations_count(object->bound));
    *at = put_place(lane, *at, object->place, object->size_class);
    return RAW_GENERAL_REMOTE;
}

static bool take_object(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    switch (unit & (RAW_GENERAL_REMOTE | RAW_GENERAL_UNKNOWN)) {
    case 0:
        coded->object_form = UNITS_OBJECT_OWN;
        if (!take_place(reader, coded, &coded->ends)) return false;
        return coded->ends != RAW_PLACE_NONE || fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    case RAW_GENERAL_REMOTE:
        coded->object_form = UNITS_OBJECT_REMOTE;
        coded->lane = take_number(reader);
        coded->bound = take_number(reader);
        return take_place_and_class(reader, coded);
    case RAW_GENERAL_UNKNOWN:
        coded->object_form = UNITS_OBJECT_UNKNOWN;
        if (!take_place(reader, coded, &coded->ends) ||
            !take_class(reader, coded, &coded->ends_class))
            return false;
        return coded->ends != RAW_PLACE_NONE || coded->ends_class == 0 ||
               fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    default: return fail(coded, RAW_UNIT_FLAG, unit);
    }
}

static bool has_no_object(unsigned unit, struct units_record *coded)
{
    return (unit & (RAW_GENERAL_REMOTE | RAW_GENERAL_UNKNOWN)) == 0 ||
           fail(coded, RAW_UNIT_FLAG, unit);
}

/* ---- objects that the lane has ---- */

/* The first unit of the code for an object that this lane has; 0 if there is none. */
static unsigned put_own(struct units_lane *lane, uint16_t **at, unsigned range,
                        const struct units_object *object)
{
    if (range == RAW_RANGES || object->unknown || object->bound || !object->place) return 0;
    const struct units_range_code *codes = units_range_codes[range];
    bool is_long = is_opaque(lane->features) || (lane->long_frees && range == RAW_FREE_1);
    if (object->place < codes[RAW_SHORT].limit && !is_long)
        return codes[RAW_SHORT].first + object->place;
    if (object->place >= codes[RAW_LONG].limit) return 0;
    *(*at)++ = (uint16_t)object->place;
    return codes[RAW_LONG].first + (object->place >> 16);
}

/* ---- allocations, FORMAT.md 5.2 and 5.6 ---- */

void units_allocation(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                      const struct units_allocation_of *allocation)
{
    if (units_usual_allocation(lane, kind, size, allocation->object.place, allocation->taken))
        return;
    static const struct units_range_code none = {RAW_UNIT_GENERAL, 0};
    unsigned range = range_of(lane, kind);
    uint16_t *at = rest_of_record(lane);
    uint32_t place = allocation->object.place;
    bool opaque = is_opaque(lane->features);
    bool may_be_short = (allocation->taken || opaque) && range < RAW_RANGES;
    const struct units_range_code *code =
        may_be_short ? &units_range_codes[range][RAW_SHORT] : &none;
    bool is_short = size < code->limit;
    unsigned unit = is_short ? code->first + (unsigned)size : RAW_UNIT_GENERAL + kind;
    bool compact = opaque && is_short && units_can_compact(code->first, size, place);
    if (compact) {
        uint32_t both = units_compact(size, place);
        unit = (uint16_t)both;
        *at++ = (uint16_t)(both >> 16);
    }
    if (!is_short) at = put_number(at, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) at = put_number(at, alignment);
    if (compact) {
        /* The place has been put. */
    } else if (!is_short) {
        at = put_new_place(lane, at, &allocation->object, allocation->taken);
    } else if (opaque) {
        *at++ = (uint16_t)place;
        *at++ = (uint16_t)(place >> 16);
    }
    finish_event(lane, unit, put_address(lane, at, allocation->address), 1);
}

/* What follows the object, or the size of an allocation. `says_place`: the place of an object that
 * begins follows as well. */
static bool take_rest(struct units_reader *reader, bool says_place, struct units_record *coded)
{
    unsigned shape = coded->shape;
    if (shape_ends(shape) && shape_has_size(shape)) coded->size = take_number(reader);
    if (shape_has_alignment(shape)) coded->operand = take_number(reader);
    coded->begins = shape_begins(shape);
    if (!coded->begins) return true;
    if (says_place && coded->number != CALL_REALLOC_IN_PLACE) {
        if (!take_place(reader, coded, &coded->place)) return false;
        if (is_opaque(reader->features) && coded->place == RAW_PLACE_NONE)
            return fail(coded, RAW_PLACE, RAW_PLACE_NONE);
        if (coded->place != RAW_PLACE_NONE && !take_class(reader, coded, &coded->place_class))
            return false;
    }
    take_address(reader, coded);
    return true;
}

/* The place of an allocation by its row, in an opaque stream. In a packed chunk units before it
 * have named the place, or it is the first of its list. */
static bool take_place_of_row(struct units_reader *reader, struct units_record *coded)
{
    if (reader->packed) {
        if (coded->place_form == UNITS_PLACE_ITSELF) coded->place_form = UNITS_PLACE_LISTED;
        return true;
    }
    coded->place = take_unit(reader);
    coded->place |= (uint32_t)take_unit(reader) << 16;
    return coded->place != RAW_PLACE_NONE || fail(coded, RAW_PLACE, RAW_PLACE_NONE);
}

/* 0001..9fff, except in a packed chunk: allocation 1. */
static bool take_compact(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    struct units_size_place both = units_uncompact(unit, take_unit(reader));
    if (reader->profile[RAW_ALLOCATION_1] == 0) return fail(coded, RAW_UNIT, unit);
    begin_record(coded, reader->profile[RAW_ALLOCATION_1]);
    coded->range = RAW_ALLOCATION_1;
    coded->begins = true;
    coded->size = both.size;
    coded->place = both.place;
    if (both.place == RAW_PLACE_NONE) return fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    if (shape_has_alignment(coded->shape)) coded->operand = take_number(reader);
    take_address(reader, coded);
    return true;
}

/* ---- reallocs and frees ---- */

void units_realloc(struct units_lane *lane, unsigned kind, const struct units_object *old,
                   uint64_t size, const struct units_allocation_of *allocation)
{
    uint16_t *at = rest_of_record(lane);
    unsigned unit = put_own(lane, &at, range_of(lane, kind), old);
    if (!unit) unit = RAW_UNIT_GENERAL + kind + put_object(lane, &at, old);
    at = put_number(at, size);
    if (kind == CALL_REALLOC_MOVED)
        at = put_new_place(lane, at, &allocation->object, allocation->taken);
    finish_event(lane, unit, put_address(lane, at, allocation->address), 1);
}

/* The first unit of a free that names the lane of its object by an entry; 0: it cannot. */
static inline unsigned put_remote(struct units_lane *lane, uint16_t **at,
                                  const struct units_object *object)
{
    unsigned entry = raw_allocations_lane(object->bound) % RAW_REMOTE_ENTRIES;
    uint64_t latest = remembered(lane, object->bound), more = object->bound - latest;
    if (!latest || object->place >= RAW_REMOTE_LIMIT) return 0;
    remember(lane, object->bound, object->lane);
    *(*at)++ = (uint16_t)object->place;
    if (!is_opaque(lane->features)) more = more * RAW_REMOTE_CLASSES + object->size_class;
    *at = put_number(*at, more);
    return RAW_UNIT_REMOTE + (entry << RAW_REMOTE_ENTRY_SHIFT) + (object->place >> 16);
}

void units_free(struct units_lane *lane, unsigned kind, const struct units_object *object,
                uint64_t size, uint64_t alignment)
{
    uint16_t *at = rest_of_record(lane);
    unsigned shape = call_shapes[kind], range = range_of(lane, kind), first = 0;
    if (!object->bound)
        first = put_own(lane, &at, range, object);
    else if (range == RAW_FREE_1)
        first = put_remote(lane, &at, object);
    if (!first) first = RAW_UNIT_GENERAL + kind + put_object(lane, &at, object);
    if (shape_has_size(shape)) at = put_number(at, size);
    if (shape_has_alignment(shape)) at = put_number(at, alignment);
    finish_event(lane, first, at, is_opaque(lane->features));
}

/* ec00..efff */
static bool take_by_entry(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    coded->object_form = UNITS_OBJECT_BY_ENTRY;
    coded->lane = unit >> RAW_REMOTE_ENTRY_SHIFT & (RAW_REMOTE_ENTRIES - 1);
    coded->ends = (unit & RAW_REMOTE_HIGH) << 16 | take_unit(reader);
    uint64_t more = take_number(reader),
             classes = is_opaque(reader->features) ? 1 : RAW_REMOTE_CLASSES;
    coded->bound = more / classes;
    coded->ends_class = more % classes;
    if (reader->profile[RAW_FREE_1] == 0) return fail(coded, RAW_UNIT, unit);
    begin_record(coded, reader->profile[RAW_FREE_1]);
    if (coded->ends == RAW_PLACE_NONE) return fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    return take_rest(reader, false, coded);
}

static bool take_by_row(struct units_reader *reader, const struct row *row, unsigned unit,
                        struct units_record *coded)
{
    uint32_t operand = unit - row->first;
    if (row->form == UNITS_CALL_LONG) operand = operand << 16 | take_unit(reader);
    coded->range = row->range;
    if (reader->profile[row->range] == 0) return fail(coded, RAW_UNIT, unit);
    begin_record(coded, reader->profile[row->range]);
    if (row->form == UNITS_CALL_ALLOCATION) {
        coded->size = operand;
        if (!is_opaque(reader->features)) return take_rest(reader, false, coded);
        if (shape_has_alignment(coded->shape)) coded->operand = take_number(reader);
        coded->begins = true;
        if (!take_place_of_row(reader, coded)) return false;
        take_address(reader, coded);
        return true;
    }
    coded->object_form = row->form == UNITS_CALL_BY_AGE ? UNITS_OBJECT_BY_AGE : UNITS_OBJECT_OWN;
    coded->object_units = row->form == UNITS_CALL_LONG ? 2 : 1;
    coded->ends = operand;
    if (operand == RAW_PLACE_NONE) return fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    return take_rest(reader, true, coded);
}

/* ---- other calls ---- */

void units_heap_call(struct units_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second)
{
    uint16_t *at = put_number(rest_of_record(lane), count);
    if (count > 0) at = put_number(at, first);
    if (count > 1) at = put_number(at, second);
    finish_event(lane, RAW_UNIT_GENERAL + kind, at, 0);
}

static bool take_heap(struct units_reader *reader, struct units_record *coded)
{
    uint64_t count = take_number(reader);
    if (count > RAW_HEAP_NUMBERS_MAX) return fail(coded, RAW_OPERAND, count);
    coded->count = (uint32_t)count;
    if (count > 0) coded->size = take_number(reader);
    if (count > 1) coded->operand = take_number(reader);
    return true;
}

static bool take_call(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (shape_ends(coded->shape))
        return take_object(reader, unit, coded) && take_rest(reader, true, coded);
    if (!has_no_object(unit, coded)) return false;
    if (coded->shape == SHAPE_HEAP) return take_heap(reader, coded);
    coded->size = take_number(reader);
    return take_rest(reader, true, coded);
}

void units_failed(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  const struct units_object *object)
{
    uint16_t *at = put_number(rest_of_record(lane), kind);
    unsigned flags = 0;
    if (call_shapes[kind] == SHAPE_REALLOC) flags = put_object(lane, &at, object);
    at = put_number(at, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) at = put_number(at, alignment);
    finish_event(lane, RAW_UNIT_GENERAL + RAW_FAILED + flags, at, 0);
}

static bool take_failed(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    uint64_t kind = take_number(reader);
    unsigned shape = kind < CALL_TABLE_SIZE ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_allocation(shape) && shape != SHAPE_REALLOC)
        return fail(coded, RAW_OPERAND, kind);
    coded->kind = (uint8_t)kind;
    if (shape == SHAPE_REALLOC ? !take_object(reader, unit, coded) : !has_no_object(unit, coded))
        return false;
    coded->size = take_number(reader);
    if (shape == SHAPE_ALLOCATION_ALIGNED) coded->operand = take_number(reader);
    return true;
}

/* ---- threads, and what was lost ---- */

void units_thread(struct units_lane *lane, unsigned record, uint64_t thread_id)
{
    uint16_t *at = rest_of_record(lane);
    if (record == RAW_THREAD_BEGIN) at = put_number(at, thread_id);
    finish(lane, RAW_UNIT_GENERAL + record, at);
}

static void take_thread(struct units_reader *reader, struct units_record *coded)
{
    if (coded->number == RAW_THREAD_BEGIN) coded->operand = take_number(reader);
}

void units_lost(struct units_lane *lane, uint64_t events, uint64_t allocations)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), events), allocations);
    finish_record(lane, RAW_UNIT_GENERAL + RAW_LOST, at, false, allocations);
}

static void take_lost(struct units_reader *reader, struct units_record *coded)
{
    coded->size = take_number(reader);
    coded->operand = take_number(reader);
}

/* ---- sequence numbers, FORMAT.md 5.3 ---- */

void units_sequence(struct units_lane *lane, unsigned structure, uint64_t number)
{
    unsigned entry = structure == RAW_STRUCTURE_PAGE_HEAP ? RAW_SIZE_CLASSES_MAX : structure;
    unsigned first = lane->allocating ? RAW_UNIT_SEQUENCE_BEFORE : RAW_UNIT_SEQUENCE_AFTER;
    uint16_t *at = put_number(rest_of_record(lane), number - lane->sequences[entry]);
    lane->sequences[entry] = number;
    finish(lane, first + structure, at);
}

static bool is_structure(uint64_t number)
{
    return number < RAW_SIZE_CLASSES_MAX || number == RAW_STRUCTURE_PAGE_HEAP;
}

static bool take_sequence_number(struct units_reader *reader, unsigned number, unsigned structure,
                                 struct units_record *coded)
{
    begin_record(coded, number);
    coded->structure = structure;
    coded->size = take_number(reader);
    return is_structure(structure) || fail(coded, RAW_STRUCTURE, structure);
}

/* ---- caches, FORMAT.md 2.6 ---- */

void units_class(struct units_lane *lane, unsigned size_class, uint64_t bytes)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), size_class), bytes);
    lane->announced[size_class / 64] |= UINT64_C(1) << size_class % 64;
    finish(lane, RAW_UNIT_GENERAL + RAW_CLASS, at);
}

void units_uncached(struct units_lane *lane, unsigned size_class, unsigned count)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), size_class), count);
    finish(lane, RAW_UNIT_GENERAL + RAW_UNCACHED, at);
}

void units_cached(struct units_lane *lane, unsigned size_class, unsigned count,
                  const uint32_t *places)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), size_class), count);
    at = put_number(at, places[0]);
    for (unsigned i = 1; i < count; i++)
        at = put_number(at, zigzag((int64_t)places[i] - places[i - 1]));
    finish(lane, RAW_UNIT_GENERAL + RAW_CACHED, at);
}

static bool take_cached(struct units_reader *reader, struct units_record *coded)
{
    uint64_t count = take_number(reader), place = 0;
    if (count == 0 || count > RAW_CACHED_MAX) return fail(coded, RAW_OPERAND, count);
    for (; coded->count < count; coded->count++) {
        uint64_t number = take_number(reader);
        place += coded->count == 0 ? number : (uint64_t)unzigzag(number);
        if (place == RAW_PLACE_NONE || place >= RAW_PLACE_LIMIT)
            return fail(coded, RAW_PLACE, place);
        coded->cached[coded->count] = (uint32_t)place;
    }
    return true;
}

/* class, cached, uncached: of any class but 0, whose objects are in no cache. */
static bool take_of_class(struct units_reader *reader, struct units_record *coded)
{
    if (!take_class(reader, coded, &coded->structure)) return false;
    if (coded->structure == 0) return fail(coded, RAW_SIZE_CLASS, 0);
    if (coded->number == RAW_CACHED) return take_cached(reader, coded);
    uint64_t number = take_number(reader);
    if (coded->number == RAW_CLASS)
        coded->size = number;
    else
        coded->operand = number;
    if (number == 0 || (coded->number == RAW_CLASS && number > UINT32_MAX))
        return fail(coded, RAW_OPERAND, number);
    return true;
}

/* ---- what happens inside a call, FORMAT.md 3 ---- */

void units_inside(struct units_lane *lane, unsigned what, uint64_t amount)
{
    uint16_t *at = put_number(rest_of_record(lane), 2 * what + !lane->allocating);
    finish(lane, RAW_UNIT_GENERAL + RAW_INSIDE, put_number(at, amount));
}

static bool take_inside(struct units_reader *reader, struct units_record *coded)
{
    uint64_t number = take_number(reader), what = number / 2;
    coded->structure = (uint32_t)what;
    coded->operand = number % 2;
    coded->size = take_number(reader);
    return is_structure(what) || (what >= RAW_INSIDE_SBRK && what <= RAW_INSIDE_MERGE) ||
           fail(coded, RAW_OPERAND, number);
}

/* ---- call stacks, FORMAT.md 5.8 ---- */

void units_stack(struct units_lane *lane, uint32_t node)
{
    uint16_t *at = rest_of_record(lane);
    if (node >= RAW_STACK_LIMIT)
        return finish(lane, RAW_UNIT_GENERAL + RAW_STACK, put_number(at, node));
    *at++ = (uint16_t)node;
    finish(lane, RAW_UNIT_STACK + (node >> 16), at);
}

static bool has_stacks(const struct units_reader *reader)
{
    return reader->features & RAW_FEATURE_STACKS;
}

/* The node is in `size`. */
static bool check_stack(struct units_record *coded)
{
    return (coded->size != STACK_END && coded->size < STACK_NUMBERS_LIMIT) ||
           fail(coded, RAW_OPERAND, coded->size);
}

/* f300..f3ff */
static bool take_stack(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (!has_stacks(reader)) return fail(coded, RAW_UNIT, unit);
    begin_record(coded, RAW_STACK);
    coded->size = (unit - RAW_UNIT_STACK) << 16 | take_unit(reader);
    return check_stack(coded);
}

/* A number that is less than 2^32. */
static uint32_t take_short_number(struct units_reader *reader)
{
    uint64_t number = take_number(reader);
    if (number > UINT32_MAX) reader->too_large = true;
    return (uint32_t)number;
}

/* The first of some numbers, as a difference to the one after the latest. */
static uint16_t *put_first(uint16_t *at, uint32_t *next, const struct stack_definition *definition)
{
    at = put_number(at, zigzag((int64_t)definition->number - *next));
    *next = definition->number + definition->count;
    return at;
}

static uint16_t *put_module(uint16_t *at, const struct stack_definition *module)
{
    at = put_number(put_number(at, module->number), module->start);
    at = put_number(at, module->end - module->start);
    return put_number(at, zigzag((int64_t)(module->start - module->bias)));
}

static bool take_module(struct units_reader *reader, struct stack_definition *module)
{
    module->number = take_short_number(reader);
    if (module->what == STACK_UNLOADED) return true;
    module->start = take_number(reader);
    module->end = module->start + take_number(reader);
    module->bias = module->start - (uint64_t)unzigzag(take_number(reader));
    return true;
}

static uint16_t *put_piece(uint16_t *at, const struct stack_definition *text)
{
    const uint32_t bytes = stack_piece_bytes(text);
    at = put_number(put_number(put_number(at, text->number), text->length), text->offset);
    for (uint32_t i = 0; i < bytes; i += 2) {
        unsigned upper = i + 1 < bytes ? text->piece[i + 1] : 0;
        *at++ = (uint16_t)(text->piece[i] | upper << 8);
    }
    return at;
}

static bool take_piece(struct units_reader *reader, struct stack_definition *text)
{
    text->number = take_short_number(reader);
    text->length = take_short_number(reader);
    text->offset = take_short_number(reader);
    if (text->offset >= text->length) return false;
    const uint32_t bytes = stack_piece_bytes(text);
    for (uint32_t i = 0; i < bytes; i += 2) {
        const unsigned both = take_unit(reader);
        text->piece[i] = (uint8_t)both;
        if (i + 1 < bytes)
            text->piece[i + 1] = (uint8_t)(both >> 8);
        else if (both >> 8 != 0)
            return false;
    }
    return true;
}

static uint16_t *put_codes(struct units_lane *lane, uint16_t *at,
                           const struct stack_definition *definition)
{
    uint64_t before = 0;
    at = put_number(put_first(at, &lane->next_code, definition), definition->of);
    for (uint32_t i = 0; i < definition->count; i++) {
        at = put_number(at, zigzag((int64_t)(definition->offsets[i] - before)));
        before = definition->offsets[i];
    }
    return at;
}

static bool take_codes(struct units_reader *reader, struct units_record *coded)
{
    uint64_t offset = 0;
    if (coded->definition.count > STACK_CODES_MAX) return false;
    coded->operand = take_number(reader);
    coded->definition.of = take_short_number(reader);
    for (uint32_t i = 0; i < coded->definition.count; i++)
        coded->definition.offsets[i] = offset += (uint64_t)unzigzag(take_number(reader));
    return true;
}

static uint16_t *put_nodes(struct units_lane *lane, uint16_t *at,
                           const struct stack_definition *definition)
{
    at = put_first(at, &lane->next_node, definition);
    at = put_number(at, definition->number - definition->of);
    for (uint32_t i = 0; i < definition->count; i++)
        at = put_number(at, definition->codes[i]);
    return at;
}

static bool take_nodes(struct units_reader *reader, struct units_record *coded)
{
    if (coded->definition.count > STACK_NODES_MAX) return false;
    coded->operand = take_number(reader);
    coded->size = take_number(reader);
    for (uint32_t i = 0; i < coded->definition.count; i++)
        coded->definition.codes[i] = take_short_number(reader);
    return true;
}

void units_define(struct units_lane *lane, const struct stack_definition *definition)
{
    uint16_t *at = put_number(rest_of_record(lane), stack_definition_head(definition));
    switch (definition->what) {
    case STACK_MODULE: at = put_module(at, definition); break;
    case STACK_TEXT: at = put_piece(at, definition); break;
    case STACK_CODES: at = put_codes(lane, at, definition); break;
    case STACK_NODES: at = put_nodes(lane, at, definition); break;
    default: at = put_number(at, definition->number);
    }
    finish(lane, RAW_UNIT_GENERAL + RAW_DEFINE, at);
}

/* The decoder checks whether the rest of the definition is within its limits. */
static bool take_define(struct units_reader *reader, struct units_record *coded)
{
    struct stack_definition *definition = &coded->definition;
    const uint64_t number = take_number(reader), more = number >> STACK_WHAT_BITS;
    bool good = more <= UINT32_MAX;
    definition->what = number & STACK_WHAT_MASK;
    definition->of = definition->count = 0;
    switch (definition->what) {
    case STACK_MODULE:
    case STACK_UNLOADED: good = more == 0 && take_module(reader, definition); break;
    case STACK_TEXT:
        definition->of = (uint32_t)more;
        good = good && take_piece(reader, definition);
        break;
    case STACK_CODES:
        definition->count = (uint32_t)more;
        good = good && take_codes(reader, coded);
        break;
    case STACK_NODES:
        definition->count = (uint32_t)more;
        good = good && take_nodes(reader, coded);
        break;
    default: good = false;
    }
    return good || fail(coded, RAW_OPERAND, number);
}

/* ---- opaque allocators, FORMAT.md 5.6 ---- */

void units_page(struct units_lane *lane, uint32_t first, uintptr_t address)
{
    uint64_t eighths = address / 8;
    uint16_t *at = put_number(rest_of_record(lane), zigzag((int64_t)(first - lane->page_place)));
    at = put_number(at, zigzag((int64_t)(eighths - lane->page_address)));
    lane->page_place = first;
    lane->page_address = eighths;
    finish(lane, RAW_UNIT_GENERAL + RAW_PAGE, at);
}

static void take_page(struct units_reader *reader, struct units_record *coded)
{
    coded->operand = take_number(reader);
    coded->address = take_number(reader);
}

bool units_after(struct units_lane *lane, uint64_t bound, bool is_realloc)
{
    unsigned entry = raw_allocations_lane(bound) % RAW_REMOTE_ENTRIES;
    uint64_t latest = remembered(lane, bound);
    uint16_t *at = rest_of_record(lane);
    if (latest && lane->remote[entry].waited == bound) return false;
    remember(lane, bound, NULL);
    /* The lane may not have to wait for all of that (FORMAT.md 6). */
    if (is_realloc) lane->remote[entry].waited = 0;
    if (latest)
        at = put_number(at, bound - latest);
    else
        at = put_number(put_number(at, raw_allocations_lane(bound)), raw_allocations_count(bound));
    finish(lane,
           (latest ? RAW_UNIT_AFTER + entry : RAW_UNIT_AFTER_LANE) +
               (is_realloc ? RAW_UNIT_AFTER_REALLOC : 0),
           at);
    return true;
}

/* f100..f108, f110..f118: whom the lane comes after. */
static bool take_after(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    unsigned entry = (unit & ~RAW_UNIT_AFTER_REALLOC) - RAW_UNIT_AFTER;
    begin_record(coded, RAW_AFTER);
    coded->operand = (unit & RAW_UNIT_AFTER_REALLOC) != 0;
    coded->object_form = entry < RAW_REMOTE_ENTRIES ? UNITS_OBJECT_BY_ENTRY : UNITS_OBJECT_REMOTE;
    coded->lane = entry < RAW_REMOTE_ENTRIES ? entry : take_number(reader);
    coded->bound = take_number(reader);
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
        coded->place_code = take_number(reader);
    return take_unit(reader);
}

/* ---- any record ---- */

/* Whether such a stream may have this record, which is no call. */
static bool is_of_stream(uint32_t features, unsigned number)
{
    bool opaque = is_opaque(features);
    switch (number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_END:
    case RAW_LOST: return true;
    case RAW_PAGE: return opaque;
    case RAW_STACK:
    case RAW_DEFINE: return features & RAW_FEATURE_STACKS;
    default: return !opaque;
    }
}

static bool take_other(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (coded->number == RAW_FAILED) return take_failed(reader, unit, coded);
    if (!has_no_object(unit, coded)) return false;
    if (!is_of_stream(reader->features, coded->number)) return fail(coded, RAW_NUMBER, unit);
    switch (coded->number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_END:
    case RAW_THREAD_CACHE_DELETED:
    case RAW_CACHE_BEGIN: take_thread(reader, coded); return true;
    case RAW_LOST: take_lost(reader, coded); return true;
    case RAW_CLASS:
    case RAW_CACHED:
    case RAW_UNCACHED: return take_of_class(reader, coded);
    case RAW_INSIDE: return take_inside(reader, coded);
    case RAW_PAGE: take_page(reader, coded); return true;
    case RAW_STACK: coded->size = take_number(reader); return check_stack(coded);
    case RAW_DEFINE: return take_define(reader, coded);
    default: return fail(coded, RAW_NUMBER, unit);
    }
}

/* f000..f3ff; in an opaque stream f000..f0ff, f300..f3ff */
static bool take_general(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (unit >= RAW_UNIT_STACK) return take_stack(reader, unit, coded);
    if (is_opaque(reader->features) && unit >= RAW_UNIT_SEQUENCE_BEFORE)
        return fail(coded, RAW_UNIT, unit);
    if (unit >= RAW_UNIT_SEQUENCE_AFTER)
        return take_sequence_number(reader, RAW_SEQUENCE_AFTER, unit - RAW_UNIT_SEQUENCE_AFTER,
                                    coded);
    if (unit >= RAW_UNIT_SEQUENCE_BEFORE)
        return take_sequence_number(reader, RAW_SEQUENCE_BEFORE, unit - RAW_UNIT_SEQUENCE_BEFORE,
                                    coded);
    begin_record(coded, unit & RAW_GENERAL_NUMBER);
    return coded->shape != SHAPE_UNDEFINED ? take_call(reader, unit, coded)
                                           : take_other(reader, unit, coded);
}

static bool take_record(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (unit >= RAW_UNIT_GENERAL && unit < RAW_UNIT_UNDEFINED)
        return take_general(reader, unit, coded);
    if (unit >= RAW_UNIT_REMOTE && unit < RAW_UNIT_GENERAL)
        return take_by_entry(reader, unit, coded);
    for (size_t i = 0; i < ROWS; i++) {
        uint32_t operand = unit - rows[i].first;
        if (operand >= rows[i].least && operand < rows[i].limit &&
            row_is_used(&rows[i], reader->features, reader->packed))
            return take_by_row(reader, &rows[i], unit, coded);
    }
    return fail(coded, RAW_UNIT, unit);
}

static bool take_opaque(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (unit >= RAW_UNIT_AFTER && (unit & ~RAW_UNIT_AFTER_REALLOC) < RAW_UNIT_AFTER_END)
        return take_after(reader, unit, coded);
    unsigned own = reader->packed ? take_place_before(reader, unit, coded) : unit;
    bool says_place = own != unit;
    if (own >= RAW_COMPACT_FIRST && own < RAW_COMPACT_END && !reader->packed)
        return take_compact(reader, own, coded);
    if (!take_record(reader, own, coded)) return false;
    if (says_place &&
        (call_shapes[coded->number] > SHAPE_ALLOCATION_ALIGNED || coded->range == RAW_RANGES))
        return fail(coded, RAW_UNIT, own);
    return true;
}

bool units_read(struct units_reader *reader, struct units_record *coded)
{
    memset(coded, 0, offsetof(struct units_record, cached));
    coded->range = RAW_RANGES;
    reader->is_cut = reader->too_large = false;
    unsigned unit = take_unit(reader);
    bool good = is_opaque(reader->features) ? take_opaque(reader, unit, coded)
                                            : take_record(reader, unit, coded);
    /* If units are missing, whatever else seems wrong does not matter. */
    if (reader->is_cut) return fail(coded, RAW_UNITS_SHORT, 0);
    if (good && reader->too_large) return fail(coded, RAW_OPERAND, UINT64_MAX);
    return good;
}

const uint16_t *units_next(const uint8_t *profile, uint32_t features, const uint16_t *at,
                           const uint16_t *end, struct units_record *coded)
{
    struct units_reader reader = {.at = (const uint8_t *)at,
                                  .end = (const uint8_t *)end,
                                  .profile = profile,
                                  .features = features};
    return units_read(&reader, coded) ? at + (reader.at - (const uint8_t *)at) / 2 : NULL;
}

/* ---- many records ---- */

static void fill_row(struct units_call calls[UNITS_CALLS], const struct row *row, unsigned kind,
                     unsigned units)
{
    unsigned shape = call_shapes[kind], end = row->first + row->limit;
    bool is_allocation = row->form == UNITS_CALL_ALLOCATION;
    if (is_allocation ? shape != SHAPE_ALLOCATION
                      : shape != SHAPE_FREE && shape != SHAPE_FREE_SIZED)
        return;
    /* Rows that do not end where the upper bits change are not worth it. */
    if (end % (1u << UNITS_CALL_SHIFT) != 0) return;
    for (unsigned i = (row->first + row->least) >> UNITS_CALL_SHIFT; i < end >> UNITS_CALL_SHIFT;
         i++)
        calls[i] = (struct units_call){.form = row->form,
                                       .kind = (uint8_t)kind,
                                       .range = row->range,
                                       .is_sized = shape == SHAPE_FREE_SIZED,
                                       .units = (uint8_t)units,
                                       .base = row->first};
}

void units_fill_calls(struct units_call calls[UNITS_CALLS], const uint8_t *profile,
                      uint32_t features, bool packed)
{
    unsigned first = profile[RAW_ALLOCATION_1];
    bool addresses = features & RAW_FEATURE_ADDRESSES;
    memset(calls, 0, UNITS_CALLS * sizeof *calls);
    for (unsigned i = 0; i < RAW_COMPACT_END >> UNITS_CALL_SHIFT; i++)
        if ((features & ~(RAW_FEATURE_STACKS | RAW_FEATURE_FREE_STACKS)) == RAW_FEATURE_OPAQUE &&
            !packed && call_shapes[first] == SHAPE_ALLOCATION)
            calls[i] =
                (struct units_call){.form = UNITS_CALL_COMPACT, .kind = (uint8_t)first, .units = 2};
    for (size_t i = 0; i < ROWS; i++) {
        bool is_allocation = rows[i].form == UNITS_CALL_ALLOCATION;
        bool says_place = is_allocation && is_opaque(features) && !packed;
        if ((is_allocation && addresses) || !row_is_used(&rows[i], features, packed)) continue;
        unsigned units = rows[i].form == UNITS_CALL_LONG ? 2 : 1;
        fill_row(calls, &rows[i], profile[rows[i].range], says_place ? 3 : units);
    }
}

uint64_t units_events(const uint8_t *profile, uint32_t features, const uint16_t *units,
                      size_t count)
{
    struct units_call calls[UNITS_CALLS];
    const uint16_t *at = units, *end = units + count;
    struct units_record coded;
    uint64_t events = 0;
    units_fill_calls(calls, profile, features, false);
    while (at && at < end) {
        unsigned passed = units_of_call(calls, at, end);
        if (passed) {
            at += passed;
            events++;
            continue;
        }
        at = units_next(profile, features, at, end, &coded);
        events += at && units_is_event(&coded);
    }
    return events;
}

size_t units_whole(const uint8_t *profile, uint32_t features, const uint16_t *units, size_t count,
                   size_t units_max)
{
    const uint16_t *at = units, *end = units + count;
    struct units_record coded;
    while (at < end) {
        const uint16_t *next = units_next(profile, features, at, end, &coded);
        if (!next || (size_t)(next - units) > units_max) break;
        at = next;
    }
    return (size_t)(at - units);
}
