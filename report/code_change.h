/* code_change - two traces with call stacks side by side: what grew, by function (or whatever the
 * rows of by_code.h are). Rows are matched by name, so two builds of a program can be compared. */
#ifndef MALLOCTAPE_REPORT_CODE_CHANGE_H
#define MALLOCTAPE_REPORT_CODE_CHANGE_H

#include <jansson.h>

#include "report/by_code.h"

struct code_change_row {
    const char *name;
    double before[BY_CODE_NUMBERS], after[BY_CODE_NUMBERS]; /* of itself */
};

struct code_change {
    const struct by_code *code;   /* of the second trace; NULL: a trace has no call stacks */
    struct code_change_row *rows; /* those that differ */
    size_t count;
};

/* False: no memory. */
bool code_change_open(struct code_change *change, const struct by_code *before,
                      const struct by_code *after);
void code_change_close(struct code_change *change);

void code_change_print(const struct code_change *change, FILE *to);

/* A new array with an object for each row that differs: its `name`, and for each number `before`,
 * `after`, `difference` and `per_cent`. */
json_t *code_change_json(const struct code_change *change);

#endif
