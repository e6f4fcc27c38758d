/* compare/recorded - which entry is the allocator that the recorded program had.
 *
 *   "gperftools 2.10", settings --> tcmalloc, the same settings --> a row of the list, or one more
 *
 * A row more is replayed like the others, but not shown. */
#ifndef MALLOCTAPE_COMPARE_RECORDED_H
#define MALLOCTAPE_COMPARE_RECORDED_H

#include <stdbool.h>

struct compare;

/* Sets compare->recorded; it stays NULL if compare does not know the allocator. Once the facts are
 * known. The array of rows has room for one more. */
bool compare_recorded_find(struct compare *compare);
void compare_recorded_close(struct compare *compare);

#endif
