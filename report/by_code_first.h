/* by_code_first - the first table about code: of each number that tells of a fault those rows that
 * have most of it, each row once. What a library whose source is not known makes counts for the line
 * that called it. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_FIRST_H
#define MALLOCTAPE_REPORT_BY_CODE_FIRST_H

#include <jansson.h>

#include "report/by_code.h"

/* Prints nothing if nothing stands out. */
void by_code_print_first(const struct by_code *code, FILE *to);

/* Adds the same table, `first`, to an object. */
void by_code_put_first(json_t *object, const struct by_code *code);

#endif
