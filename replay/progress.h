/* progress - one line on a terminal, while a replay runs: how much, how fast, how long still. */
#ifndef MALLOCTAPE_REPLAY_PROGRESS_H
#define MALLOCTAPE_REPLAY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/input.h"

struct progress {
    bool wanted; /* stderr is a terminal */
    bool shown;
    uint64_t started_ns, next_ns;
    uint64_t file_bytes; /* 0: not known, or too few to say how much is left */
};

void progress_open(struct progress *progress, const struct input *input, bool wanted,
                   uint64_t now_ns);

/* Prints, if it is time to: `events` calls have been carried out, `file_offset` bytes been read. Takes nothing from the allocator. */
void progress_show(struct progress *progress, uint64_t file_offset, uint64_t events,
                   uint64_t now_ns);

/* Removes the line. */
void progress_close(struct progress *progress);

#endif
