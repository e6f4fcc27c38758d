/* units_read - reads the records that units.h writes.
 *
 * A record is read by itself: differences stay differences, an age stays an age. Errors of the
 * record alone are found here; what it means in its lane is for raw_decoder, what it does to a cache
 * for pack as well. Any thread may read units that have been written. */
#ifndef MALLOCTAPE_UNITS_READ_H
#define MALLOCTAPE_UNITS_READ_H

#include "stream/raw_error.h"
#include "stream/units.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a record names the object that ends (or, if the call failed, stays). */
enum units_object_form {
    UNITS_OBJECT_NONE,
    UNITS_OBJECT_OWN,      /* the lane has it: by its place */
    UNITS_OBJECT_BY_AGE,   /* the same, by its age */
    UNITS_OBJECT_REMOTE,   /* by lane and bound */
    UNITS_OBJECT_BY_ENTRY, /* by a lane that the segment remembers, and how much more the bound is */
    UNITS_OBJECT_UNKNOWN   /* by its place, if it has one that matters */
};

/* How the place of an object that begins is given. */
enum units_place_form {
    UNITS_PLACE_ITSELF, /* or not at all */
    UNITS_PLACE_LISTED, /* by where it is in a list (FORMAT.md 5.6), from 0 */
    UNITS_PLACE_NEARBY  /* by a zigzag difference */
};

/* A record as its units have it. Fields that it does not have are zero; of `cached` and
 * `definition`, undefined. */
struct units_record {
    uint8_t number;       /* FORMAT.md 3 */
    uint8_t kind;         /* of the call that failed; else the number */
    uint8_t shape;        /* enum call_shape of the number */
    uint8_t range;        /* of the code; RAW_RANGES: the code has none */
    uint8_t object_form;  /* enum units_object_form */
    uint8_t object_units; /* how many first units name an own object, if the code has a range */
    bool begins;          /* an object begins */
    uint8_t place_form;   /* enum units_place_form: how its place is given */
    uint32_t structure;   /* sequence numbers; of class, cached, uncached the class; inside: what */
    uint32_t count;       /* numbers of a HEAP call, places of cached */
    uint32_t ends;        /* place of the object that ends, or its age */
    uint32_t ends_class;  /* if the record has it */
    uint32_t place;       /* of the object that begins; 0: none is given */
    uint32_t place_class;
    uint64_t place_code;    /* the index or difference that gives the place, if `place` does not */
    uint64_t lane, bound;   /* remote; by entry: which one, and the difference */
    uint64_t size, operand; /* as in struct record; of a sequence number, the difference; of a
                               definition the difference of the first code or node, and of that
                               node to its parent */
    uint64_t address;       /* zigzag number */
    enum raw_error wrong;   /* if units_read() returned false, */
    uint64_t wrong_value;   /* and the number that is wrong */
    uint32_t cached[RAW_CACHED_MAX];
    struct stack_definition
        definition; /* but for the numbers of codes and nodes and their parent */
};

/* Calls are events, also those that failed. */
static inline bool units_is_event(const struct units_record *coded)
{
    return coded->number < CALL_KINDS || coded->number == RAW_FAILED;
}

/* That of a stream. */
const struct units_dialect *units_dialect_of(uint32_t features);

/* Nothing from `end` on is read. */
struct units_reader {
    const uint8_t *at, *end;
    const uint8_t *profile;
    const struct units_dialect *dialect;
    uint32_t features; /* of the stream: RAW_FEATURE_... */
    bool packed;       /* units may be those of a packed chunk (FORMAT.md 5.5, 5.6) */

    /* Of the record at hand: units_take.c. */
    bool is_cut;    /* it needs units after the end */
    bool too_large; /* it has a number of more than 64 bits */
};

/* Reads the next record; there is at least a unit. False: see coded->wrong. */
bool units_read(struct units_reader *reader, struct units_record *coded);

/* The same, of units that a thread has written, in a segment of that profile: where the next record
 * begins; NULL: it is damaged or cut. */
const uint16_t *units_next(const uint8_t *profile, uint32_t features, const uint16_t *at,
                           const uint16_t *end, struct units_record *coded);

/* ---- reading many ----
 *
 * Most records are allocations and frees that need only their first unit, one more for a
 * long code and one for the size that a free is given. A table says which first units begin such a
 * call, for loops that do nothing else (raw_calls.h, pack_...c). */

/* What the operand of the first unit is. */
enum units_call_form {
    UNITS_CALL_OTHER,      /* some other record, or none */
    UNITS_CALL_ALLOCATION, /* from the cache: the size */
    UNITS_CALL_COMPACT,    /* of an opaque stream: with the next unit, units_uncompact() */
    UNITS_CALL_SHORT,      /* a free: the place, */
    UNITS_CALL_LONG,       /* with the next unit, */
    UNITS_CALL_BY_AGE      /* or the age */
};

struct units_call {
    uint8_t form; /* enum units_call_form */
    uint8_t kind;
    uint8_t range;
    bool is_sized; /* the size given to a free follows, a number */
    uint8_t units; /* without the size given; 0: another record */
    uint16_t base; /* the operand is the unit less this */
};

/* First units with the same upper bits begin the same kind of record. */
#define UNITS_CALL_SHIFT     9
#define UNITS_CALLS          (0x10000u >> UNITS_CALL_SHIFT)
/* The units of the longest of these calls. */
#define UNITS_CALL_UNITS_MAX 3

void units_fill_calls(struct units_call calls[UNITS_CALLS], const uint8_t *profile,
                      uint32_t features, bool packed);

/* Units of the next record, if it is such a call; 0: it is not, or may be the last. */
static inline unsigned units_of_call(const struct units_call calls[UNITS_CALLS], const uint16_t *at,
                                     const uint16_t *end)
{
    if (end - at <= UNITS_CALL_UNITS_MAX) return 0;
    const struct units_call *call = &calls[*at >> UNITS_CALL_SHIFT];
    if (!call->is_sized) return call->units;
    return at[call->units] < RAW_NUMBER_MORE ? call->units + 1u : 0;
}

/* Whether this first unit begins a record of two units that gives the stack of a call. */
static inline bool units_begins_stack(uint32_t unit)
{
    return unit - RAW_UNIT_STACK < RAW_STACK_LIMIT >> 16;
}

/* How many of these records are events. `units` are whole records of a segment with that profile. */
uint64_t units_events(const uint8_t *profile, uint32_t features, const uint16_t *units,
                      size_t count);

/* How many of these units, at most `units_max`, are whole records. */
size_t units_whole(const uint8_t *profile, uint32_t features, const uint16_t *units, size_t count,
                   size_t units_max);

#ifdef __cplusplus
}
#endif
#endif
