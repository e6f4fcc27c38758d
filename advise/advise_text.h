/* advise_text - what trials have shown, as text and as JSON. */
#ifndef MALLOCTAPE_ADVISE_ADVISE_TEXT_H
#define MALLOCTAPE_ADVISE_ADVISE_TEXT_H

#include <jansson.h>

#include "advise/trials.h"

enum { ADVICE_SHOWN = 10 };

/* The trials that gain something, best first. */
size_t advise_best(const struct trials *trials, const struct trial **best);

/* Those that promised more by sums than they gain. */
size_t advise_false(const struct trials *trials, const struct trial **promised);

void advise_print(const struct trials *trials, const char *name, FILE *to);
json_t *advise_json(const struct trials *trials, const char *name);

#endif
