/* minimize - what `cut --minimize` does; cut*.c only. */
#ifndef MALLOCTAPE_CUT_MINIMIZE_H
#define MALLOCTAPE_CUT_MINIMIZE_H

#include <stdbool.h>
#include <stdint.h>

struct minimize_options {
    const char *trace, *output, *what; /* what: judge.h */
    uint64_t limit_s;                  /* 0: none */
    bool quiet;
};

/* Returns an exit status. */
int minimize_run(const struct minimize_options *options);

#endif
