/* owners_output - owners.h as text and as JSON (docs/report.md). */
#ifndef MALLOCTAPE_REPORT_OWNERS_OUTPUT_H
#define MALLOCTAPE_REPORT_OWNERS_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "report/fragments.h"
#include "report/report_trace.h"

/* The block with which the text begins. `pages`: those of a replay under the recorded allocator, where
 * RSS was largest and at the end; or both NULL. */
void owners_print(const struct report_trace *trace, const struct fragments *const *pages, FILE *to);

/* The same in a sentence, on its line. */
void owners_say(const struct report_trace *trace, FILE *to);

/* A new object. */
json_t *owners_json(const struct owners *owners);

/* What a row is called: "mapped by main", "stacks of 3 threads" ... In words.h's ring.
 * `owners` NULL: of several traces. */
const char *owners_words(const struct owners *owners, const struct owners_row *row);

#endif
