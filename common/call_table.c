#include "common/call_table.h"

#define CALL_SHAPE_ENTRY(number, identifier, name, shape) [(number)] = SHAPE_##shape,
#define CALL_NAME_ENTRY(number, identifier, name, shape)  [(number)] = (name),

const uint8_t call_shapes[CALL_TABLE_SIZE] = {CALL_KIND_LIST(CALL_SHAPE_ENTRY)};
const char *const call_names[CALL_TABLE_SIZE] = {CALL_KIND_LIST(CALL_NAME_ENTRY)};
