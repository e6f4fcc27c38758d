/* raw_units - what the units of one record say (FORMAT.md 5.2, 5.5), for the writer and for
 * readers.
 *
 *   units of a segment --raw_units_take()--> raw_said --> raw_decoder   what it means in its lane
 *                                                 --> pack          what it does to a cache
 *                                                 --> units         which kinds of calls there are
 *
 * A record is taken apart by itself: differences stay differences, an age stays an age. What can
 * be wrong about the record alone is found here; the rest is for whoever knows the lane.
 *
 * Most records are allocations and frees that need nothing but their first unit, one more for a
 * far place and one for the size that a free is given. raw_forms_fill() says which first units
 * begin such a record, for loops that do nothing else (raw_shorts.h, pack.c).
 *
 * No memory, no system calls. Nothing behind `end` is read. */
#ifndef MALLOCTAPE_RAW_UNITS_H
#define MALLOCTAPE_RAW_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "raw_error.h"
#include "raw_format.h"
#include "stack_definition.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a record names the object that ends (or, if the call failed, stays). */
enum raw_naming {
    RAW_NAMES_NONE,
    RAW_NAMES_OWN,     /* the lane has it: by its place */
    RAW_NAMES_AGED,    /* the same, by its age */
    RAW_NAMES_FOREIGN, /* by lane and bound */
    RAW_NAMES_ENTRY,   /* by a lane that the segment remembers, and how much more the bound is */
    RAW_NAMES_UNKNOWN  /* by its place, if it has one that matters */
};

/* How the place of an object that begins is said. */
enum raw_placing {
    RAW_PLACES_ITSELF, /* or not at all */
    RAW_PLACES_LISTED, /* by where it is in a list (FORMAT.md 5.6), from 0 */
    RAW_PLACES_NEARBY  /* by a zigzag difference */
};

/* What a record does not have is zero; of `cached` and `definition`, undefined. */
struct raw_said {
    uint8_t number;       /* FORMAT.md 3 */
    uint8_t kind;         /* of the call that failed; else the number */
    uint8_t shape;        /* enum call_shape of the number */
    uint8_t range;        /* of the code; RAW_RANGES: the code has none */
    uint8_t naming;       /* enum raw_naming */
    uint8_t object_units; /* first units that say an own object, if the code has a range */
    bool begins;          /* an object begins */
    uint32_t structure;   /* sequence numbers; of class, cached, uncached the class; inside: what */
    uint32_t count;       /* numbers of a HEAP call, places of cached */
    uint32_t ends;        /* place of the object that ends, or its age */
    uint32_t ends_class;  /* if the record says it */
    uint32_t place;       /* of the object that begins; 0: none is said */
    uint32_t place_class;
    uint64_t lane, bound;   /* foreign; entry: which one, and the difference */
    uint8_t placing;        /* enum raw_placing: how the place is said, */
    uint64_t nearby;        /* and what, if `place` does not say it */
    uint64_t size, operand; /* as in struct record; of a sequence number, the difference; of a
                               definition the difference of the first code or node, and of that
                               node to its parent */
    uint64_t address;       /* zigzag number */
    enum raw_error wrong;   /* if raw_units_take() returned false, */
    uint64_t wrong_value;   /* and the number that is wrong */
    uint32_t cached[RAW_CACHED_MAX];
    struct stack_definition
        definition; /* but for the numbers of codes and nodes and their parent */
};

struct raw_units {
    const uint8_t *at, *end;
    const uint8_t *profile;
    uint32_t features; /* of the stream: RAW_FEATURE_... */
    bool packed;       /* units may say ages */

    /* Of the record at hand: raw_units.c. */
    bool is_cut;    /* it needs units behind the end */
    bool too_large; /* it has a number of more than 64 bits */
};

/* Over units as a thread has written them. */
static inline struct raw_units raw_units_over(const uint8_t *profile, uint32_t features,
                                              const uint16_t *units, size_t count)
{
    return (struct raw_units){.at = (const uint8_t *)units,
                              .end = (const uint8_t *)(units + count),
                              .profile = profile,
                              .features = features,
                              .packed = false,
                              .is_cut = false,
                              .too_large = false};
}

/* Takes the next record; there is at least a unit. False: see said->wrong. */
bool raw_units_take(struct raw_units *units, struct raw_said *said);

/* What first units with the same upper bits begin, and what their operand is. */
enum raw_form_of {
    RAW_FORM_OTHER,      /* some other record, or none */
    RAW_FORM_ALLOCATION, /* from the cache: the operand is the size */
    RAW_FORM_COMPACT,    /* of an opaque stream: with the next unit, raw_compact_of() */
    RAW_FORM_NEAR,       /* a free: the operand is the place, */
    RAW_FORM_FAR,        /* with the next unit, */
    RAW_FORM_AGED        /* or the age */
};

/* An allocation that says size and place in its first two units. */
struct raw_compact {
    uint32_t size, place;
};

static inline struct raw_compact raw_compact_of(uint32_t first, uint32_t second)
{
    uint32_t number = (first - RAW_COMPACT_FIRST) << 16 | second;
    return (struct raw_compact){number >> RAW_COMPACT_PLACE_BITS,
                                number & ((1u << RAW_COMPACT_PLACE_BITS) - 1)};
}

struct raw_form {
    uint8_t form; /* enum raw_form_of */
    uint8_t kind;
    uint8_t range;
    bool is_sized; /* the size given to a free follows, a number */
    uint16_t base; /* the operand is the unit less this */
};
#define RAW_FORM_SHIFT     9
#define RAW_FORMS          (0x10000u >> RAW_FORM_SHIFT)
/* Of the longest record that has a form. */
#define RAW_FORM_UNITS_MAX 3

void raw_forms_fill(struct raw_form forms[RAW_FORMS], const uint8_t *profile, uint32_t features,
                    bool packed);

/* What each first byte of packed units says (FORMAT.md 5.5): the unit, and which of the next two
 * bytes are added to it.
 *
 *   entry   | mask, 16 bits | base, 16 bits |        unit = base + (the next two bytes & mask)
 */
#define RAW_PACKED_ENTRIES   256
#define RAW_PACKED_MASK_PAGE 0x00ff0000u
#define RAW_PACKED_MASK_UNIT 0xffff0000u
void raw_packed_entries(uint32_t entries[RAW_PACKED_ENTRIES]);

#ifdef __cplusplus
}
#endif
#endif
