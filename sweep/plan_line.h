/* sweep/plan_line - finds the line of a value in a JSON text, which the parser does not tell. */
#ifndef MALLOCTAPE_SWEEP_PLAN_LINE_H
#define MALLOCTAPE_SWEEP_PLAN_LINE_H

#include <stddef.h>

/* The path to a value: the member of that name or, without a name, the element of that index, in
 * the value `above`; if that is NULL, in the whole text. */
struct plan_place {
    const struct plan_place *above;
    const char *member;
    size_t index;
};

/* The line of a place, from 1. `place` NULL: of the whole text. `text` must be valid JSON. If it
 * does not have the place, the line of the value above. */
unsigned plan_line(const char *text, const struct plan_place *place);

#endif
