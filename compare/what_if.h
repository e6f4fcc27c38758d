/* compare/what_if - rows of changed code.
 *
 *   --what-if 'parse: remove' --change/change_stream.c--> a changed stream, in the comparison's
 *                                                         directory, beside the ordered one
 *   each entry of --allocators, or the recorded allocator, and each change: a row
 *
 * A row of changed code is replayed in turns with the others, and compared with the recorded
 * allocator's row: what the changed program takes is what the program took, and the difference
 * between these two. */
#ifndef MALLOCTAPE_COMPARE_WHAT_IF_H
#define MALLOCTAPE_COMPARE_WHAT_IF_H

#include "compare/comparison.h"

/* How many rows there may be in addition. */
size_t compare_what_if_rows(const struct compare_options *options);

/* Writes the changed streams and adds their rows, once compare->recorded is known. False: `why` says
 * what is wrong, such as that a change matches nothing. */
bool compare_what_if_open(struct compare *compare, char *why, size_t why_bytes);
void compare_what_if_close(struct compare *compare);

/* Prints below a row what was changed; `counts`: and what that concerned. */
void compare_what_if_print(const struct compare_row *row, bool counts, FILE *to);

/* A new object; null for a row without a change. */
json_t *compare_what_if_json(const struct compare_row *row);

#endif
