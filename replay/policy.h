/* policy - how a stream is replayed, as the command line asks for it (options.h). */
#ifndef MALLOCTAPE_REPLAY_POLICY_H
#define MALLOCTAPE_REPLAY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* What is written into an object right after its allocation or realloc. */
enum touch { TOUCH_NONE, TOUCH_LINE, TOUCH_PAGES, TOUCH_ALL };
extern const char *const touch_names[]; /* by enum touch; end with NULL */

/* The time that the allocator is shown. CPU: the original's, but it advances no faster than the
 * original's processor time. */
enum shown_time { SHOWN_TIME_REAL, SHOWN_TIME_ORIGINAL, SHOWN_TIME_CPU };
extern const char *const shown_time_names[]; /* end with NULL */

#define POLICY_NO_LIMIT UINT64_MAX

/* How the stream is replayed; the same for every engine. */
struct policy {
    unsigned touch;               /* enum touch */
    unsigned shown_time;          /* to the allocator: enum shown_time */
    unsigned huge_pages;          /* enum huge_pages */
    double speed;                 /* times the original's; 0: as fast as possible */
    uint64_t limit_calls;         /* the replay ends after this many, or POLICY_NO_LIMIT */
    uint64_t warmup_calls;        /* this many are carried out first, and not measured */
    uint64_t sample_every;        /* one call in this many is timed, on average; 0: none */
    uint64_t sample_offset;       /* seed of the choice of calls to time */
    uint64_t release_every_calls; /* memory is given back after each of this many; 0: never */
    uint64_t release_every_ns;    /* of the original's time; 0: never */
    bool free_at_end;             /* objects that are alive then are freed */
    bool heap_calls;              /* calls on the whole heap are carried out */
    bool switching;               /* thread caches may follow the lanes */
    bool check;                   /* what malloc promises, of every object (promises.h) */
    bool lane_peaks;              /* count bytes by thread (lane_peaks.h) */
    bool uncleared;               /* allocator_leave_uncleared() */
    bool verify_addresses;        /* compare addresses with those of the original */
    const char *program_has;      /* names of libraries, with commas: resident.h; NULL: none */
    uint64_t page_bytes;          /* of the system where the stream was recorded, which says it */
};

#endif
