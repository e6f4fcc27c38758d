/* compare/tune - settings of the known allocators that are worth a try: compare --tune. */
#ifndef MALLOCTAPE_COMPARE_TUNE_H
#define MALLOCTAPE_COMPARE_TUNE_H

#include <stdbool.h>

#include "compare/list.h"

/* Appends these settings to the list, for each allocator that is in it without settings. False:
 * `why` says what is missing. */
bool compare_tune(struct compare_list *list, char *why, size_t why_bytes);

/* always, madvise, never; NULL at the end. */
extern const char *const compare_huge_pages[];

/* Adds each allocator of the list with huge pages as each of these words says, separated by commas.
 * False: `why`. */
bool compare_vary_huge_pages(struct compare_list *list, const char *words, char *why,
                             size_t why_bytes);

#endif
