/* sweep/plan_line - the line of a value in a JSON text, of which the parser tells none. */
#ifndef MALLOCTAPE_SWEEP_PLAN_LINE_H
#define MALLOCTAPE_SWEEP_PLAN_LINE_H

#include <stddef.h>

/* The way to a value: the member of that name, or without a name the element of that index, of the
 * value above; without one above: the whole. */
struct plan_place {
    const struct plan_place *above;
    const char *member;
    size_t index;
};

/* From 1. `place` NULL: of the whole. `text` is valid JSON; of a place that it does not have, the line of what is above. */
unsigned plan_line(const char *text, const struct plan_place *place);

#endif
