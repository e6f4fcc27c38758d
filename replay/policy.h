/* policy - how the user wants the stream replayed; the same for every engine. Filled in by
 * options_parse(), then read only. */
#ifndef MALLOCTAPE_REPLAY_POLICY_H
#define MALLOCTAPE_REPLAY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* What is written into an object as soon as it is there; also after a realloc. X(IDENTIFIER,
 * "name", "help"). */
#define TOUCH_LIST(X)                                                    \
    X(NONE, "none", "objects are left as the allocator returned them")   \
    X(LINE, "line", "a byte in the first cache line")                    \
    X(PAGES, "pages", "a byte in each page that the object has part of") \
    X(ALL, "all", "every byte")
enum touch {
#define TOUCH_ENUM(identifier, name, help) TOUCH_##identifier,
    TOUCH_LIST(TOUCH_ENUM)
#undef TOUCH_ENUM
        TOUCH_KINDS
};
/* What predicts a program: it writes to what it allocates. */
#define POLICY_TOUCH_DEFAULT TOUCH_PAGES
extern const char *const policy_touch_names[]; /* by enum touch; in options.c */

/* The time that the allocator is shown. X(IDENTIFIER, "name"). */
#define SHOWN_TIME_LIST(X)  \
    X(REAL, "real")         \
    X(ORIGINAL, "original") \
    X(CPU, "cpu") /* the original's, where it goes no faster than its processor time */
enum shown_time {
#define SHOWN_TIME_ENUM(identifier, name) SHOWN_TIME_##identifier,
    SHOWN_TIME_LIST(SHOWN_TIME_ENUM)
#undef SHOWN_TIME_ENUM
        SHOWN_TIME_KINDS
};
extern const char *const policy_shown_time_names[]; /* in options.c */

#define POLICY_NO_LIMIT UINT64_MAX

struct policy {
    enum touch touch;
    enum shown_time shown_time;   /* to the allocator */
    double speed;                 /* times the original's; 0: as fast as possible */
    uint64_t limit_calls;         /* the replay ends after so many, or POLICY_NO_LIMIT */
    uint64_t warmup_calls;        /* the first ones, which are carried out but not measured */
    uint64_t sample_every;        /* one call in so many is timed by itself, on average; 0: none */
    uint64_t sample_offset;       /* other calls are timed with each */
    uint64_t release_every_calls; /* the allocator gives memory back after so many; 0: never */
    uint64_t release_every_ns;    /* of the original's time; 0: never */
    bool free_at_end;             /* objects that are alive then are freed */
    bool heap_calls;              /* calls on the whole heap are carried out */
    bool switching;               /* thread caches may follow the lanes */
    bool verify_addresses;        /* compare places with those of the original */
};

#endif
