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
    UNIT_MS,      /* whole milliseconds; in the text seconds */
    UNIT_NS,      /* the same of nanoseconds */
    UNIT_SECONDS, /* from here on with a fraction */
    UNIT_CPU,     /* seconds of a processor */
    UNIT_NS_EACH, /* nanoseconds per event */
    UNIT_PER_EVENT,
    UNIT_RATE,  /* in the text without its fraction */
    UNIT_SHARE, /* of 1; in the text per cent */
    UNIT_TIMES
};

struct number {
    const char *key;   /* in JSON; NULL: not there */
    const char *words; /* in the text; NULL: not there. Goes on with the line if it is empty, which
                        * stands for ", ", or begins with a comma. */
    enum number_unit unit;
    long double value; /* all of 64 bits. Below 0: not known, null in JSON and not in the text */
    const char *after; /* what follows it in the text */
};

typedef void numbers_use(void *of, const struct number *numbers, size_t count);

/* A count; and one that is not in the text if it is 0. */
#define NUMBER_COUNT(key, words, count)     \
    {                                       \
        key, words, UNIT_COUNT, (count), "" \
    }
#define NUMBER_COUNT_IF_ANY(key, words, count)                     \
    {                                                              \
        key, (count) > 0 ? (words) : NULL, UNIT_COUNT, (count), "" \
    }

/* For printf() with so many decimals: what rounds to 0 there has no sign of its own. */
static inline double numbers_shown(double value, int decimals)
{
    double half = 0.5;
    while (decimals-- > 0)
        half /= 10;
    return value >= -half && value <= half ? 0 : value;
}

/* A count with a space before each three digits, in the room for it, which is returned. */
enum { NUMBER_GROUPED = 27 };
const char *number_grouped(char room[NUMBER_GROUPED], uint64_t number);

/* Of bytes or the like, of which 0 means that nobody knows. */
static inline long double number_known(long double value)
{
    return value > 0 ? value : -1;
}

struct numbers_text {
    FILE *to;
    int width;                                                      /* of the words */
    const char *(*value)(enum number_unit unit, long double value); /* NULL: as above */
};

/* `of`: a struct numbers_text. The first number that is known begins a line. */
void numbers_print(void *of, const struct number *numbers, size_t count);

/* How often each kind of call occurs; those that do not are left out. */
void numbers_print_kinds(const struct numbers_text *text, const uint64_t *by_kind);

/* `of`: a JSON object (json_t). */
void numbers_put(void *of, const struct number *numbers, size_t count);

#endif
