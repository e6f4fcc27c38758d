/* report_numbers - the numbers of a whole trace, each stated once: for the text and JSON
 * (common/numbers.h), for --fail-if, and for what changed between two traces. */
#ifndef MALLOCTAPE_REPORT_NUMBERS_H
#define MALLOCTAPE_REPORT_NUMBERS_H

#include "common/numbers.h"
#include "report/tally.h"

/* Passes all numbers to `use`. */
void report_numbers(const struct tally *tally, numbers_use *use, void *of);

/* Hands out the numbers that say little about a change, such as when something happened. */
void report_others(const struct tally *tally, numbers_use *use, void *of);

enum { REPORT_NUMBERS_MAX = 48 };

/* The numbers that have a key, in the same order for every trace. */
struct report_numbers {
    struct number at[REPORT_NUMBERS_MAX];
    size_t count;
};
void report_numbers_list(struct report_numbers *list, const struct tally *tally);

/* The growth in per cent; infinite if `before` is 0 and `after` is not. NAN: not known. */
double report_growth(long double before, long double after);

/* A limit for a number of one trace, or for its growth between two:
 *
 *   calls>1000000    the value of the last trace; also <
 *   calls>+5%        by how much it grew from the first one to the second
 *   calls>+1000      the same in absolute numbers; bytes may end with K, M, G or KiB, MiB, GiB
 *   bytes@main>+5%   of a function with what it calls, or whatever else by_code.h has rows of */
struct report_limit {
    const char *text;
    size_t number;  /* in struct report_numbers, or of a function in by_code_numbers */
    const char *of; /* the function's name, of of_bytes bytes; NULL: about the whole trace */
    size_t of_bytes;
    bool below;           /* < */
    bool grown, per_cent; /* + and % */
    long double limit;
};

/* `limit` refers to `text`. False: `why` says what is wrong with it. */
bool report_limit_parse(struct report_limit *limit, const char *text, char *why, size_t why_bytes);

/* Whether the limit is broken; if so, `why` says how. With one trace, `before` equals `after`. */
bool report_limit_is_broken(const struct report_limit *limit, enum number_unit unit,
                            long double before, long double after, char *why, size_t why_bytes);

#endif
