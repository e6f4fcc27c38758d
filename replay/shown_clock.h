/* shown_clock - the time that the allocator under test is shown.
 *
 *   allocator --> clock_gettime(), gettimeofday(), time(), timespec_get() of this program
 *             --> later of   the real clock
 *                            its value when the replay began + the original's time until now
 *
 * Without this, an allocator that gives memory back as time passes would see a program that takes a
 * tenth of its time. The dynamic linker binds the allocator's calls to the program's own functions,
 * which come before the C library's. The shown time never goes back, since both values only grow,
 * and is never behind the real one.
 *
 * The kernel has no part in it: sleeping, and waiting with a time limit, go by the real clock.
 * Clocks of processor time are left alone.
 *
 * Threads: one calls shown_clock_...(); clocks are read by any. */
#ifndef MALLOCTAPE_REPLAY_SHOWN_CLOCK_H
#define MALLOCTAPE_REPLAY_SHOWN_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Looks up the C library's function; until then the system is called. */
void shown_clock_open(void);

/* Call when the replay begins. */
void shown_clock_start(void);

/* Advances the original's time, since recording began, to `original_ns`. */
void shown_clock_set(uint64_t original_ns);

#define NS_PER_S UINT64_C(1000000000)

static inline struct timespec timespec_of_ns(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
}

static inline uint64_t ns_of_timespec(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

/* As clock_gettime(), by the real clock. */
int shown_clock_real(clockid_t clock, struct timespec *time);

#endif
