/* progress - tells somebody at a terminal how far a run has got: one line on stderr, written over
 * again.
 *
 *     postprocess: 98.1 M instructions/s, 45 %, 12 s left
 *
 * Nothing is written where stderr is no terminal, nor in the first second. Takes no memory from the
 * allocator, which may be what a replay measures. */
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

/* Shows the line, if it is time to: so many are done, and so many bytes of the input have been
 * read. */
void progress_show(struct progress *progress, uint64_t done, uint64_t bytes_read);

/* Takes the line away. */
void progress_close(struct progress *progress);

/* Shows a line of any text in place of the one before, if stderr is a terminal; an empty one takes
 * it away. */
void progress_text(const char *text);

/* Of a clock that never goes back. */
double seconds_now(void);

#endif
