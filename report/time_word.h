/* time_word - a time on the command line: "1.5", "1.5s", "300ms", "2min". */
#ifndef MALLOCTAPE_REPORT_TIME_WORD_H
#define MALLOCTAPE_REPORT_TIME_WORD_H

#include <stdbool.h>
#include <stdint.h>

/* In ns; without a unit it is seconds. False: it is none. */
bool time_word_parse(const char *text, uint64_t *ns);

#endif
