/* words - numbers as people read them, in a text of a static row of texts: the latest WORDS_KEPT
 * stay good. */
#ifndef MALLOCTAPE_REPORT_WORDS_H
#define MALLOCTAPE_REPORT_WORDS_H

#include <stdint.h>

#include "common/numbers.h"

enum { WORDS_KEPT = 64 };

/* 1234567 as "1 234 567". */
const char *words_count(uint64_t number);

/* "24 bytes", "4.5 KiB", "66.5 MiB". */
const char *words_bytes(uint64_t bytes);

/* "24 bytes", "65 536 bytes". */
const char *words_bytes_exact(uint64_t bytes);

/* The same of one size; of several "4 096 to 4 351 bytes". */
const char *words_sizes(uint64_t lowest, uint64_t highest);

/* "12 ms", "3.4 s", "2.1 h". */
const char *words_ms(uint64_t ms);

/* "12.3 %"; "< 0.1 %" rather than 0 for what is there. */
const char *words_share(uint64_t part, uint64_t all);

/* Of a unit (common/numbers.h); "-": not known. */
const char *words_number(enum number_unit unit, long double value);

/* The same of a difference, "+ 12"; and of a growth in per cent: "+ 12 %", "3 times", "new". NAN:
 * not known. */
const char *words_signed(enum number_unit unit, long double difference);
const char *words_growth(double per_cent);

/* As printf() would print it; of what is longer, the beginning. */
const char *words_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
