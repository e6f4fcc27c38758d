/* options - the command line of replay. Filled in once, then read only. */
#ifndef MALLOCTAPE_REPLAY_OPTIONS_H
#define MALLOCTAPE_REPLAY_OPTIONS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* The program's name in messages: it is built, installed, and run as a command of malloctape under
 * different names. */
#define REPLAY_PROGRAM program_invocation_short_name

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
    bool verify_addresses;        /* compare addresses with those of the original */
};

struct engine;

struct options {
    const struct engine *engine; /* NULL: that of engine_auto() */
    struct policy policy;
    const char *file;          /* NULL: the standard input */
    const char *json;          /* NULL: none */
    const char *release_every; /* as given; NULL: never */
    const char *snapshot;      /* NULL: none */
    const char *csv;           /* what names of files begin with; NULL: none */
    unsigned trace_run;        /* 1: the report looks like that of glibc's trace_run */
    bool quiet, series;
};

/* Returns PROGRAM_GO_ON, or an exit status: --help and the like have been done, or an error has
 * been printed. */
int options_parse(int argc, char **argv, struct options *options);

#endif
