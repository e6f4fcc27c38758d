/* marks - does one delicate thing again and again, and looks whether anything has disturbed it, until
 * its input ends: then "done" and how often. A disturbance ends it at once, with a line. */
#ifndef MALLOCTAPE_TESTS_MARKS_H
#define MALLOCTAPE_TESTS_MARKS_H

#include <stdbool.h>

struct marks_kind {
    const char *name;                /* NULL ends a list */
    void (*begin)(const char *word); /* or NULL */
    void (*once)(void);
    void (*end)(void); /* or NULL */
};

extern const struct marks_kind marks_waits[];

void marks_fail(const char *what, long number) __attribute__((noreturn));
double marks_now(void);

/* A number in 0 ... limit - 1. */
unsigned marks_random(unsigned limit);

#endif
