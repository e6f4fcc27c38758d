/* call_table - names and shapes of calls by number, made from the list in call_kind.h.
 *
 * Indexed with the six bits that a format gives a number; undefined numbers have SHAPE_UNDEFINED
 * and NULL. */
#ifndef MALLOCTAPE_CALL_TABLE_H
#define MALLOCTAPE_CALL_TABLE_H

#include <stdint.h>

#include "call_kind.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CALL_TABLE_SIZE 64

extern const uint8_t call_shapes[CALL_TABLE_SIZE]; /* enum call_shape */
extern const char *const call_names[CALL_TABLE_SIZE];

#ifdef __cplusplus
}
#endif
#endif
