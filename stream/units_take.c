/* units_take - reads what records of any stream have. */
#include "stream/units_own.h"

/* ---- objects ---- */

bool units_take_class(struct units_reader *reader, struct units_record *coded, uint32_t *size_class)
{
    if (!reader->dialect->has_classes) return true;
    uint64_t number = units_take_number(reader);
    *size_class = (uint32_t)number;
    return number < RAW_SIZE_CLASSES_MAX || units_fail(coded, RAW_SIZE_CLASS, number);
}

/* A place that must not be 0, and its class. */
static bool take_place_and_class(struct units_reader *reader, struct units_record *coded)
{
    if (!units_take_place(reader, coded, &coded->ends) ||
        !units_take_class(reader, coded, &coded->ends_class))
        return false;
    return coded->ends != RAW_PLACE_NONE || units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
}

static bool take_object(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    switch (unit & (RAW_GENERAL_REMOTE | RAW_GENERAL_UNKNOWN)) {
    case 0:
        coded->object_form = UNITS_OBJECT_OWN;
        if (!units_take_place(reader, coded, &coded->ends)) return false;
        return coded->ends != RAW_PLACE_NONE || units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    case RAW_GENERAL_REMOTE:
        coded->object_form = UNITS_OBJECT_REMOTE;
        coded->lane = units_take_number(reader);
        coded->bound = units_take_number(reader);
        return take_place_and_class(reader, coded);
    case RAW_GENERAL_UNKNOWN:
        coded->object_form = UNITS_OBJECT_UNKNOWN;
        if (!units_take_place(reader, coded, &coded->ends) ||
            !units_take_class(reader, coded, &coded->ends_class))
            return false;
        return coded->ends != RAW_PLACE_NONE || coded->ends_class == 0 ||
               units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    default: return units_fail(coded, RAW_UNIT_FLAG, unit);
    }
}

static bool has_no_object(unsigned unit, struct units_record *coded)
{
    return (unit & (RAW_GENERAL_REMOTE | RAW_GENERAL_UNKNOWN)) == 0 ||
           units_fail(coded, RAW_UNIT_FLAG, unit);
}

/* ---- calls ---- */

/* What follows the object, or the size of an allocation. `says_place`: the place of an object that
 * begins follows as well. */
bool units_take_rest(struct units_reader *reader, bool says_place, struct units_record *coded)
{
    unsigned shape = coded->shape;
    if (shape_ends(shape) && shape_has_size(shape)) coded->size = units_take_number(reader);
    if (shape_has_alignment(shape)) coded->operand = units_take_number(reader);
    coded->begins = shape_begins(shape);
    if (!coded->begins) return true;
    if (says_place && coded->number != CALL_REALLOC_IN_PLACE) {
        if (!units_take_place(reader, coded, &coded->place)) return false;
        if (reader->dialect->names_new_places && coded->place == RAW_PLACE_NONE)
            return units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
        if (coded->place != RAW_PLACE_NONE && !units_take_class(reader, coded, &coded->place_class))
            return false;
    }
    units_take_address(reader, coded);
    return true;
}

/* ec00..efff */
static bool take_by_entry(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    coded->object_form = UNITS_OBJECT_BY_ENTRY;
    coded->lane = unit >> RAW_REMOTE_ENTRY_SHIFT & (RAW_REMOTE_ENTRIES - 1);
    coded->ends = (unit & RAW_REMOTE_HIGH) << 16 | units_take_unit(reader);
    const uint64_t more = units_take_number(reader), classes = reader->dialect->classes_of_bound;
    coded->bound = more / classes;
    coded->ends_class = more % classes;
    if (reader->profile[RAW_FREE_1] == 0) return units_fail(coded, RAW_UNIT, unit);
    units_begin_record(coded, reader->profile[RAW_FREE_1]);
    if (coded->ends == RAW_PLACE_NONE) return units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    return units_take_rest(reader, false, coded);
}

static bool take_by_row(struct units_reader *reader, const struct units_row *row, unsigned unit,
                        struct units_record *coded)
{
    uint32_t operand = unit - row->first;
    if (row->form == UNITS_CALL_LONG) operand = operand << 16 | units_take_unit(reader);
    coded->range = row->range;
    if (reader->profile[row->range] == 0) return units_fail(coded, RAW_UNIT, unit);
    units_begin_record(coded, reader->profile[row->range]);
    if (row->form == UNITS_CALL_ALLOCATION) {
        coded->size = operand;
        return reader->dialect->take_allocation(reader, coded);
    }
    coded->object_form = row->form == UNITS_CALL_BY_AGE ? UNITS_OBJECT_BY_AGE : UNITS_OBJECT_OWN;
    coded->object_units = row->form == UNITS_CALL_LONG ? 2 : 1;
    coded->ends = operand;
    if (operand == RAW_PLACE_NONE) return units_fail(coded, RAW_PLACE, RAW_PLACE_NONE);
    return units_take_rest(reader, true, coded);
}

static bool take_heap(struct units_reader *reader, struct units_record *coded)
{
    uint64_t count = units_take_number(reader);
    if (count > RAW_HEAP_NUMBERS_MAX) return units_fail(coded, RAW_OPERAND, count);
    coded->count = (uint32_t)count;
    if (count > 0) coded->size = units_take_number(reader);
    if (count > 1) coded->operand = units_take_number(reader);
    return true;
}

static bool units_take_call(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (shape_ends(coded->shape))
        return take_object(reader, unit, coded) && units_take_rest(reader, true, coded);
    if (!has_no_object(unit, coded)) return false;
    if (coded->shape == SHAPE_HEAP) return take_heap(reader, coded);
    coded->size = units_take_number(reader);
    return units_take_rest(reader, true, coded);
}

static bool take_failed(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    uint64_t kind = units_take_number(reader);
    unsigned shape = kind < CALL_TABLE_SIZE ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_allocation(shape) && shape != SHAPE_REALLOC)
        return units_fail(coded, RAW_OPERAND, kind);
    coded->kind = (uint8_t)kind;
    if (shape == SHAPE_REALLOC ? !take_object(reader, unit, coded) : !has_no_object(unit, coded))
        return false;
    coded->size = units_take_number(reader);
    if (shape == SHAPE_ALLOCATION_ALIGNED) coded->operand = units_take_number(reader);
    return true;
}

/* ---- other records ---- */

static void take_lost(struct units_reader *reader, struct units_record *coded)
{
    coded->size = units_take_number(reader);
    coded->operand = units_take_number(reader);
}

static bool units_take_has_stacks(const struct units_reader *reader)
{
    return reader->features & RAW_FEATURE_STACKS;
}

/* The node is in `size`. */
static bool check_stack(struct units_record *coded)
{
    return (coded->size != STACK_END && coded->size < STACK_NUMBERS_LIMIT) ||
           units_fail(coded, RAW_OPERAND, coded->size);
}

/* f300..f3ff */
static bool units_take_stack(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (!units_take_has_stacks(reader)) return units_fail(coded, RAW_UNIT, unit);
    units_begin_record(coded, RAW_STACK);
    coded->size = (unit - RAW_UNIT_STACK) << 16 | units_take_unit(reader);
    return check_stack(coded);
}

static bool take_general_record(struct units_reader *reader, unsigned unit,
                                struct units_record *coded)
{
    if (coded->number == RAW_FAILED) return take_failed(reader, unit, coded);
    if (!has_no_object(unit, coded)) return false;
    switch (coded->number) {
    case RAW_THREAD_BEGIN: coded->operand = units_take_number(reader); return true;
    case RAW_THREAD_END: return true;
    case RAW_LOST: take_lost(reader, coded); return true;
    case RAW_STACK:
        if (!units_take_has_stacks(reader)) return units_fail(coded, RAW_NUMBER, unit);
        coded->size = units_take_number(reader);
        return check_stack(coded);
    case RAW_DEFINE:
        return units_take_has_stacks(reader) ? units_take_define(reader, coded)
                                             : units_fail(coded, RAW_NUMBER, unit);
    default: return reader->dialect->take_own(reader, unit, coded);
    }
}

/* f000..f0ff, f300..f3ff */
static bool take_general(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (unit >= RAW_UNIT_STACK) return units_take_stack(reader, unit, coded);
    units_begin_record(coded, unit & RAW_GENERAL_NUMBER);
    return coded->shape != SHAPE_UNDEFINED ? units_take_call(reader, unit, coded)
                                           : take_general_record(reader, unit, coded);
}

bool units_take_record(struct units_reader *reader, unsigned unit, struct units_record *coded)
{
    if (unit >= RAW_UNIT_GENERAL && unit < RAW_UNIT_UNDEFINED)
        return take_general(reader, unit, coded);
    if (unit >= RAW_UNIT_REMOTE && unit < RAW_UNIT_GENERAL)
        return take_by_entry(reader, unit, coded);
    for (size_t i = 0; i < units_rows_count; i++) {
        const struct units_row *row = &units_rows[i];
        const uint32_t operand = unit - row->first;
        if (operand >= row->least && operand < row->limit &&
            units_row_is_used(row, reader->dialect, reader->packed))
            return take_by_row(reader, row, unit, coded);
    }
    return units_fail(coded, RAW_UNIT, unit);
}
