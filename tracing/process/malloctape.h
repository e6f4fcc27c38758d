/* malloctape.h - control of a recording from inside the recorded program, for C and C++.
 *
 *     malloctape_start("/tmp/requests.raw.lz4");
 *     serve();
 *     malloctape_stop();
 *
 * The program needs no library for this. If the tracing library is preloaded, it has these
 * functions; without it they return ENOSYS and do nothing else. They are weak symbols, so a program
 * that is linked with -no-pie needs -Wl,-z,dynamic-undefined-weak.
 *
 * A recording has the calls between its start and its end. An object that was allocated before, or
 * during a pause, is unknown in it: its free is recorded as one of an unknown object. An object
 * that is freed during a pause stays alive in the recording.
 *
 * Result    0 or an errno value.
 * Threads   any, but not in a signal handler. Two threads must not begin or end something at the
 *           same time. */
#ifndef MALLOCTAPE_H
#define MALLOCTAPE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum malloctape_activity {
    MALLOCTAPE_NOT_LOADED = 0,
    MALLOCTAPE_NOT_RECORDING,
    MALLOCTAPE_IS_RECORDING,
    MALLOCTAPE_IS_PAUSED
};

/* Describes the recording, or the latest one when there is none. */
struct malloctape_summary {
    enum malloctape_activity activity;
    uint64_t events; /* in the output so far, approximately */
    uint64_t bytes;  /* of the output so far */
    uint64_t lost;   /* events that could not be recorded */
    uint64_t waits;  /* times a thread waited for the writer, and how long in all */
    uint64_t waited_ns;
    char output[1024]; /* its name, cut if it is longer; empty if there has been none */
};

/* What the library defines; use the functions below. */
int malloctape_library_start(const char *output) __attribute__((weak));
int malloctape_library_stop(void) __attribute__((weak));
int malloctape_library_reset(const char *output) __attribute__((weak));
int malloctape_library_pause(void) __attribute__((weak));
int malloctape_library_resume(void) __attribute__((weak));
int malloctape_library_sync(void) __attribute__((weak));
int malloctape_library_status(struct malloctape_summary *summary, unsigned long bytes)
    __attribute__((weak));

#ifndef MALLOCTAPE_LIBRARY

/* Begins a recording. `output` is what TCMALLOC_TRACE_OUTPUT may be; NULL: what that was when the
 * program began, or else %e.%p.raw.lz4 in the directory it was started in. EBUSY: one has begun
 * already. Other errors are explained by a line on standard error. */
static inline int malloctape_start(const char *output)
{
    return malloctape_library_start != NULL ? malloctape_library_start(output) : ENOSYS;
}

/* Ends the recording, and returns when its output is complete. EBUSY: there is none. */
static inline int malloctape_stop(void)
{
    return malloctape_library_stop != NULL ? malloctape_library_stop() : ENOSYS;
}

/* Ends the recording, if there is one, and begins another. `output` as above; no file is replaced:
 * if one has the name, a number comes before its ".lz4". */
static inline int malloctape_reset(const char *output)
{
    return malloctape_library_reset != NULL ? malloctape_library_reset(output) : ENOSYS;
}

/* Calls that begin from now on are not recorded until malloctape_resume(). EBUSY: nothing is
 * recorded anyway, or there is no pause. */
static inline int malloctape_pause(void)
{
    return malloctape_library_pause != NULL ? malloctape_library_pause() : ENOSYS;
}
static inline int malloctape_resume(void)
{
    return malloctape_library_resume != NULL ? malloctape_library_resume() : ENOSYS;
}

/* Returns when everything that was recorded before is in the output. EBUSY: there is no
 * recording. */
static inline int malloctape_sync(void)
{
    return malloctape_library_sync != NULL ? malloctape_library_sync() : ENOSYS;
}

static inline int malloctape_status(struct malloctape_summary *summary)
{
    memset(summary, 0, sizeof *summary);
    return malloctape_library_status != NULL ? malloctape_library_status(summary, sizeof *summary)
                                             : ENOSYS;
}

/* How many events the recording has: exactly, after malloctape_stop() and malloctape_pause(); else
 * all that had been recorded before the call, and perhaps more. */
static inline uint64_t malloctape_events(void)
{
    struct malloctape_summary summary;
    malloctape_sync();
    malloctape_status(&summary);
    return summary.events;
}

#endif

#ifdef __cplusplus
}
#endif
#endif
