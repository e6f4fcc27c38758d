/* numbers - the numbers of a report, each stated once: for the text that people read, and for JSON.
 *
 *   {"peak_net_rss_bytes", "peak RSS", UNIT_BYTES, 4718592, ""},
 *   {"rss_per_live", "", UNIT_TIMES, 1.25, " peak live"}
 *   {"peak_call", ", at call ", UNIT_COUNT, 12, ""}
 *       text   peak RSS               4.5 MiB, 1.25 times peak live, at call 12
 *       JSON   "peak_net_rss_bytes": 4718592, "rss_per_live": 1.25, "peak_call": 12
 *
 * A function that lists numbers hands them to numbers_print() or numbers_put() through `use`. */
#ifndef MALLOCTAPE_NUMBERS_H
#define MALLOCTAPE_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MIB (1024.0 * 1024)

enum number_unit {
    UNIT_COUNT,   /* whole */
    UNIT_BYTES,   /* in the text MiB */
    UNIT_MS,      /* whole milliseconds; shown as seconds in the text */
    UNIT_NS,      /* the same of nanoseconds */
    UNIT_SECONDS, /* this and the following have a fraction */
    UNIT_CPU,     /* seconds of a processor */
    UNIT_NS_EACH, /* nanoseconds per event */
    UNIT_PER_EVENT,
    UNIT_RATE,  /* shown without its fraction in the text */
    UNIT_SHARE, /* of 1; in the text per cent */
    UNIT_TIMES
};

struct number {
    const char *key;   /* in JSON; NULL: not there */
    const char *words; /* in the text; NULL: not in the text. If empty, which stands for ", ", or
                        * beginning with a comma, continues the line. */
    enum number_unit unit;
    long double value; /* any 64-bit integer. Below 0: not known, null in JSON, not in the text */
    const char *after; /* what follows it in the text */
};

typedef void numbers_use(void *of, const struct number *numbers, size_t count);

/* A count; and a count that is left out of the text if it is 0. */
#define NUMBER_COUNT(key, words, count)     \
    {                                       \
        key, words, UNIT_COUNT, (count), "" \
    }
#define NUMBER_COUNT_IF_ANY(key, words, count)                     \
    {                                                              \
        key, (count) > 0 ? (words) : NULL, UNIT_COUNT, (count), "" \
    }

/* For printf() with `decimals` decimals: turns what would be shown as -0 into 0. */
static inline double numbers_shown(double value, int decimals)
{
    double half = 0.5;
    while (decimals-- > 0)
        half /= 10;
    return value >= -half && value <= half ? 0 : value;
}

/* Writes a count, with a space between groups of three digits, to `room` and returns that. */
enum { NUMBER_GROUPED = 27 };
const char *number_grouped(char room[NUMBER_GROUPED], uint64_t number);

/* Makes 0 "not known", for numbers that cannot really be 0, such as bytes of memory. */
static inline long double number_known(long double value)
{
    return value > 0 ? value : -1;
}

struct numbers_text {
    FILE *to;
    int width;                                                      /* of the words */
    const char *(*value)(enum number_unit unit, long double value); /* NULL: as above */
};

/* Prints numbers. `of`: a struct numbers_text. The first known number begins a line. */
void numbers_print(void *of, const struct number *numbers, size_t count);

/* Prints how often each kind of call occurs, without kinds that do not. */
void numbers_print_kinds(const struct numbers_text *text, const uint64_t *by_kind);

/* `of`: a JSON object (json_t). */
void numbers_put(void *of, const struct number *numbers, size_t count);

#endif
