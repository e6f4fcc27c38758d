#include "replay/shown_clock.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/atomic.h"

/* The clocks that are changed are numbered below this: real time, monotonic, raw, coarse ones,
 * since boot, and TAI. Those of processor time, which are not changed, are among them. */
#define CLOCKS (CLOCK_TAI + 1)

static struct {
    int (*real)(clockid_t clock, struct timespec *time);
    uint64_t started_ns[CLOCKS]; /* 0: not changed */
    uint64_t original_ns;        /* atomic; 0: all are */
} shown;

int shown_clock_real(clockid_t clock, struct timespec *time)
{
    if (shown.real != NULL) return shown.real(clock, time);
    return (int)syscall(SYS_clock_gettime, clock, time);
}

void shown_clock_open(void)
{
    void *found = dlsym(RTLD_NEXT, "clock_gettime");
    memcpy(&shown.real, &found, sizeof found);
}

void shown_clock_start(void)
{
    static const clockid_t clocks[] = {CLOCK_REALTIME,
                                       CLOCK_MONOTONIC,
                                       CLOCK_MONOTONIC_RAW,
                                       CLOCK_REALTIME_COARSE,
                                       CLOCK_MONOTONIC_COARSE,
                                       CLOCK_BOOTTIME,
                                       CLOCK_TAI};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        struct timespec now;
        if (shown_clock_real(clocks[i], &now) == 0)
            shown.started_ns[clocks[i]] = ns_of_timespec(&now);
    }
}

void shown_clock_set(uint64_t original_ns)
{
    atomic_store_relaxed(&shown.original_ns, original_ns);
}

/* ---- what the allocator calls ---- */

/* As clock_gettime(). */
static int shown_time(clockid_t clock, struct timespec *time)
{
    int status = shown_clock_real(clock, time);
    uint64_t original_ns = atomic_load_relaxed(&shown.original_ns);
    if (status != 0 || original_ns == 0 || clock < 0 || clock >= CLOCKS) return status;
    uint64_t ns = shown.started_ns[clock] + original_ns;
    if (shown.started_ns[clock] == 0 || ns <= ns_of_timespec(time)) return 0;
    *time = timespec_of_ns(ns);
    return 0;
}

/* A sanitizer replaces these functions by its own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int clock_gettime(clockid_t clock, struct timespec *to)
{
    return shown_time(clock, to);
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (shown_time(CLOCK_REALTIME, &now) != 0) return -1;
    *to = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *to)
{
    struct timespec now;
    if (shown_time(CLOCK_REALTIME_COARSE, &now) != 0) return -1;
    if (to != NULL) *to = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *to, int base)
{
    if (base != TIME_UTC || shown_time(CLOCK_REALTIME, to) != 0) return 0;
    return base;
}
#endif
