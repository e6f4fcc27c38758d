/* compare_json - a comparison as JSON. */
#ifndef MALLOCTAPE_COMPARE_COMPARE_JSON_H
#define MALLOCTAPE_COMPARE_COMPARE_JSON_H

#include "compare/comparison.h"

/* Everything as one JSON object, with or without the reports that it was made from. The caller owns
 * it. */
json_t *compare_json(const struct compare *compare, bool with_reports);

#endif
