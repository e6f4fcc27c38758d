/* by_code_cells - the columns that every table of code has in JSON. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_CELLS_H
#define MALLOCTAPE_REPORT_BY_CODE_CELLS_H

#include <math.h>

#include "report/table.h"

/* The cells of the measures that every table has, from `sums`. */
#define BY_CODE_CELLS(sums)                                                          \
    {"made", .value = round((sums)->objects[STACK_MADE].value)},                     \
        {"bytes", .value = round((sums)->bytes[STACK_MADE].value)},                  \
        {"peak_objects", .value = round((sums)->objects[STACK_AT_PEAK].value)},      \
        {"peak_bytes", .value = round((sums)->bytes[STACK_AT_PEAK].value)},          \
        {"end_objects", .value = round((sums)->objects[STACK_AT_END].value)},        \
        {"end_bytes", .value = round((sums)->bytes[STACK_AT_END].value)},            \
        {"short_lived", .value = round((sums)->objects[STACK_SHORT_LIVED].value)},   \
        {"grown", .value = round((sums)->objects[STACK_GROWN].value)},               \
        {"grown_bytes", .value = round((sums)->bytes[STACK_GROWN].value)},           \
        {"remote_frees", .value = round((sums)->objects[STACK_REMOTE].value)},       \
        {"freed", .value = round((sums)->objects[STACK_FREED].value)},               \
        {"freed_bytes", .value = round((sums)->bytes[STACK_FREED].value)},           \
        {"freed_remote", .value = round((sums)->objects[STACK_FREED_REMOTE].value)}, \
    {                                                                                \
        "mapped", .value = round((sums)->bytes[STACK_MAPPED].value)                  \
    }

#endif
