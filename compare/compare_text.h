/* compare_text - pieces of text that tables, page and verdict share. */
#ifndef MALLOCTAPE_COMPARE_COMPARE_TEXT_H
#define MALLOCTAPE_COMPARE_COMPARE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Opens a stream into `text`, which truncates at `bytes`. NULL: no memory, and the text is
 * empty. */
FILE *compare_text_open(char *text, size_t bytes);

/* "0.0907 s", "1.62 s", "1234 s"; "0.3 %", "8 %". */
void compare_put_seconds(FILE *to, double seconds);
void compare_put_share(FILE *to, double share);

#endif
