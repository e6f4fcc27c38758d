/* progress - tells somebody at a terminal how far a run has got: one line on stderr, written over again.
 *
 *      45 %  98.1 M instructions/s  12 s left
 *
 * Nothing is written where stderr is no terminal, nor in the first second. */
#ifndef MALLOCTAPE_PROGRESS_H
#define MALLOCTAPE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool enabled, shown;
    double start, latest; /* seconds; `latest` is when the line was written */
    uint64_t bytes_total; /* of the input; 0: not known */
};

/* `fd`: the input. */
void progress_start(struct progress *progress, int fd, bool quiet);

/* Fits struct run_options. */
void progress_show(void *progress, uint64_t bytes_in, uint64_t instructions);

/* Takes the line away. */
void progress_end(struct progress *progress);

double seconds_now(void);

#endif
