/* together - the memory that several processes had at the same time, from the ticks of their
 * recordings.
 *
 *   process --together_begin()
 *   its ticks --together_look()------------> looks, ordered by time --together_find()--> the most
 *   its residencies --together_divided()---> what the kernel divided      at once
 *
 * What processes may share (code, files, shared memory) is in the RSS of each. Counted once, it is
 * at least what the process has that has most of it. Pages that fork() left in common count for
 * each process. PSS has neither fault, but is known only when a process was looked at closely. */
#ifndef MALLOCTAPE_TOGETHER_H
#define MALLOCTAPE_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct together_look;
struct together_divided;

struct together {
    struct together_look *looks;
    size_t count, capacity;
    struct together_divided *divided;
    size_t divided_count, divided_capacity;
    uint32_t processes;
    bool failed; /* no memory */
};

/* The moment at which the processes had most. */
struct together_most {
    uint32_t processes; /* that had memory then; 0: nothing is known */
    uint64_t own_bytes, shared_bytes;
    uint64_t rss_bytes; /* the sum of all RSS */
    uint64_t since_ns;  /* since the first look */
    /* At the close look of each process that is nearest to this moment: */
    uint32_t divided;            /* of how many processes there is one */
    uint64_t proportional_bytes; /* their PSS, added up */
    uint64_t away_ns;            /* how far from this moment, at most */
};

/* What follows is of another process. */
void together_begin(struct together *together);

/* Its RSS, without the recorder's memory, at a time since the epoch; 0: it has ended. */
void together_look(struct together *together, uint64_t ns, uint64_t rss_bytes,
                   uint64_t shared_bytes);

/* Its PSS, without the recorder's memory, at a time since the epoch. */
void together_divided(struct together *together, uint64_t ns, uint64_t proportional_bytes);

struct together_most together_find(struct together *together);
void together_free(struct together *together);

#endif
