/* progress - shows at a terminal how far a run has got: one line on stderr that is overwritten.
 *
 *     postprocess: 98.1 M instructions/s, 45 %, 12 s left
 *
 * Nothing is written if stderr is not a terminal, nor in the first second. Allocates no memory,
 * because a replay may be measuring the allocator. */
#ifndef MALLOCTAPE_PROGRESS_H
#define MALLOCTAPE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *program, *unit; /* of what is counted */
    bool enabled, shown;
    double started_s, next_s; /* seconds_now() */
    uint64_t file_bytes;      /* 0: not known */
};

/* `input`: the descriptor that is read. */
void progress_open(struct progress *progress, const char *program, const char *unit, int input,
                   bool wanted);

/* Shows the line, if it is time to: `done` are done, and `bytes_read` bytes of the input have been
 * read. */
void progress_show(struct progress *progress, uint64_t done, uint64_t bytes_read);

/* Erases the line. */
void progress_close(struct progress *progress);

/* Shows any text in place of the previous line, if stderr is a terminal; an empty one erases it. */
void progress_text(const char *text);

/* The time of a monotonic clock. */
double seconds_now(void);

#endif
