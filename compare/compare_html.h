/* compare_html - a comparison as one page. */
#ifndef MALLOCTAPE_COMPARE_COMPARE_HTML_H
#define MALLOCTAPE_COMPARE_COMPARE_HTML_H

#include "compare/comparison.h"

/* One HTML page with everything in it. False: `why` says what is missing or cannot be written. */
bool compare_html_write(const struct compare *compare, const char *path, char *why,
                        size_t why_bytes);

#endif
