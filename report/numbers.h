/* numbers - the few numbers of a trace that have a name for --fail-if and are compared between two
 * traces. */
#ifndef MALLOCTAPE_REPORT_NUMBERS_H
#define MALLOCTAPE_REPORT_NUMBERS_H

#include "report/tally.h"

enum report_unit { REPORT_COUNT, REPORT_BYTES, REPORT_MS };

struct report_number {
    const char *key, *name; /* for scripts, for people */
    enum report_unit unit;
    uint64_t (*of)(const struct tally *tally);
};

/* Ends with an entry without a key. */
extern const struct report_number report_numbers[];

/* NULL: there is none of that name, which has so many characters. */
const struct report_number *report_number_find(const char *key, size_t length);

/* A value as people read it: words.h. */
const char *report_number_text(const struct report_number *number, uint64_t value);

/* By how much it grew, in per cent; from nothing to something without end. */
double report_growth(uint64_t before, uint64_t after);

/* What one trace or two have, compared with what may be:
 *
 *   calls>1000000    the value of the last trace; also <
 *   calls>+5%        by how much it grew from the first one to the second
 *   calls>+1000      the same in absolute numbers; bytes may end with K, M, G or KiB, MiB, GiB */
struct report_limit {
    const char *text;
    const struct report_number *number;
    bool below;           /* < */
    bool grown, per_cent; /* + and % */
    double limit;
};

/* False: `why` says what is wrong with it. */
bool report_limit_parse(struct report_limit *limit, const char *text, char *why, size_t why_bytes);

/* Whether it is broken. `before` is NULL with one trace; a limit on growth needs two. */
bool report_limit_is_broken(const struct report_limit *limit, const struct tally *before,
                            const struct tally *after);

#endif
