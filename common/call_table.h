/* call_table - names and shapes of calls by number, made from the list in call_kind.h.
 *
 * Indexed with the six bits that a format gives a number; undefined numbers have SHAPE_UNDEFINED
 * and NULL. */
#ifndef MALLOCTAPE_CALL_TABLE_H
#define MALLOCTAPE_CALL_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/call_kind.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CALL_TABLE_SIZE 64

extern const uint8_t call_shapes[CALL_TABLE_SIZE]; /* enum call_shape */
extern const char *const call_names[CALL_TABLE_SIZE];

/* ---- what the arguments of a shape are ---- */

static inline bool shape_is_allocation(unsigned shape)
{
    return shape == SHAPE_ALLOCATION || shape == SHAPE_ALLOCATION_ALIGNED;
}

static inline bool shape_is_free(unsigned shape)
{
    return shape >= SHAPE_FREE && shape <= SHAPE_FREE_SIZED_ALIGNED;
}

/* Whether an object begins, unless the call fails; and whether one ends. A realloc does both. */
static inline bool shape_begins(unsigned shape)
{
    return shape_is_allocation(shape) || shape == SHAPE_REALLOC;
}

static inline bool shape_ends(unsigned shape)
{
    return shape_is_free(shape) || shape == SHAPE_REALLOC;
}

static inline bool shape_has_size(unsigned shape)
{
    return shape_begins(shape) || shape == SHAPE_FREE_SIZED || shape == SHAPE_FREE_SIZED_ALIGNED;
}

static inline bool shape_has_alignment(unsigned shape)
{
    return shape == SHAPE_ALLOCATION_ALIGNED || shape == SHAPE_FREE_ALIGNED ||
           shape == SHAPE_FREE_SIZED_ALIGNED;
}

#ifdef __cplusplus
}
#endif
#endif
