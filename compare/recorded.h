/* compare/recorded - which entry is the allocator that the recorded program had.
 *
 *   "gperftools 2.16", settings --> tcmalloc, the same settings --> a row of the list, or one more
 *
 * A row more is replayed and shown like the others, unless that fails: nobody has asked for it. */
#ifndef MALLOCTAPE_COMPARE_RECORDED_H
#define MALLOCTAPE_COMPARE_RECORDED_H

#include <stdbool.h>

struct compare;

/* Sets compare->recorded; it stays NULL if compare does not know the allocator. Once the report of the null engine is
 * known. The array of rows has room for one more. */
bool compare_recorded_find(struct compare *compare);

/* After all replays: a row more that failed is hidden. */
void compare_recorded_hide(struct compare *compare);

void compare_recorded_close(struct compare *compare);

#endif
