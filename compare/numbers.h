/* compare/numbers - the numbers that allocators are compared by, each taken from the reports of all
 * rounds.
 *
 * A table says of each number where it stands in a report, its unit, and where and how it is shown;
 * text, page and JSON walk along it. What a report does not have (a heap size, where the allocator
 * tells none) is NAN. */
#ifndef MALLOCTAPE_COMPARE_NUMBERS_H
#define MALLOCTAPE_COMPARE_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of several rounds; of an even number of them, the median is the mean of the two in the middle. */
struct compare_spread {
    double median, least, most; /* NAN: not known */
};

enum compare_measure { COMPARE_MEMORY, COMPARE_TIME, COMPARE_MEASURES };

struct compare_number {
    enum compare_measure of;   /* in whose table of the terminal it is, */
    int width;                 /* and how wide there; 0: it is not */
    const char *key;           /* in the JSON of compare; ends with its unit */
    const char *group, *title; /* group: shared by neighbours; may be empty */
    const char *unit;          /* as shown */
    double scale;              /* from the key's unit to the one shown */
    int decimals;              /* as shown */
    /* Allocation and free: of the latency of the kind that compare_kind() gives, whose name is
     * shown as the group. */
    enum compare_from {
        COMPARE_FROM_REPORT,
        COMPARE_FROM_CPU,
        COMPARE_FROM_NET,
        COMPARE_FROM_ALLOCATION,
        COMPARE_FROM_FREE
    } from;
    const char *path; /* key in a report, or in that latency */
};

/* Ends with a key of NULL. */
extern const struct compare_number compare_numbers[];

/* NULL: there is none with that key. */
const struct compare_number *compare_number_find(const char *key);

/* The kind of allocation, or of free, that occurs most in a report; NULL if none does. */
const char *compare_kind(const json_t *report, bool allocation);

/* Of each report, at most `values_max`; NAN: not known. Returns how many. */
size_t compare_values_of(const struct compare_number *number, const json_t *reports, double *values,
                         size_t values_max);

/* Not known if one of the reports does not have it. */
struct compare_spread compare_spread_of(const struct compare_number *number, const json_t *reports);

double compare_median(const char *key, const json_t *reports);

/* NAN: the report does not have it. */
double compare_report_number(const json_t *report, const char *key);

double compare_cpu_seconds(const json_t *report);

/* Of any values; sorts them. */
struct compare_spread compare_spread_values(double *values, size_t count);

/* (most - least) / median. */
double compare_spread_relative(const struct compare_spread *spread);

#ifdef __cplusplus
}
#endif
#endif
