#include "units.h"

#include "../common/varint.h"

#include <string.h>

static const uint8_t shape_of[CALL_KINDS] = {
#define SHAPE_ENTRY(number, identifier, name, shape) [number] = SHAPE_##shape,
    CALL_KIND_LIST(SHAPE_ENTRY)
#undef SHAPE_ENTRY
};

static bool is_birth(unsigned shape)
{
    return shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED;
}

static bool is_death(unsigned shape)
{
    return shape >= SHAPE_DEATH && shape <= SHAPE_DEATH_SIZED_ALIGNED;
}

/* --- units that stand there --- */

/* A walk over records. Whatever the units are, none behind `end` is looked at. */
struct walk {
    const uint16_t *at, *end;
    const uint8_t *profile;
    bool addresses;
};

static unsigned next_unit(struct walk *walk)
{
    return walk->at < walk->end ? *walk->at++ : 0;
}

static void pass_numbers(struct walk *walk, unsigned count)
{
    for (; count > 0; count--)
        while (next_unit(walk) >= RAW_NUMBER_MORE) {}
}

static unsigned shape_of_any(unsigned kind)
{
    return kind < CALL_KINDS ? shape_of[kind] : SHAPE_UNDEFINED;
}

/* What follows the object of a call, or the size of a birth. */
static void pass_rest(struct walk *walk, unsigned shape)
{
    static const uint8_t operands[] = {[SHAPE_BIRTH_ALIGNED] = 1,       [SHAPE_REALLOC] = 1,
                                       [SHAPE_DEATH_SIZED] = 1,         [SHAPE_DEATH_ALIGNED] = 1,
                                       [SHAPE_DEATH_SIZED_ALIGNED] = 2, [SHAPE_HEAP] = 0};
    bool has_address = walk->addresses && (is_birth(shape) || shape == SHAPE_REALLOC);
    pass_numbers(walk, operands[shape] + has_address);
}

static void pass_object(struct walk *walk, unsigned first)
{
    pass_numbers(walk, first & RAW_GENERAL_UNKNOWN ? 0 : first & RAW_GENERAL_FOREIGN ? 2 : 1);
}

static void pass_failed(struct walk *walk, unsigned first)
{
    unsigned shape = shape_of_any(next_unit(walk));
    if (shape == SHAPE_REALLOC) pass_object(walk, first);
    pass_numbers(walk, shape == SHAPE_BIRTH_ALIGNED ? 2 : 1);
}

/* A record by its number. Returns whether it is an event. */
static bool pass_general(struct walk *walk, unsigned first)
{
    unsigned number = first & RAW_GENERAL_NUMBER, shape = shape_of_any(number);
    if (number == RAW_FAILED) {
        pass_failed(walk, first);
    } else if (number >= CALL_KINDS) {
        pass_numbers(walk, number == RAW_LOST ? 2 : number == RAW_THREAD_BEGIN);
        return false;
    } else if (shape == SHAPE_HEAP) {
        pass_numbers(walk, next_unit(walk));
    } else {
        is_birth(shape) ? pass_numbers(walk, 1) : pass_object(walk, first);
        pass_rest(walk, shape);
    }
    return true;
}

/* The range of a first unit, which is below RAW_UNIT_GENERAL. */
static unsigned range_of_unit(unsigned first)
{
    static const uint8_t range_at[RAW_UNIT_GENERAL >> 10] = {
        /* by the upper six bits, which are zero in the first places; the last is of foreign objects */
        [0x20] = RAW_BIRTH_1, RAW_BIRTH_1, RAW_BIRTH_1, RAW_BIRTH_1, RAW_BIRTH_1, RAW_BIRTH_1,
        RAW_BIRTH_1,          RAW_BIRTH_1, RAW_DEATH_2, RAW_DEATH_2, RAW_DEATH_2, RAW_DEATH_2,
        RAW_DEATH_2,          RAW_DEATH_2, RAW_DEATH_2, RAW_DEATH_2, RAW_BIRTH_2, RAW_BIRTH_2,
        RAW_BIRTH_2,          RAW_BIRTH_2, RAW_BIRTH_3, RAW_BIRTH_3, RAW_DEATH_1, RAW_DEATH_1,
        RAW_DEATH_3,          RAW_DEATH_3, RAW_REALLOC, RAW_DEATH_1};
    return range_at[first >> 10];
}

static bool is_far(unsigned first)
{
    return first >= RAW_UNIT_DEATH_FAR && first <= RAW_UNIT_DEATH_3;
}

/* Returns whether it is an event. */
static bool pass_record(struct walk *walk)
{
    unsigned first = next_unit(walk);
    if (first >= RAW_UNIT_STAMP_BEFORE) {
        pass_numbers(walk, 1);
        return false;
    }
    if (first >= RAW_UNIT_GENERAL) return pass_general(walk, first);
    if (is_far(first) || first >= RAW_UNIT_FOREIGN) next_unit(walk);
    pass_rest(walk, shape_of_any(walk->profile[range_of_unit(first)]));
    return true;
}

/* --- ranges and profiles --- */

static const struct {
    uint16_t base;
    uint32_t limit;
} ranges[RAW_RANGES] = {
    [RAW_DEATH_1] = {RAW_UNIT_DEATH_1, RAW_DEATH_1_LIMIT},
    [RAW_DEATH_2] = {RAW_UNIT_DEATH_2, RAW_DEATH_2_LIMIT},
    [RAW_DEATH_3] = {RAW_UNIT_DEATH_3, RAW_DEATH_3_LIMIT},
    [RAW_BIRTH_1] = {RAW_UNIT_BIRTH_1, RAW_BIRTH_1_LIMIT},
    [RAW_BIRTH_2] = {RAW_UNIT_BIRTH_2, RAW_BIRTH_2_LIMIT},
    [RAW_BIRTH_3] = {RAW_UNIT_BIRTH_3, RAW_BIRTH_3_LIMIT},
    [RAW_REALLOC] = {RAW_UNIT_REALLOC, RAW_REALLOC_LIMIT},
};

/* Of a lane that nothing is known about. */
static const uint8_t first_profile[RAW_PROFILE_BYTES] = {
    CALL_FREE, CALL_DELETE, CALL_DELETE_SIZED, CALL_MALLOC,
    CALL_NEW,  CALL_CALLOC, CALL_REALLOC_MOVED};

/* So many records at the beginning of a run are looked at to see which kinds are frequent. */
#define SAMPLED_RECORDS 128
/* A range is given to another kind when that one was missed so often in a run. */
#define MISSED_MIN      64
/* In runs with more far distances than one in so many units all are written far: a branch that
 * often goes either way costs more than two bytes. Now and then the run is written normally, to see. */
#define WIDE_ONE_IN     12
#define WIDE_RUNS       16

/* What is counted besides the ranges: kinds without one, and far distances. */
enum { USED_NONE = RAW_RANGES, USED_FAR, USED_COUNTS };

/* RAW_RANGES if there is none. */
static unsigned range_of_kind(const uint8_t *profile, unsigned kind)
{
    unsigned range = 0;
    while (range < RAW_RANGES && profile[range] != kind)
        range++;
    return range;
}

/* How often the kind of each range occurs in the run, also with operands for which the range has no unit; from a sample. */
static void count_ranges(const struct malloctape_lane *lane, const uint16_t *units, size_t count,
                         uint32_t *used)
{
    struct walk walk = {units, units + count, lane->profile, lane->addresses};
    uint32_t sampled[USED_COUNTS] = {0};
    for (unsigned i = 0; i < SAMPLED_RECORDS && walk.at < walk.end; i++) {
        unsigned first = *walk.at;
        pass_record(&walk);
        if (first < RAW_UNIT_GENERAL)
            sampled[range_of_unit(first)]++;
        else if (first < RAW_UNIT_STAMP_BEFORE)
            sampled[range_of_kind(lane->profile, first & RAW_GENERAL_NUMBER)]++;
        sampled[USED_FAR] += is_far(first);
    }
    size_t scale = walk.at == units ? 0 : count / (size_t)(walk.at - units);
    for (unsigned i = 0; i < USED_COUNTS; i++)
        used[i] = sampled[i] * (uint32_t)scale;
}

/* Gives a range to `kind`, which was missed: a free one, else the one that is used least. */
static void give_range(uint8_t *profile, uint32_t *used, unsigned first, unsigned last,
                       unsigned kind, uint32_t missed)
{
    unsigned least = first;
    for (unsigned range = first; range <= last; range++)
        if (!profile[range] || used[range] < used[least]) least = range;
    if (profile[least] && used[least] >= missed) return;
    profile[least] = (uint8_t)kind;
    used[least] = missed;
}

/* The first range of births and of deaths has the most operands: it goes to the most frequent kind. */
static void put_first(uint8_t *profile, uint32_t *used, unsigned first, unsigned last)
{
    for (unsigned range = first + 1; range <= last; range++) {
        if (used[range] <= 2 * used[first]) continue;
        uint8_t kind = profile[first];
        uint32_t uses = used[first];
        profile[first] = profile[range];
        used[first] = used[range];
        profile[range] = kind;
        used[range] = uses;
    }
}

static void choose_profile(struct malloctape_lane *lane, const uint16_t *units, size_t count)
{
    uint32_t used[USED_COUNTS] = {0};
    count_ranges(lane, units, count, used);
    lane->wide = used[USED_FAR] > count / WIDE_ONE_IN && lane->slots % WIDE_RUNS != 0;
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        if (lane->missed[kind] < MISSED_MIN) continue;
        if (is_birth(shape_of[kind]))
            give_range(lane->profile, used, RAW_BIRTH_1, RAW_BIRTH_3, kind, lane->missed[kind]);
        else if (is_death(shape_of[kind]))
            give_range(lane->profile, used, RAW_DEATH_1, RAW_DEATH_3, kind, lane->missed[kind]);
        else
            give_range(lane->profile, used, RAW_REALLOC, RAW_REALLOC, kind, lane->missed[kind]);
    }
    put_first(lane->profile, used, RAW_DEATH_1, RAW_DEATH_3);
    put_first(lane->profile, used, RAW_BIRTH_1, RAW_BIRTH_3);
}

/* The hot path knows only small sizes, and writes no addresses. */
static void set_codes(struct malloctape_lane *lane)
{
    memset(lane->codes, 0, sizeof lane->codes);
    for (unsigned range = RAW_DEATH_1; range <= RAW_BIRTH_3; range++) {
        struct malloctape_code *code = &lane->codes[lane->profile[range]];
        bool birth = range >= RAW_BIRTH_1;
        code->base = ranges[range].base;
        code->limit = ranges[range].limit;
        if (birth && code->limit > MALLOCTAPE_HOT_SIZE_LIMIT)
            code->limit = MALLOCTAPE_HOT_SIZE_LIMIT;
        if (birth && lane->addresses) code->limit = 0;
    }
    struct malloctape_code *death_1 = &lane->codes[lane->profile[RAW_DEATH_1]];
    death_1->far_limit = RAW_DEATH_FAR_LIMIT;
    if (lane->wide) death_1->limit = 0;
    memset(&lane->codes[0], 0, sizeof lane->codes[0]); /* what an unused range has written to */
}

void units_begin_run(struct malloctape_lane *lane, const uint16_t *units, size_t count, bool key)
{
    if (!lane->profile[RAW_DEATH_1])
        memcpy(lane->profile, first_profile, sizeof first_profile);
    else
        choose_profile(lane, units, count);
    set_codes(lane);
    memset(lane->missed, 0, sizeof lane->missed);
    memset(lane->ways, 0, sizeof lane->ways);
    lane->last_address = 0;
    if (key) memset(lane->stamps, 0, sizeof lane->stamps);
}

/* The range of a kind; RAW_RANGES if it has none. */
static unsigned range_of(struct malloctape_lane *lane, unsigned kind)
{
    unsigned range = range_of_kind(lane->profile, kind);
    if (range == RAW_RANGES) lane->missed[kind]++;
    return range;
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

/* Completes the record whose first unit is `first` and whose other units stand behind the cursor up
 * to `end`. */
static void finish(struct malloctape_lane *lane, unsigned first, uint16_t *end, bool is_event)
{
    lane->extra_units += (uint64_t)(end - lane->cursor) - is_event;
    atomic_store_release(lane->cursor, (uint16_t)first);
    atomic_store_release(&lane->cursor, end);
}

/* An object by its distance, or by lane and serial: the flags of its general code. */
static unsigned put_object(struct malloctape_lane *lane, uint16_t **at, uint64_t token)
{
    if (token == RAW_TOKEN_UNKNOWN) return RAW_GENERAL_UNKNOWN;
    uint32_t number = raw_token_lane(token) - 1;
    if (number == lane->number) {
        *at = put_number(*at, lane->next_token - token);
        return 0;
    }
    lane->ways[number % RAW_FOREIGN_WAYS] = token;
    *at = put_number(put_number(*at, number), raw_token_serial(token));
    return RAW_GENERAL_FOREIGN;
}

static uint16_t *put_address(struct malloctape_lane *lane, uint16_t *at, const void *object)
{
    if (!lane->addresses) return at;
    uint64_t address = (uint64_t)(uintptr_t)object / 8;
    at = put_number(at, zigzag((int64_t)(address - lane->last_address)));
    lane->last_address = address;
    return at;
}

void units_birth(struct malloctape_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                 const void *object)
{
    uint16_t *at = lane->cursor + 1;
    unsigned range = range_of(lane, kind);
    unsigned first = RAW_UNIT_GENERAL + kind;
    if (range < RAW_RANGES && size < ranges[range].limit)
        first = ranges[range].base + (unsigned)size;
    else
        at = put_number(at, size);
    if (shape_of[kind] == SHAPE_BIRTH_ALIGNED) at = put_number(at, alignment);
    finish(lane, first, put_address(lane, at, object), true);
    lane->next_token++;
}

void units_realloc(struct malloctape_lane *lane, unsigned kind, uint64_t token, uint64_t size,
                   const void *object)
{
    uint16_t *at = lane->cursor + 1;
    uint64_t distance = lane->next_token - token;
    unsigned first = RAW_UNIT_GENERAL + kind;
    if (range_of(lane, kind) == RAW_REALLOC && distance < RAW_REALLOC_LIMIT)
        first = RAW_UNIT_REALLOC + (unsigned)distance;
    else
        first |= put_object(lane, &at, token);
    finish(lane, first, put_address(lane, put_number(at, size), object), true);
    lane->next_token++;
}

/* The first unit of a death by way of the latest foreign object; 0 if it has none. */
static unsigned put_foreign(struct malloctape_lane *lane, uint16_t **at, uint64_t token)
{
    unsigned way = (raw_token_lane(token) - 1) % RAW_FOREIGN_WAYS;
    uint64_t latest = lane->ways[way];
    uint64_t coded = zigzag((int64_t)(token - latest));
    if (token == RAW_TOKEN_UNKNOWN || raw_token_lane(latest) != raw_token_lane(token) ||
        coded >= RAW_FOREIGN_LIMIT)
        return 0;
    lane->ways[way] = token;
    *(*at)++ = (uint16_t)coded;
    return RAW_UNIT_FOREIGN + (way << RAW_FOREIGN_WAY_SHIFT) + (unsigned)(coded >> 16);
}

static unsigned put_death(struct malloctape_lane *lane, uint16_t **at, unsigned kind,
                          uint64_t token)
{
    uint64_t distance = lane->next_token - token;
    unsigned range = range_of(lane, kind);
    unsigned first = 0;
    if (range < RAW_RANGES && distance < ranges[range].limit) {
        first = ranges[range].base + (unsigned)distance;
    } else if (range == RAW_DEATH_1 && distance < RAW_DEATH_FAR_LIMIT) {
        first = RAW_UNIT_DEATH_FAR + (unsigned)(distance >> 16);
        *(*at)++ = (uint16_t)distance;
    } else if (range == RAW_DEATH_1) {
        first = put_foreign(lane, at, token);
    }
    return first ? first : RAW_UNIT_GENERAL + kind + put_object(lane, at, token);
}

void units_death(struct malloctape_lane *lane, unsigned kind, uint64_t token, uint64_t size,
                 uint64_t alignment)
{
    uint16_t *at = lane->cursor + 1;
    unsigned shape = shape_of[kind];
    unsigned first = put_death(lane, &at, kind, token);
    if (shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_SIZED_ALIGNED) at = put_number(at, size);
    if (shape == SHAPE_DEATH_ALIGNED || shape == SHAPE_DEATH_SIZED_ALIGNED)
        at = put_number(at, alignment);
    finish(lane, first, at, true);
}

void units_heap_call(struct malloctape_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second)
{
    uint16_t *at = put_number(lane->cursor + 1, count);
    if (count > 0) at = put_number(at, first);
    if (count > 1) at = put_number(at, second);
    finish(lane, RAW_UNIT_GENERAL + kind, at, true);
}

void units_failed(struct malloctape_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  uint64_t token)
{
    uint16_t *at = put_number(lane->cursor + 1, kind);
    unsigned flags = 0;
    if (shape_of[kind] == SHAPE_REALLOC) flags = put_object(lane, &at, token);
    at = put_number(at, size);
    if (shape_of[kind] == SHAPE_BIRTH_ALIGNED) at = put_number(at, alignment);
    finish(lane, RAW_UNIT_GENERAL + RAW_FAILED + flags, at, true);
}

void units_thread(struct malloctape_lane *lane, unsigned record, uint64_t thread_id)
{
    uint16_t *at = lane->cursor + 1;
    if (record == RAW_THREAD_BEGIN) at = put_number(at, thread_id);
    finish(lane, RAW_UNIT_GENERAL + record, at, false);
}

void units_stamp(struct malloctape_lane *lane, unsigned structure, uint64_t number)
{
    unsigned entry = structure == RAW_STRUCTURE_PAGE_HEAP ? RAW_SIZE_CLASSES_MAX : structure;
    unsigned first = lane->allocating ? RAW_UNIT_STAMP_BEFORE : RAW_UNIT_STAMP_AFTER;
    uint16_t *at = put_number(lane->cursor + 1, number - lane->stamps[entry]);
    lane->stamps[entry] = number;
    finish(lane, first + structure, at, false);
}

void units_lost(struct malloctape_lane *lane, uint64_t events, uint64_t births)
{
    uint16_t *at = put_number(put_number(lane->cursor + 1, events), births);
    finish(lane, RAW_UNIT_GENERAL + RAW_LOST, at, false);
}

/* --- counting --- */

uint64_t units_events(const uint8_t *profile, bool addresses, const uint16_t *units, size_t count)
{
    struct walk walk = {units, units + count, profile, addresses};
    uint64_t events = 0;
    while (walk.at < walk.end)
        events += pass_record(&walk);
    return events;
}
