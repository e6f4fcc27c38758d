/* owners_change - who has more or less of RSS in the second of two traces (owners.h), at the peak and
 * at the end. */
#ifndef MALLOCTAPE_REPORT_OWNERS_CHANGE_H
#define MALLOCTAPE_REPORT_OWNERS_CHANGE_H

#include <jansson.h>
#include <stdio.h>

#include "report/owners.h"

/* Bytes. */
struct owners_change_row {
    enum owners_kind kind;
    const char *name;         /* of the owner, as in its row; "" */
    uint64_t peak[2], end[2]; /* in the first trace, in the second */
};

struct owners_change {
    bool is_known; /* both traces say who has RSS */
    struct owners_change_row *rows;
    size_t count;
    uint64_t peak[2];
};

/* False: no memory. */
bool owners_change_open(struct owners_change *change, const struct owners *before,
                        const struct owners *after);
void owners_change_close(struct owners_change *change);

void owners_change_print(const struct owners_change *change, FILE *to);

/* A new array. */
json_t *owners_change_json(const struct owners_change *change);

#endif
