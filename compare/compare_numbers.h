/* compare/numbers - the numbers by which allocators are compared, each taken from the reports of
 * all rounds.
 *
 * A table gives for each number its place in a report, its unit, and where and how it is shown;
 * text, page and JSON are made from this table. What a report does not have (a heap size, if the
 * allocator reports none) is NAN. */
#ifndef MALLOCTAPE_COMPARE_NUMBERS_H
#define MALLOCTAPE_COMPARE_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Over several rounds. With an even number of them, the median is the mean of the middle two. */
struct compare_spread {
    double median, least, most; /* NAN: not known */
};

enum compare_measure { COMPARE_MEMORY, COMPARE_TIME, COMPARE_MEASURES };

enum compare_from {
    COMPARE_FROM_REPORT,
    COMPARE_FROM_CPU,
    COMPARE_FROM_NET,
    COMPARE_FROM_ALLOCATION,
    COMPARE_FROM_FREE,
    COMPARE_FROM_REALLOC, /* from the latency of both kinds of realloc together */
    COMPARE_FROM_MOVED    /* the share of reallocs that moved their object */
};

struct compare_number {
    enum compare_measure of;   /* the table on the terminal that has it as a column, */
    int width;                 /* and the width of that; 0: not on the terminal */
    const char *key;           /* in the JSON of compare; ends with its unit */
    const char *group, *title; /* group: shared by neighbours; may be empty */
    const char *unit;          /* as shown */
    double scale;              /* from the key's unit to the one shown */
    int decimals;              /* as shown */
    /* ALLOCATION and FREE: from the latency of the kind of call that compare_kind() returns, whose
     * name is shown as the group. */
    enum compare_from from;
    const char *path; /* key in a report, or in that latency */
};

/* Whether it is about reallocs, which have a table of their own. */
static inline bool compare_is_of_realloc(const struct compare_number *number)
{
    return number->from == COMPARE_FROM_REALLOC || number->from == COMPARE_FROM_MOVED;
}

/* Ends with a key of NULL. */
extern const struct compare_number compare_numbers[];

/* NULL: there is none with that key. */
const struct compare_number *compare_number_find(const char *key);

/* The kind of allocation, or of free, that occurs most in a report; NULL if none does. */
const char *compare_kind(const json_t *report, bool allocation);

/* Gets the value in each report, at most `values_max`; NAN: not known. Returns how many. */
size_t compare_values_of(const struct compare_number *number, const json_t *reports, double *values,
                         size_t values_max);

/* NAN if any of the reports does not have the number. */
struct compare_spread compare_spread_of(const struct compare_number *number, const json_t *reports);

double compare_median(const char *key, const json_t *reports);

/* NAN: the report does not have it. */
double compare_report_number(const json_t *report, const char *key);

double compare_cpu_seconds(const json_t *report);

/* The spread of any values; sorts them. */
struct compare_spread compare_spread_values(double *values, size_t count);

/* (most - least) / median. */
double compare_spread_relative(const struct compare_spread *spread);

#ifdef __cplusplus
}
#endif
#endif
