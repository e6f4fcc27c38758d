#include "raw_units.h"

#include "../common/bytes.h"
#include "../common/call_table.h"
#include "varint.h"

#include <stddef.h>
#include <string.h>

/* The tables of FORMAT.md 5.2 and 5.5, as far as the main operand is in the first unit or the
 * first two: units base + least .. base + limit - 1. */
static const struct row {
    uint16_t base, limit;
    uint8_t least, range, form;
} rows[] = {
    {RAW_UNIT_FREE_1, RAW_FREE_1_LIMIT, 1, RAW_FREE_1, RAW_FORM_NEAR},
    {RAW_UNIT_ALLOCATION_1, RAW_ALLOCATION_1_LIMIT, 0, RAW_ALLOCATION_1, RAW_FORM_ALLOCATION},
    {RAW_UNIT_FREE_2, RAW_FREE_2_LIMIT, 1, RAW_FREE_2, RAW_FORM_NEAR},
    {RAW_UNIT_ALLOCATION_2, RAW_ALLOCATION_2_LIMIT, 0, RAW_ALLOCATION_2, RAW_FORM_ALLOCATION},
    {RAW_UNIT_ALLOCATION_3, RAW_ALLOCATION_3_LIMIT, 0, RAW_ALLOCATION_3, RAW_FORM_ALLOCATION},
    {RAW_UNIT_FREE_1_FAR, RAW_FREE_1_FAR_LIMIT >> 16, 0, RAW_FREE_1, RAW_FORM_FAR},
    {RAW_UNIT_FREE_2_FAR, RAW_FREE_2_FAR_LIMIT >> 16, 0, RAW_FREE_2, RAW_FORM_FAR},
    {RAW_UNIT_FREE_3_FAR, RAW_FREE_3_FAR_LIMIT >> 16, 0, RAW_FREE_3, RAW_FORM_FAR},
    {RAW_UNIT_REALLOC_FAR, RAW_REALLOC_FAR_LIMIT >> 16, 0, RAW_REALLOC, RAW_FORM_FAR},
    {RAW_UNIT_FREE_1_AGED, RAW_FREE_1_AGES, 1, RAW_FREE_1, RAW_FORM_AGED},
    {RAW_UNIT_FREE_2_AGED, RAW_FREE_2_AGES, 1, RAW_FREE_2, RAW_FORM_AGED},
    {RAW_UNIT_FREE_3_AGED, RAW_FREE_3_AGES, 1, RAW_FREE_3, RAW_FORM_AGED},
    {RAW_UNIT_REALLOC_AGED, RAW_REALLOC_AGES, 1, RAW_REALLOC, RAW_FORM_AGED},
};

#define ROWS (sizeof rows / sizeof *rows)

/* In an opaque stream nearby units are something else. */
static bool row_is_used(const struct row *row, uint32_t features, bool packed)
{
    if (row->form == RAW_FORM_AGED) return packed;
    return row->form != RAW_FORM_NEAR || !(features & RAW_FEATURE_OPAQUE);
}

/* ---- units and numbers ---- */

static bool fail(struct raw_said *said, enum raw_error wrong, uint64_t value)
{
    said->wrong = wrong;
    said->wrong_value = value;
    return false;
}

static unsigned take_unit(struct raw_units *units)
{
    if (units->at == units->end) {
        units->is_cut = true;
        return 0;
    }
    unsigned unit = bytes_get16(units->at);
    units->at += 2;
    return unit;
}

static uint64_t take_number(struct raw_units *units)
{
    uint64_t value = 0, unit = RAW_NUMBER_MORE;
    for (unsigned i = 0; unit >= RAW_NUMBER_MORE; i++) {
        if (i == RAW_NUMBER_UNITS_MAX) {
            units->too_large = true;
            return value;
        }
        unit = take_unit(units);
        uint64_t part = unit & (RAW_NUMBER_MORE - 1);
        value |= part << i * RAW_NUMBER_BITS;
        if (part << i * RAW_NUMBER_BITS >> i * RAW_NUMBER_BITS != part) units->too_large = true;
    }
    return value;
}

static bool is_opaque(const struct raw_units *units)
{
    return units->features & RAW_FEATURE_OPAQUE;
}

/* An opaque allocator has no classes. */
static bool take_class(struct raw_units *units, struct raw_said *said, uint32_t *size_class)
{
    if (is_opaque(units)) return true;
    uint64_t number = take_number(units);
    *size_class = (uint32_t)number;
    return number < RAW_SIZE_CLASSES_MAX || fail(said, RAW_SIZE_CLASS, number);
}

static bool take_place(struct raw_units *units, struct raw_said *said, uint32_t *place)
{
    uint64_t number = take_number(units);
    *place = (uint32_t)number;
    return number < RAW_PLACE_LIMIT || fail(said, RAW_PLACE, number);
}

/* A place that must not be 0, and its class. */
static bool take_place_and_class(struct raw_units *units, struct raw_said *said)
{
    if (!take_place(units, said, &said->ends) || !take_class(units, said, &said->ends_class))
        return false;
    return said->ends != RAW_PLACE_NONE || fail(said, RAW_PLACE, RAW_PLACE_NONE);
}

/* ---- calls ---- */

static void begin_record(struct raw_said *said, unsigned number)
{
    said->number = said->kind = (uint8_t)number;
    said->shape = call_shapes[number];
}

/* The object of the general form (f000..f0ff). */
static bool take_object(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    switch (unit & (RAW_GENERAL_FOREIGN | RAW_GENERAL_UNKNOWN)) {
    case 0:
        said->naming = RAW_NAMES_OWN;
        if (!take_place(units, said, &said->ends)) return false;
        return said->ends != RAW_PLACE_NONE || fail(said, RAW_PLACE, RAW_PLACE_NONE);
    case RAW_GENERAL_FOREIGN:
        said->naming = RAW_NAMES_FOREIGN;
        said->lane = take_number(units);
        said->bound = take_number(units);
        return take_place_and_class(units, said);
    case RAW_GENERAL_UNKNOWN:
        said->naming = RAW_NAMES_UNKNOWN;
        if (!take_place(units, said, &said->ends) || !take_class(units, said, &said->ends_class))
            return false;
        return said->ends != RAW_PLACE_NONE || said->ends_class == 0 ||
               fail(said, RAW_PLACE, RAW_PLACE_NONE);
    default: return fail(said, RAW_UNIT_FLAG, unit);
    }
}

/* What follows the object, or the size of an allocation. `says_place`: where it begins follows
 * as well. */
static bool take_rest(struct raw_units *units, bool says_place, struct raw_said *said)
{
    unsigned shape = said->shape;
    if (shape_ends(shape) && shape_has_size(shape)) said->size = take_number(units);
    if (shape_has_alignment(shape)) said->operand = take_number(units);
    said->begins = shape_begins(shape);
    if (!said->begins) return true;
    if (says_place && said->number != CALL_REALLOC_IN_PLACE) {
        if (!take_place(units, said, &said->place)) return false;
        if (is_opaque(units) && said->place == RAW_PLACE_NONE)
            return fail(said, RAW_PLACE, RAW_PLACE_NONE);
        if (said->place != RAW_PLACE_NONE && !take_class(units, said, &said->place_class))
            return false;
    }
    if (units->features & RAW_FEATURE_ADDRESSES) said->address = take_number(units);
    return true;
}

/* The place of an allocation by its row, in an opaque stream. In a packed chunk it is said before,
 * or it is the first of its list. */
static bool take_place_of_row(struct raw_units *units, struct raw_said *said)
{
    if (units->packed) {
        if (said->placing == RAW_PLACES_ITSELF) said->placing = RAW_PLACES_LISTED;
        return true;
    }
    said->place = take_unit(units);
    said->place |= (uint32_t)take_unit(units) << 16;
    return said->place != RAW_PLACE_NONE || fail(said, RAW_PLACE, RAW_PLACE_NONE);
}

static bool take_by_row(struct raw_units *units, const struct row *row, unsigned unit,
                        struct raw_said *said)
{
    uint32_t operand = unit - row->base;
    if (row->form == RAW_FORM_FAR) operand = operand << 16 | take_unit(units);
    said->range = row->range;
    if (units->profile[row->range] == 0) return fail(said, RAW_UNIT, unit);
    begin_record(said, units->profile[row->range]);
    if (row->form == RAW_FORM_ALLOCATION) {
        said->size = operand;
        if (!is_opaque(units)) return take_rest(units, false, said);
        if (shape_has_alignment(said->shape)) said->operand = take_number(units);
        said->begins = true;
        if (!take_place_of_row(units, said)) return false;
        if (units->features & RAW_FEATURE_ADDRESSES) said->address = take_number(units);
        return true;
    }
    said->naming = row->form == RAW_FORM_AGED ? RAW_NAMES_AGED : RAW_NAMES_OWN;
    said->object_units = row->form == RAW_FORM_FAR ? 2 : 1;
    said->ends = operand;
    if (operand == RAW_PLACE_NONE) return fail(said, RAW_PLACE, RAW_PLACE_NONE);
    return take_rest(units, true, said);
}

/* ec00..efff */
static bool take_by_entry(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    said->naming = RAW_NAMES_ENTRY;
    said->lane = unit >> RAW_FOREIGN_ENTRY_SHIFT & (RAW_FOREIGN_ENTRIES - 1);
    said->ends = (unit & RAW_FOREIGN_HIGH) << 16 | take_unit(units);
    uint64_t more = take_number(units), classes = is_opaque(units) ? 1 : RAW_FOREIGN_CLASSES;
    said->bound = more / classes;
    said->ends_class = more % classes;
    if (units->profile[RAW_FREE_1] == 0) return fail(said, RAW_UNIT, unit);
    begin_record(said, units->profile[RAW_FREE_1]);
    if (said->ends == RAW_PLACE_NONE) return fail(said, RAW_PLACE, RAW_PLACE_NONE);
    return take_rest(units, false, said);
}

static bool has_no_object(unsigned unit, struct raw_said *said)
{
    return (unit & (RAW_GENERAL_FOREIGN | RAW_GENERAL_UNKNOWN)) == 0 ||
           fail(said, RAW_UNIT_FLAG, unit);
}

static bool take_heap(struct raw_units *units, struct raw_said *said)
{
    uint64_t count = take_number(units);
    if (count > RAW_HEAP_NUMBERS_MAX) return fail(said, RAW_OPERAND, count);
    said->count = (uint32_t)count;
    if (count > 0) said->size = take_number(units);
    if (count > 1) said->operand = take_number(units);
    return true;
}

static bool take_call(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    if (shape_ends(said->shape))
        return take_object(units, unit, said) && take_rest(units, true, said);
    if (!has_no_object(unit, said)) return false;
    if (said->shape == SHAPE_HEAP) return take_heap(units, said);
    said->size = take_number(units);
    return take_rest(units, true, said);
}

/* ---- other records ---- */

static bool take_failed(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    uint64_t kind = take_number(units);
    unsigned shape = kind < CALL_TABLE_SIZE ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_allocation(shape) && shape != SHAPE_REALLOC) return fail(said, RAW_OPERAND, kind);
    said->kind = (uint8_t)kind;
    if (shape == SHAPE_REALLOC ? !take_object(units, unit, said) : !has_no_object(unit, said))
        return false;
    said->size = take_number(units);
    if (shape == SHAPE_ALLOCATION_ALIGNED) said->operand = take_number(units);
    return true;
}

static bool take_cached(struct raw_units *units, struct raw_said *said)
{
    uint64_t count = take_number(units), place = 0;
    if (count == 0 || count > RAW_CACHED_MAX) return fail(said, RAW_OPERAND, count);
    for (; said->count < count; said->count++) {
        uint64_t number = take_number(units);
        place += said->count == 0 ? number : (uint64_t)unzigzag(number);
        if (place == RAW_PLACE_NONE || place >= RAW_PLACE_LIMIT)
            return fail(said, RAW_PLACE, place);
        said->cached[said->count] = (uint32_t)place;
    }
    return true;
}

/* class, cached, uncached: of a class that is not 0, whose objects no cache has. */
static bool take_of_class(struct raw_units *units, struct raw_said *said)
{
    if (!take_class(units, said, &said->structure)) return false;
    if (said->structure == 0) return fail(said, RAW_SIZE_CLASS, 0);
    if (said->number == RAW_CACHED) return take_cached(units, said);
    uint64_t number = take_number(units);
    if (said->number == RAW_CLASS)
        said->size = number;
    else
        said->operand = number;
    if (number == 0 || (said->number == RAW_CLASS && number > UINT32_MAX))
        return fail(said, RAW_OPERAND, number);
    return true;
}

static bool is_structure(uint64_t number)
{
    return number < RAW_SIZE_CLASSES_MAX || number == RAW_STRUCTURE_PAGE_HEAP;
}

static bool take_inside(struct raw_units *units, struct raw_said *said)
{
    uint64_t number = take_number(units), what = number / 2;
    said->structure = (uint32_t)what;
    said->operand = number % 2;
    said->size = take_number(units);
    return is_structure(what) || (what >= RAW_INSIDE_SBRK && what <= RAW_INSIDE_MERGE) ||
           fail(said, RAW_OPERAND, number);
}

/* ---- call stacks ---- */

static bool has_stacks(const struct raw_units *units)
{
    return units->features & RAW_FEATURE_STACKS;
}

/* The node is in `size`. */
static bool check_stack(struct raw_said *said)
{
    return (said->size != STACK_END && said->size < STACK_NUMBERS_LIMIT) ||
           fail(said, RAW_OPERAND, said->size);
}

/* f300..f3ff */
static bool take_stack(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    if (!has_stacks(units)) return fail(said, RAW_UNIT, unit);
    begin_record(said, RAW_STACK);
    said->size = (unit - RAW_UNIT_STACK) << 16 | take_unit(units);
    return check_stack(said);
}

/* A number that is less than 2^32. */
static uint32_t take_short_number(struct raw_units *units)
{
    uint64_t number = take_number(units);
    if (number > UINT32_MAX) units->too_large = true;
    return (uint32_t)number;
}

static bool take_module(struct raw_units *units, struct stack_definition *module)
{
    module->number = take_short_number(units);
    if (module->what == STACK_UNLOADED) return true;
    module->start = take_number(units);
    module->end = module->start + take_number(units);
    module->bias = module->start - (uint64_t)unzigzag(take_number(units));
    return true;
}

static bool take_piece(struct raw_units *units, struct stack_definition *text)
{
    text->number = take_short_number(units);
    text->length = take_short_number(units);
    text->offset = take_short_number(units);
    if (text->offset >= text->length) return false;
    const uint32_t bytes = stack_piece_bytes(text);
    for (uint32_t i = 0; i < bytes; i += 2) {
        const unsigned both = take_unit(units);
        text->piece[i] = (uint8_t)both;
        if (i + 1 < bytes)
            text->piece[i + 1] = (uint8_t)(both >> 8);
        else if (both >> 8 != 0)
            return false;
    }
    return true;
}

static bool take_codes(struct raw_units *units, struct raw_said *said)
{
    uint64_t offset = 0;
    if (said->definition.count > STACK_CODES_MAX) return false;
    said->operand = take_number(units);
    said->definition.of = take_short_number(units);
    for (uint32_t i = 0; i < said->definition.count; i++)
        said->definition.offsets[i] = offset += (uint64_t)unzigzag(take_number(units));
    return true;
}

static bool take_nodes(struct raw_units *units, struct raw_said *said)
{
    if (said->definition.count > STACK_NODES_MAX) return false;
    said->operand = take_number(units);
    said->size = take_number(units);
    for (uint32_t i = 0; i < said->definition.count; i++)
        said->definition.codes[i] = take_short_number(units);
    return true;
}

/* Whether the rest of the definition is within its limits, the decoder finds. */
static bool take_define(struct raw_units *units, struct raw_said *said)
{
    struct stack_definition *definition = &said->definition;
    const uint64_t number = take_number(units), more = number >> RAW_DEFINE_BITS;
    bool good = more <= UINT32_MAX;
    definition->what = number & RAW_DEFINE_WHAT;
    definition->of = definition->count = 0;
    switch (definition->what) {
    case STACK_MODULE:
    case STACK_UNLOADED: good = more == 0 && take_module(units, definition); break;
    case STACK_TEXT:
        definition->of = (uint32_t)more;
        good = good && take_piece(units, definition);
        break;
    case STACK_CODES:
        definition->count = (uint32_t)more;
        good = good && take_codes(units, said);
        break;
    case STACK_NODES:
        definition->count = (uint32_t)more;
        good = good && take_nodes(units, said);
        break;
    default: good = false;
    }
    return good || fail(said, RAW_OPERAND, number);
}

/* ---- by number ---- */

static bool take_other(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    if (said->number == RAW_FAILED) return take_failed(units, unit, said);
    if (!has_no_object(unit, said)) return false;
    if (has_stacks(units) && said->number == RAW_DEFINE) return take_define(units, said);
    if (has_stacks(units) && said->number == RAW_STACK) {
        said->size = take_number(units);
        return check_stack(said);
    }
    if (is_opaque(units) ? said->number != RAW_THREAD_BEGIN && said->number != RAW_THREAD_END &&
                               said->number != RAW_LOST && said->number != RAW_PAGE
                         : said->number == RAW_PAGE)
        return fail(said, RAW_NUMBER, unit);
    switch (said->number) {
    case RAW_THREAD_BEGIN: said->operand = take_number(units); return true;
    case RAW_THREAD_END:
    case RAW_CACHE_BEGIN:
    case RAW_THREAD_CACHE_DELETED: return true;
    case RAW_LOST:
        said->size = take_number(units);
        said->operand = take_number(units);
        return true;
    case RAW_CLASS:
    case RAW_CACHED:
    case RAW_UNCACHED: return take_of_class(units, said);
    case RAW_INSIDE: return take_inside(units, said);
    case RAW_PAGE:
        said->operand = take_number(units);
        said->address = take_number(units);
        return true;
    default: return fail(said, RAW_NUMBER, unit);
    }
}

static bool take_sequence_number(struct raw_units *units, unsigned number, unsigned structure,
                                 struct raw_said *said)
{
    begin_record(said, number);
    said->structure = structure;
    said->size = take_number(units);
    return is_structure(structure) || fail(said, RAW_STRUCTURE, structure);
}

/* f000..f3ff; in an opaque stream f000..f0ff, f300..f3ff */
static bool take_general(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    if (unit >= RAW_UNIT_STACK) return take_stack(units, unit, said);
    if (is_opaque(units) && unit >= RAW_UNIT_SEQUENCE_BEFORE) return fail(said, RAW_UNIT, unit);
    if (unit >= RAW_UNIT_SEQUENCE_AFTER)
        return take_sequence_number(units, RAW_SEQUENCE_AFTER, unit - RAW_UNIT_SEQUENCE_AFTER,
                                    said);
    if (unit >= RAW_UNIT_SEQUENCE_BEFORE)
        return take_sequence_number(units, RAW_SEQUENCE_BEFORE, unit - RAW_UNIT_SEQUENCE_BEFORE,
                                    said);
    begin_record(said, unit & RAW_GENERAL_NUMBER);
    return said->shape != SHAPE_UNDEFINED ? take_call(units, unit, said)
                                          : take_other(units, unit, said);
}

/* ---- records ---- */

static bool take_record(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    if (unit >= RAW_UNIT_GENERAL && unit < RAW_UNIT_UNDEFINED)
        return take_general(units, unit, said);
    if (unit >= RAW_UNIT_FOREIGN && unit < RAW_UNIT_GENERAL)
        return take_by_entry(units, unit, said);
    for (size_t i = 0; i < ROWS; i++) {
        uint32_t operand = unit - rows[i].base;
        if (operand >= rows[i].least && operand < rows[i].limit &&
            row_is_used(&rows[i], units->features, units->packed))
            return take_by_row(units, &rows[i], unit, said);
    }
    return fail(said, RAW_UNIT, unit);
}

/* ---- opaque streams ---- */

/* f100..f108, f110..f118: whom the lane comes after. */
static bool take_after(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    unsigned entry = (unit & ~RAW_UNIT_AFTER_REALLOC) - RAW_UNIT_AFTER;
    begin_record(said, RAW_AFTER);
    said->operand = (unit & RAW_UNIT_AFTER_REALLOC) != 0;
    said->naming = entry < RAW_FOREIGN_ENTRIES ? RAW_NAMES_ENTRY : RAW_NAMES_FOREIGN;
    said->lane = entry < RAW_FOREIGN_ENTRIES ? entry : take_number(units);
    said->bound = take_number(units);
    return true;
}

/* How its place is said in a packed chunk. */
static unsigned take_placing(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    bool is_nearby = unit >= RAW_UNIT_NEARBY_FIRST && unit < RAW_UNIT_NEARBY_END;
    bool is_listed = unit >= RAW_UNIT_LISTED && unit < RAW_UNIT_LISTED_END;
    if (!is_nearby && !is_listed && unit != RAW_UNIT_DISTANT) return unit;
    said->placing = is_listed ? RAW_PLACES_LISTED : RAW_PLACES_NEARBY;
    if (is_listed)
        said->nearby = unit - RAW_UNIT_LISTED;
    else if (is_nearby)
        said->nearby = zigzag((int32_t)unit - (int32_t)RAW_UNIT_NEARBY);
    else
        said->nearby = take_number(units);
    return take_unit(units);
}

/* 0001..9fff, but in a packed chunk: allocation 1. */
static bool take_compact(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    struct raw_compact both = raw_compact_of(unit, take_unit(units));
    if (units->profile[RAW_ALLOCATION_1] == 0) return fail(said, RAW_UNIT, unit);
    begin_record(said, units->profile[RAW_ALLOCATION_1]);
    said->range = RAW_ALLOCATION_1;
    said->begins = true;
    said->size = both.size;
    said->place = both.place;
    if (both.place == RAW_PLACE_NONE) return fail(said, RAW_PLACE, RAW_PLACE_NONE);
    if (shape_has_alignment(said->shape)) said->operand = take_number(units);
    if (units->features & RAW_FEATURE_ADDRESSES) said->address = take_number(units);
    return true;
}

static bool take_opaque(struct raw_units *units, unsigned unit, struct raw_said *said)
{
    if (unit >= RAW_UNIT_AFTER && (unit & ~RAW_UNIT_AFTER_REALLOC) < RAW_UNIT_AFTER_END)
        return take_after(units, unit, said);
    unsigned own = units->packed ? take_placing(units, unit, said) : unit;
    bool has_placing = own != unit;
    if (own >= RAW_COMPACT_FIRST && own < RAW_COMPACT_END && !units->packed)
        return take_compact(units, own, said);
    if (!take_record(units, own, said)) return false;
    if (has_placing &&
        (call_shapes[said->number] > SHAPE_ALLOCATION_ALIGNED || said->range == RAW_RANGES))
        return fail(said, RAW_UNIT, own);
    return true;
}

bool raw_units_take(struct raw_units *units, struct raw_said *said)
{
    memset(said, 0, offsetof(struct raw_said, cached));
    said->range = RAW_RANGES;
    units->is_cut = units->too_large = false;
    unsigned unit = take_unit(units);
    bool good = is_opaque(units) ? take_opaque(units, unit, said) : take_record(units, unit, said);
    /* What is wrong about units that are not there does not matter. */
    if (units->is_cut) return fail(said, RAW_UNITS_SHORT, 0);
    if (good && units->too_large) return fail(said, RAW_OPERAND, UINT64_MAX);
    return good;
}

/* ---- forms ---- */

static void fill_row(struct raw_form forms[RAW_FORMS], const struct row *row, unsigned kind)
{
    unsigned shape = call_shapes[kind], end = row->base + row->limit;
    bool is_allocation = row->form == RAW_FORM_ALLOCATION;
    if (is_allocation ? shape != SHAPE_ALLOCATION
                      : shape != SHAPE_FREE && shape != SHAPE_FREE_SIZED)
        return;
    /* Rows that do not end where the upper bits change are not worth a form. */
    if (end % (1u << RAW_FORM_SHIFT) != 0) return;
    for (unsigned i = (row->base + row->least) >> RAW_FORM_SHIFT; i < end >> RAW_FORM_SHIFT; i++)
        forms[i] = (struct raw_form){.form = row->form,
                                     .kind = (uint8_t)kind,
                                     .range = row->range,
                                     .is_sized = shape == SHAPE_FREE_SIZED,
                                     .base = row->base};
}

void raw_forms_fill(struct raw_form forms[RAW_FORMS], const uint8_t *profile, uint32_t features,
                    bool packed)
{
    unsigned first = profile[RAW_ALLOCATION_1];
    memset(forms, 0, RAW_FORMS * sizeof *forms);
    for (unsigned i = 0; i < RAW_COMPACT_END >> RAW_FORM_SHIFT; i++)
        if ((features & ~RAW_FEATURE_STACKS) == RAW_FEATURE_OPAQUE && !packed &&
            call_shapes[first] == SHAPE_ALLOCATION)
            forms[i] = (struct raw_form){.form = RAW_FORM_COMPACT, .kind = (uint8_t)first};
    for (size_t i = 0; i < ROWS; i++) {
        bool addresses = features & RAW_FEATURE_ADDRESSES;
        if ((rows[i].form == RAW_FORM_ALLOCATION && addresses) ||
            !row_is_used(&rows[i], features, packed))
            continue;
        fill_row(forms, &rows[i], profile[rows[i].range]);
    }
}

/* ---- packed units ---- */

void raw_packed_entries(uint32_t entries[RAW_PACKED_ENTRIES])
{
    static const struct {
        uint16_t first, step; /* the unit of the first code, and how much more each next one has */
        uint8_t code;
    } codes[] = {{RAW_UNIT_FREE_1_AGED + 1, 1, RAW_PACKED_FREE_1},
                 {RAW_UNIT_ALLOCATION_1, 8, RAW_PACKED_ALLOCATION_1},
                 {RAW_UNIT_FREE_2_AGED + 1, 1, RAW_PACKED_FREE_2},
                 {RAW_UNIT_ALLOCATION_2, 8, RAW_PACKED_ALLOCATION_2}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (unsigned code = codes[i].code; code < RAW_PACKED_PAGE; code++)
            entries[code] = codes[i].first + (code - codes[i].code) * codes[i].step;
    for (uint32_t page = RAW_PACKED_PAGE; page < RAW_PACKED_UNIT; page++)
        entries[page] = RAW_PACKED_MASK_PAGE | (page == RAW_PACKED_LOW ? 0 : page << 8);
    entries[RAW_PACKED_UNIT] = RAW_PACKED_MASK_UNIT;
}
