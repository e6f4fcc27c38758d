/* words - numbers as people read them. Each text is in a static ring of WORDS_KEPT buffers: it is
 * valid until as many more have been made. One thread. */
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

/* The same if both are equal, else "4 096 to 4 351 bytes". */
const char *words_sizes(uint64_t lowest, uint64_t highest);

/* "12 ms", "3.4 s", "2.1 h". */
const char *words_ms(uint64_t ms);

/* "12.3 %"; "< 0.1 %" rather than "0 %" if `part` is not 0. */
const char *words_share(uint64_t part, uint64_t all);

/* A number with its unit (common/numbers.h); "-": not known. */
const char *words_number(enum number_unit unit, long double value);

/* The same for a difference, "+ 12", and for a growth in per cent: "+ 12 %", "3 times", "new". NAN:
 * not known. */
const char *words_signed(enum number_unit unit, long double difference);
const char *words_growth(double per_cent);

/* The name of a function, of at most WORDS_NAME_MOST bytes: arguments of templates are shortened,
 * the innermost first, so that the member stays. */
enum { WORDS_NAME_MOST = 90 };
const char *words_name(const char *name);

/* As printf() would print it, truncated to the size of a buffer. */
const char *words_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
