/* units_own - what the files of the codec of units share (units.h).
 *
 *   units.c            records of any stream, written: frees, reallocs, threads, what was lost
 *   units_tcmalloc.c   records of a stream that knows classes and caches, and what only it has
 *   units_opaque.c     the same of an opaque stream (FORMAT.md 5.6): allocations, pages
 *   units_stacks.c     call stacks and what their numbers mean
 *   units_take.c       what records of any stream have, read
 *   units_read.c       any record, and many (units_read.h)
 *
 * units_put_...() stores at `at` and returns the position after that, or advances `*at` and returns
 * the first unit of the record, or its flags. units_take_...() reads at reader->at; false: what is
 * there is wrong, and coded->wrong says how. */
#ifndef MALLOCTAPE_UNITS_OWN_H
#define MALLOCTAPE_UNITS_OWN_H

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/check.h"
#include "stream/units_read.h"
#include "stream/varint.h"

#include <stddef.h>

/* A row of RAW_CODE_LIST, by the first unit of a record: first + least .. first + limit - 1. */
struct units_row {
    uint16_t first, limit;
    uint8_t least, range, form; /* enum units_call_form */
};

/* What tells the streams of one kind of allocator from those of another. */
struct units_dialect {
    /* Reads a record whose first unit has been taken. */
    bool (*read)(struct units_reader *reader, unsigned unit, struct units_record *coded);
    /* What follows the size of an allocation that its row gives. */
    bool (*take_allocation)(struct units_reader *reader, struct units_record *coded);
    /* A record f000..f2ff that is no call, and that other streams do not have. */
    bool (*take_own)(struct units_reader *reader, unsigned unit, struct units_record *coded);
    /* Adds calls that have no row; or NULL. */
    void (*add_calls)(struct units_call calls[UNITS_CALLS], const uint8_t *profile,
                      uint32_t features);
    uint8_t allocation_units; /* of an allocation by its row, if it is not packed */
    bool has_classes;         /* a place is followed by its class */
    bool has_short_frees;     /* units of short frees mean these */
    bool names_new_places;    /* an object that begins has a place, which is not 0 */
    bool counts_frees;        /* bounds count frees, too */
    uint32_t fast_size_limit; /* on the fast path, allocations are smaller */
    uint32_t
        classes_of_bound; /* in what a remote free says, each bound stands for so many numbers */
};
extern const struct units_dialect units_tcmalloc, units_opaque;

/* The range of a kind; RAW_RANGES: it has none. */
static inline unsigned units_range_of(const struct units_lane *lane, unsigned kind)
{
    unsigned range = 0;
    while (range < RAW_RANGES && lane->profile[range] != kind)
        range++;
    return range;
}

/* ---- writing ---- */

/* Where all units of the next record but its first go. */
static inline uint16_t *units_rest_of_record(const struct units_lane *lane)
{
    return units_cursor(lane) + 1;
}

/* Completes the record whose first unit is `first` and whose other units lie between the cursor and
 * `end`. `begins`: how many objects begin; of an opaque allocator calls. */
static inline void units_finish_record(struct units_lane *lane, unsigned first, const uint16_t *end,
                                       bool is_event, uint64_t begins)
{
    uint16_t *cursor = units_cursor(lane);
    atomic_add_own_relaxed(&lane->extra_units, (uint64_t)(end - cursor) - is_event);
    atomic_store_release(cursor, (uint16_t)first);
    atomic_store_release(&lane->head, units_head(end, lane->head + begins));
}

static inline void units_finish_event(struct units_lane *lane, unsigned first, const uint16_t *end,
                                      unsigned begins)
{
    units_finish_record(lane, first, end, true, begins);
}

static inline void units_finish(struct units_lane *lane, unsigned first, const uint16_t *end)
{
    units_finish_record(lane, first, end, false, 0);
}

static inline uint16_t *units_put_number(uint16_t *at, uint64_t value)
{
    while (value >= RAW_NUMBER_MORE) {
        *at++ = (uint16_t)(RAW_NUMBER_MORE | value);
        value >>= RAW_NUMBER_BITS;
    }
    *at++ = (uint16_t)value;
    return at;
}

static inline uint16_t *units_put_address(struct units_lane *lane, uint16_t *at, const void *object)
{
    if (!(lane->features & RAW_FEATURE_ADDRESSES)) return at;
    uint64_t address = (uint64_t)(uintptr_t)object / 8;
    at = units_put_number(at, zigzag((int64_t)(address - lane->last_address)));
    lane->last_address = address;
    return at;
}

/* `bound` is not 0. */
static inline void units_remember(struct units_lane *lane, uint64_t bound,
                                  const struct units_lane *other)
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
static inline uint64_t units_remembered(const struct units_lane *lane, uint64_t bound)
{
    uint64_t latest = lane->remote[raw_allocations_lane(bound) % RAW_REMOTE_ENTRIES].bound;
    bool same = raw_allocations_lane(latest) == raw_allocations_lane(bound);
    return same && latest <= bound ? latest : 0;
}

/* A place, and its class if it has one. */
static inline uint16_t *units_put_place(const struct units_lane *lane, uint16_t *at,
                                        const struct units_object *object)
{
    at = units_put_number(at, object->place);
    return lane->dialect->has_classes ? units_put_number(at, object->size_class) : at;
}

/* ---- reading ---- */

static inline bool units_fail(struct units_record *coded, enum raw_error wrong, uint64_t value)
{
    coded->wrong = wrong;
    coded->wrong_value = value;
    return false;
}

static inline unsigned units_take_unit(struct units_reader *reader)
{
    if (reader->at == reader->end) {
        reader->is_cut = true;
        return 0;
    }
    unsigned unit = bytes_get16(reader->at);
    reader->at += 2;
    return unit;
}

static inline void units_begin_record(struct units_record *coded, unsigned number)
{
    coded->number = coded->kind = (uint8_t)number;
    coded->shape = call_shapes[number];
}

static inline uint64_t units_take_number(struct units_reader *reader)
{
    uint64_t value = 0, unit = RAW_NUMBER_MORE;
    for (unsigned i = 0; unit >= RAW_NUMBER_MORE; i++) {
        if (i == RAW_NUMBER_UNITS_MAX) {
            reader->too_large = true;
            return value;
        }
        unit = units_take_unit(reader);
        uint64_t part = unit & (RAW_NUMBER_MORE - 1);
        value |= part << i * RAW_NUMBER_BITS;
        if (part << i * RAW_NUMBER_BITS >> i * RAW_NUMBER_BITS != part) reader->too_large = true;
    }
    return value;
}

static inline void units_take_address(struct units_reader *reader, struct units_record *coded)
{
    if (reader->features & RAW_FEATURE_ADDRESSES) coded->address = units_take_number(reader);
}

static inline bool units_take_place(struct units_reader *reader, struct units_record *coded,
                                    uint32_t *place)
{
    uint64_t number = units_take_number(reader);
    *place = (uint32_t)number;
    return number < RAW_PLACE_LIMIT || units_fail(coded, RAW_PLACE, number);
}

bool units_take_class(struct units_reader *reader, struct units_record *coded,
                      uint32_t *size_class);
bool units_take_rest(struct units_reader *reader, bool says_place, struct units_record *coded);
bool units_take_record(struct units_reader *reader, unsigned unit, struct units_record *coded);
bool units_take_define(struct units_reader *reader, struct units_record *coded);

/* Whether the stream uses the row. */
static inline bool units_row_is_used(const struct units_row *row,
                                     const struct units_dialect *dialect, bool packed)
{
    if (row->form == UNITS_CALL_BY_AGE) return packed;
    return row->form != UNITS_CALL_SHORT || dialect->has_short_frees;
}

extern const struct units_row units_rows[];
extern const size_t units_rows_count;

#endif
