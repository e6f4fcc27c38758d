/* check - what must hold at some place in the code, in builds for tests (MALLOCTAPE_CHECKS). In
 * others nothing of it is compiled. No input makes one fail: bad input is an error. For each there is
 * a mistake that it finds (tests/common/mutations_test.rb). */
#ifndef MALLOCTAPE_CHECK_H
#define MALLOCTAPE_CHECK_H

#ifdef MALLOCTAPE_CHECKS
#include <stdio.h>
#include <stdlib.h>

#define MUST_HOLD(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

static inline __attribute__((noreturn, cold)) void check_failed(const char *file, int line,
                                                                const char *condition)
{
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
    abort();
}
#else
#define MUST_HOLD(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

#endif
