#include "units.h"

#include "../common/call_table.h"
#include "raw_units.h"
#include "varint.h"

#include <stddef.h>
#include <string.h>

/* --- codes --- */

static const struct {
    uint16_t base, far_base;
    uint32_t limit, far_limit;
} ranges[RAW_RANGES] = {
    [RAW_FREE_1] = {RAW_UNIT_FREE_1, RAW_UNIT_FREE_1_FAR, RAW_FREE_1_LIMIT, RAW_FREE_1_FAR_LIMIT},
    [RAW_FREE_2] = {RAW_UNIT_FREE_2, RAW_UNIT_FREE_2_FAR, RAW_FREE_2_LIMIT, RAW_FREE_2_FAR_LIMIT},
    [RAW_FREE_3] = {0, RAW_UNIT_FREE_3_FAR, 0, RAW_FREE_3_FAR_LIMIT},
    [RAW_ALLOCATION_1] = {RAW_UNIT_ALLOCATION_1, 0, RAW_ALLOCATION_1_LIMIT, 0},
    [RAW_ALLOCATION_2] = {RAW_UNIT_ALLOCATION_2, 0, RAW_ALLOCATION_2_LIMIT, 0},
    [RAW_ALLOCATION_3] = {RAW_UNIT_ALLOCATION_3, 0, RAW_ALLOCATION_3_LIMIT, 0},
    [RAW_REALLOC] = {0, RAW_UNIT_REALLOC_FAR, 0, RAW_REALLOC_FAR_LIMIT},
};

/* Whether the allocator is opaque: each allocation says its place, and frees are counted. */
static inline bool is_opaque(const struct units_lane *lane)
{
    return lane->features & RAW_FEATURE_OPAQUE;
}

/* --- profiles --- */

/* The profile is chosen when a lane has had 1, 2, 4, ... slots, and then with every so many of
 * them: from the kinds of calls at the beginning of the slot before. */
#define CHOSEN_EVERY  64
#define SAMPLED_UNITS 1024
/* If more than 1/12 of them are frees of far places, all frees get the wide form: a mispredicted
 * branch costs more than two bytes. */
#define WIDE_ONE_IN   12

/* Of a lane that nothing is known about. */
static const uint8_t first_profile[RAW_PROFILE_BYTES] = {
    CALL_FREE, CALL_DELETE, CALL_DELETE_SIZED, CALL_MALLOC,
    CALL_NEW,  CALL_CALLOC, CALL_REALLOC_MOVED};

/* RAW_RANGES if there is none. */
static unsigned range_of(const struct units_lane *lane, unsigned kind)
{
    unsigned range = 0;
    while (range < RAW_RANGES && lane->profile[range] != kind)
        range++;
    return range;
}

static bool is_chosen_anew(uint64_t segments)
{
    return segments % CHOSEN_EVERY == 0 ||
           (segments < CHOSEN_EVERY && (segments & (segments - 1)) == 0);
}

/* Records that have a form (raw_units.h), and how many units they have; a size that is given comes
 * in one more. */
struct forms {
    struct raw_form of[RAW_FORMS];
    uint8_t units[RAW_FORM_AGED + 1];
};

static void fill_forms(struct forms *forms, const uint8_t *profile, uint32_t features)
{
    raw_forms_fill(forms->of, profile, features, false);
    memset(forms->units, 0, sizeof forms->units);
    forms->units[RAW_FORM_ALLOCATION] = features & RAW_FEATURE_OPAQUE ? 3 : 1;
    forms->units[RAW_FORM_NEAR] = 1;
    forms->units[RAW_FORM_COMPACT] = forms->units[RAW_FORM_FAR] = 2;
}

/* Units of the next record, which is a call; 0 if it has no form or may be the last. */
static inline unsigned units_of_form(const struct forms *forms, const uint16_t *at,
                                     const uint16_t *end)
{
    if (end - at <= RAW_FORM_UNITS_MAX) return 0;
    const struct raw_form *form = &forms->of[*at >> RAW_FORM_SHIFT];
    unsigned units = forms->units[form->form];
    if (!form->is_sized) return units;
    return at[units] < RAW_NUMBER_MORE ? units + 1 : 0;
}

/* How often each kind was called, and how many frees were at far places. Ranges that no call needs
 * go to the kinds of the first profile. */
static void count_kinds(const struct units_lane *lane, const uint16_t *units, size_t count,
                        uint32_t counts[CALL_KINDS], uint32_t *far)
{
    struct forms forms;
    const uint16_t *end = units + count;
    struct raw_said said;
    for (unsigned range = 0; range < RAW_RANGES; range++)
        counts[first_profile[range]] = RAW_RANGES - range;
    fill_forms(&forms, lane->profile, lane->features);
    while (units < end) {
        unsigned passed = units_of_form(&forms, units, end);
        if (passed) {
            const struct raw_form *form = &forms.of[*units >> RAW_FORM_SHIFT];
            uint32_t upper = (uint32_t)*units - form->base;
            counts[form->kind] += RAW_RANGES + 1;
            *far += form->form == RAW_FORM_FAR && (upper << 16 | units[1]) >= RAW_FREE_1_LIMIT;
            units += passed;
            continue;
        }
        struct raw_units walk =
            raw_units_over(lane->profile, lane->features, units, (size_t)(end - units));
        if (!raw_units_take(&walk, &said)) break;
        units += (walk.at - (const uint8_t *)units) / 2;
        if (said.number < CALL_KINDS) counts[said.number] += RAW_RANGES + 1;
        *far += said.naming == RAW_NAMES_OWN && said.ends >= RAW_FREE_1_LIMIT;
    }
}

static bool fits_range(unsigned kind, unsigned range)
{
    if (range <= RAW_FREE_3) return shape_is_free(call_shapes[kind]);
    if (range <= RAW_ALLOCATION_3) return shape_is_allocation(call_shapes[kind]);
    return call_shapes[kind] == SHAPE_REALLOC;
}

/* The first range of allocations and of frees has the most operands: it goes to the most
 * frequent kind. */
static void choose_profile(struct units_lane *lane, const uint16_t *units, size_t count)
{
    uint32_t counts[CALL_KINDS] = {0}, far = 0;
    size_t sampled = count < SAMPLED_UNITS ? count : SAMPLED_UNITS;
    count_kinds(lane, units, sampled, counts, &far);
    lane->wide = far > sampled / WIDE_ONE_IN;
    for (unsigned range = 0; range < RAW_RANGES; range++) {
        unsigned best = 0;
        for (unsigned kind = 1; kind < CALL_KINDS; kind++)
            if (fits_range(kind, range) && counts[kind] > counts[best]) best = kind;
        lane->profile[range] = (uint8_t)best;
        counts[best] = 0;
    }
}

_Static_assert(offsetof(struct units_lane, codes[3]) <= 64, "of one cache line");
_Static_assert(offsetof(struct units_lane, first_allocation) / 64 !=
                   offsetof(struct units_lane, allocating) / 64,
               "what others read is not what the owner stores all the time");

/* The fast path knows only small sizes, and writes no addresses. Of an opaque allocator it knows no
 * classes. */
static void set_codes(struct units_lane *lane)
{
    memset(lane->codes, 0, sizeof lane->codes);
    for (unsigned range = RAW_FREE_1; range < RAW_RANGES; range++) {
        if (!lane->profile[range]) continue;
        struct units_code *code = &lane->codes[units_code_at(lane->profile[range])];
        uint32_t limit = ranges[range].limit;
        code->base = ranges[range].base;
        if (range >= RAW_ALLOCATION_1 && range <= RAW_ALLOCATION_3) {
            if (limit > UNITS_FAST_SIZE_LIMIT && !is_opaque(lane)) limit = UNITS_FAST_SIZE_LIMIT;
            code->size_limit = lane->features & RAW_FEATURE_ADDRESSES ? 0 : limit;
            continue;
        }
        code->limit = is_opaque(lane) ? 0 : limit;
        code->far_base = ranges[range].far_base;
        if (range != RAW_REALLOC || !(lane->features & RAW_FEATURE_ADDRESSES))
            code->far_end = (uint16_t)(ranges[range].far_limit >> 16);
    }
    if (lane->wide) lane->codes[units_code_at(lane->profile[RAW_FREE_1])].limit = 0;
}

void units_begin_segment(struct units_lane *lane, const uint16_t *units, size_t count,
                         uint64_t segments, bool key)
{
    bool first = !lane->profile[RAW_FREE_1];
    if (first)
        memcpy(lane->profile, first_profile, sizeof first_profile);
    else if (is_chosen_anew(segments))
        choose_profile(lane, units, count);
    if (first || is_chosen_anew(segments)) set_codes(lane);
    lane->profile[RAW_PROFILE_ROUNDING] = lane->rounding;
    memset(lane->foreign, 0, sizeof lane->foreign);
    lane->latest_foreign = lane->foreign;
    lane->last_address = lane->page_place = lane->page_address = 0;
    lane->next_code = lane->next_node = 0;
    if (key) memset(lane->sequences, 0, sizeof lane->sequences);
}

/* --- units --- */

static uint16_t *put_number(uint16_t *at, uint64_t value)
{
    while (value >= RAW_NUMBER_MORE) {
        *at++ = (uint16_t)(RAW_NUMBER_MORE | value);
        value >>= RAW_NUMBER_BITS;
    }
    *at++ = (uint16_t)value;
    return at;
}

/* Where the units of the next record go that are not its first. */
static uint16_t *rest_of_record(const struct units_lane *lane)
{
    return units_cursor(lane) + 1;
}

/* Completes the record whose first unit is `first` and whose other units stand behind the cursor up
 * to `end`. `begins`: objects that begin; of an opaque allocator calls. */
static void finish_record(struct units_lane *lane, unsigned first, const uint16_t *end,
                          bool is_event, uint64_t begins)
{
    uint16_t *cursor = units_cursor(lane);
    lane->extra_units += (uint64_t)(end - cursor) - is_event;
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

static uint16_t *put_place(const struct units_lane *lane, uint16_t *at, uint32_t place,
                           uint32_t size_class)
{
    at = put_number(at, place);
    return is_opaque(lane) ? at : put_number(at, size_class);
}

/* `bound` is not 0. */
static void remember(struct units_lane *lane, uint64_t bound, const struct units_lane *other)
{
    uint32_t number = raw_allocations_lane(bound), entry = number % RAW_FOREIGN_ENTRIES;
    lane->foreign[entry] = (struct units_foreign){
        .bound = bound,
        .waited = bound,
        .lane = other,
        .owner = (uint16_t)(number + 1),
        .unit = (uint16_t)(RAW_UNIT_FOREIGN + (entry << RAW_FOREIGN_ENTRY_SHIFT))};
}

/* An object with all that the general form says; the flags of its code. */
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
    return RAW_GENERAL_FOREIGN;
}

/* The place of a new object: none for one that was the first of its class in the cache. */
static uint16_t *put_new_place(const struct units_lane *lane, uint16_t *at,
                               const struct units_object *object, bool taken)
{
    if (taken) return put_number(at, RAW_PLACE_NONE);
    return put_place(lane, at, object->place, object->size_class);
}

static uint16_t *put_address(struct units_lane *lane, uint16_t *at, const void *object)
{
    if (!(lane->features & RAW_FEATURE_ADDRESSES)) return at;
    uint64_t address = (uint64_t)(uintptr_t)object / 8;
    at = put_number(at, zigzag((int64_t)(address - lane->last_address)));
    lane->last_address = address;
    return at;
}

/* What lane and bound the segment remembers for this one; 0: none that is of use. */
static uint64_t remembered(const struct units_lane *lane, uint64_t bound)
{
    uint64_t latest = lane->foreign[raw_allocations_lane(bound) % RAW_FOREIGN_ENTRIES].bound;
    bool same = raw_allocations_lane(latest) == raw_allocations_lane(bound);
    return same && latest <= bound ? latest : 0;
}

bool units_after(struct units_lane *lane, uint64_t bound, bool is_realloc)
{
    unsigned entry = raw_allocations_lane(bound) % RAW_FOREIGN_ENTRIES;
    uint64_t latest = remembered(lane, bound);
    uint16_t *at = rest_of_record(lane);
    if (latest && lane->foreign[entry].waited == bound) return false;
    remember(lane, bound, NULL);
    /* It may not have to wait for all of it (FORMAT.md 6). */
    if (is_realloc) lane->foreign[entry].waited = 0;
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

void units_allocation(struct units_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                      const struct units_allocation_of *allocation)
{
    unsigned range = range_of(lane, kind);
    uint16_t *at = rest_of_record(lane);
    bool opaque = is_opaque(lane);
    bool is_short =
        (allocation->taken || opaque) && range < RAW_RANGES && size < ranges[range].limit;
    unsigned unit = is_short ? ranges[range].base + (unsigned)size : RAW_UNIT_GENERAL + kind;
    bool compact =
        opaque && is_short && units_can_compact(ranges[range].base, size, allocation->object.place);
    if (compact) {
        uint32_t both = units_compact(size, allocation->object.place);
        unit = (uint16_t)both;
        *at++ = (uint16_t)(both >> 16);
    }
    if (!is_short) at = put_number(at, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) at = put_number(at, alignment);
    if (compact) {
        /* The place has been said. */
    } else if (!is_short) {
        at = put_new_place(lane, at, &allocation->object, allocation->taken);
    } else if (opaque) {
        *at++ = (uint16_t)allocation->object.place;
        *at++ = (uint16_t)(allocation->object.place >> 16);
    }
    finish_event(lane, unit, put_address(lane, at, allocation->address), 1);
}

/* The first unit of the short forms for an object that this lane has; 0 if there is none. */
static unsigned put_near(struct units_lane *lane, uint16_t **at, unsigned range,
                         const struct units_object *object)
{
    if (range == RAW_RANGES || object->unknown || object->bound || !object->place) return 0;
    bool wide = is_opaque(lane) || (lane->wide && range == RAW_FREE_1);
    if (object->place < ranges[range].limit && !wide) return ranges[range].base + object->place;
    if (object->place >= ranges[range].far_limit) return 0;
    *(*at)++ = (uint16_t)object->place;
    return ranges[range].far_base + (object->place >> 16);
}

void units_realloc(struct units_lane *lane, unsigned kind, const struct units_object *old,
                   uint64_t size, const struct units_allocation_of *allocation)
{
    uint16_t *at = rest_of_record(lane);
    unsigned unit = put_near(lane, &at, range_of(lane, kind), old);
    if (!unit) unit = RAW_UNIT_GENERAL + kind + put_object(lane, &at, old);
    at = put_number(at, size);
    if (kind == CALL_REALLOC_MOVED)
        at = put_new_place(lane, at, &allocation->object, allocation->taken);
    finish_event(lane, unit, put_address(lane, at, allocation->address), 1);
}

/* The first unit of a free with the latest bound of the lane that has the object; 0 if it
 * has none. */
static inline unsigned put_foreign(struct units_lane *lane, uint16_t **at,
                                   const struct units_object *object)
{
    unsigned entry = raw_allocations_lane(object->bound) % RAW_FOREIGN_ENTRIES;
    uint64_t latest = remembered(lane, object->bound), more = object->bound - latest;
    if (!latest || object->place >= RAW_FOREIGN_LIMIT) return 0;
    remember(lane, object->bound, object->lane);
    *(*at)++ = (uint16_t)object->place;
    if (!is_opaque(lane)) more = more * RAW_FOREIGN_CLASSES + object->size_class;
    *at = put_number(*at, more);
    return RAW_UNIT_FOREIGN + (entry << RAW_FOREIGN_ENTRY_SHIFT) + (object->place >> 16);
}

void units_free(struct units_lane *lane, unsigned kind, const struct units_object *object,
                uint64_t size, uint64_t alignment)
{
    uint16_t *at = rest_of_record(lane);
    unsigned shape = call_shapes[kind], range = range_of(lane, kind), first = 0;
    if (!object->bound)
        first = put_near(lane, &at, range, object);
    else if (range == RAW_FREE_1)
        first = put_foreign(lane, &at, object);
    if (!first) first = RAW_UNIT_GENERAL + kind + put_object(lane, &at, object);
    if (shape_has_size(shape)) at = put_number(at, size);
    if (shape_has_alignment(shape)) at = put_number(at, alignment);
    finish_event(lane, first, at, is_opaque(lane));
}

void units_heap_call(struct units_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second)
{
    uint16_t *at = put_number(rest_of_record(lane), count);
    if (count > 0) at = put_number(at, first);
    if (count > 1) at = put_number(at, second);
    finish_event(lane, RAW_UNIT_GENERAL + kind, at, 0);
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

void units_thread(struct units_lane *lane, unsigned record, uint64_t thread_id)
{
    uint16_t *at = rest_of_record(lane);
    if (record == RAW_THREAD_BEGIN) at = put_number(at, thread_id);
    finish(lane, RAW_UNIT_GENERAL + record, at);
}

void units_sequence(struct units_lane *lane, unsigned structure, uint64_t number)
{
    unsigned entry = structure == RAW_STRUCTURE_PAGE_HEAP ? RAW_SIZE_CLASSES_MAX : structure;
    unsigned first = lane->allocating ? RAW_UNIT_SEQUENCE_BEFORE : RAW_UNIT_SEQUENCE_AFTER;
    uint16_t *at = put_number(rest_of_record(lane), number - lane->sequences[entry]);
    lane->sequences[entry] = number;
    finish(lane, first + structure, at);
}

void units_lost(struct units_lane *lane, uint64_t events, uint64_t allocations)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), events), allocations);
    finish_record(lane, RAW_UNIT_GENERAL + RAW_LOST, at, false, allocations);
}

void units_class(struct units_lane *lane, unsigned size_class, uint64_t bytes)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), size_class), bytes);
    lane->announced[size_class / 64] |= UINT64_C(1) << size_class % 64;
    finish(lane, RAW_UNIT_GENERAL + RAW_CLASS, at);
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

void units_uncached(struct units_lane *lane, unsigned size_class, unsigned count)
{
    uint16_t *at = put_number(put_number(rest_of_record(lane), size_class), count);
    finish(lane, RAW_UNIT_GENERAL + RAW_UNCACHED, at);
}

void units_inside(struct units_lane *lane, unsigned what, uint64_t amount)
{
    uint16_t *at = put_number(rest_of_record(lane), 2 * what + !lane->allocating);
    finish(lane, RAW_UNIT_GENERAL + RAW_INSIDE, put_number(at, amount));
}

void units_page(struct units_lane *lane, uint32_t first, uintptr_t address)
{
    uint64_t eighths = address / 8;
    uint16_t *at = put_number(rest_of_record(lane), zigzag((int64_t)(first - lane->page_place)));
    at = put_number(at, zigzag((int64_t)(eighths - lane->page_address)));
    lane->page_place = first;
    lane->page_address = eighths;
    finish(lane, RAW_UNIT_GENERAL + RAW_PAGE, at);
}

/* --- call stacks --- */

void units_stack(struct units_lane *lane, uint32_t node)
{
    uint16_t *at = rest_of_record(lane);
    if (node >= RAW_STACK_LIMIT)
        return finish(lane, RAW_UNIT_GENERAL + RAW_STACK, put_number(at, node));
    *at++ = (uint16_t)node;
    finish(lane, RAW_UNIT_STACK + (node >> 16), at);
}

/* The first of some numbers, as a difference to the one behind the latest. */
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

static uint16_t *put_nodes(struct units_lane *lane, uint16_t *at,
                           const struct stack_definition *definition)
{
    at = put_first(at, &lane->next_node, definition);
    at = put_number(at, definition->number - definition->of);
    for (uint32_t i = 0; i < definition->count; i++)
        at = put_number(at, definition->codes[i]);
    return at;
}

void units_define(struct units_lane *lane, const struct stack_definition *definition)
{
    const unsigned what = definition->what;
    uint32_t more = 0;
    if (what == STACK_TEXT) more = definition->of;
    if (what == STACK_CODES || what == STACK_NODES) more = definition->count;
    uint16_t *at = put_number(rest_of_record(lane), what | more << RAW_DEFINE_BITS);
    switch (what) {
    case STACK_MODULE: at = put_module(at, definition); break;
    case STACK_TEXT: at = put_piece(at, definition); break;
    case STACK_CODES: at = put_codes(lane, at, definition); break;
    case STACK_NODES: at = put_nodes(lane, at, definition); break;
    default: at = put_number(at, definition->number);
    }
    finish(lane, RAW_UNIT_GENERAL + RAW_DEFINE, at);
}

/* --- units that stand there --- */

uint64_t units_events(const uint8_t *profile, uint32_t features, const uint16_t *units,
                      size_t count)
{
    struct forms forms;
    const uint16_t *end = units + count;
    struct raw_said said;
    uint64_t events = 0;
    fill_forms(&forms, profile, features);
    while (units < end) {
        unsigned passed = units_of_form(&forms, units, end);
        if (passed) {
            units += passed;
            events++;
            continue;
        }
        struct raw_units walk = raw_units_over(profile, features, units, (size_t)(end - units));
        if (!raw_units_take(&walk, &said)) break;
        units += (walk.at - (const uint8_t *)units) / 2;
        /* Calls are events, also those that failed. */
        events += said.number < CALL_KINDS || said.number == RAW_FAILED;
    }
    return events;
}

size_t units_whole(const uint8_t *profile, uint32_t features, const uint16_t *units, size_t count,
                   size_t units_max)
{
    struct raw_units walk = raw_units_over(profile, features, units, count);
    size_t whole = 0;
    struct raw_said said;
    while (walk.at < walk.end && raw_units_take(&walk, &said)) {
        size_t passed = (size_t)(walk.at - (const uint8_t *)units) / 2;
        if (passed > units_max) break;
        whole = passed;
    }
    return whole;
}
