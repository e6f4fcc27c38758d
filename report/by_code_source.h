/* by_code_source - the source of functions with numbers beside its lines (`report --source`). */
#ifndef MALLOCTAPE_REPORT_BY_CODE_SOURCE_H
#define MALLOCTAPE_REPORT_BY_CODE_SOURCE_H

#include "report/by_code.h"

/* Prints those of functions that are called `name`, or that end with it after a "::"; the rows must be
 * lines. False: no stack has such a function. */
bool by_code_print_source(const struct by_code *code, const char *name, FILE *to);

#endif
