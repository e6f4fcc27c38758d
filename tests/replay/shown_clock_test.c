/* shown_clock_test - the time that a program with replay/shown_clock.c sees, in all clocks: later
 * than the real one by what is asked for, never behind it, never going back. */
#include <pthread.h>
#include <stdio.h>
#include <sys/time.h>

#include "common/atomic.h"
#include "replay/shown_clock.h"

static const clockid_t clocks[] = {CLOCK_REALTIME,
                                   CLOCK_MONOTONIC,
                                   CLOCK_MONOTONIC_RAW,
                                   CLOCK_MONOTONIC_COARSE,
                                   CLOCK_BOOTTIME,
                                   CLOCK_REALTIME_COARSE,
                                   CLOCK_TAI};
enum { CLOCKS = sizeof clocks / sizeof *clocks };

static const long long second = (long long)NS_PER_S; /* signed, as differences are */

static int failed;
static uint32_t ended;

static void check(int good, const char *what, clockid_t clock)
{
    if (good) return;
    fprintf(stderr, "clock %d: %s\n", (int)clock, what);
    failed = 1;
}

static long long shown_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)ns_of_timespec(&now);
}

static long long real_ns(clockid_t clock)
{
    struct timespec now;
    shown_clock_real(clock, &now);
    return (long long)ns_of_timespec(&now);
}

/* Reads clocks while they are set. */
static void *watch(void *nothing)
{
    long long before[CLOCKS] = {0};
    while (!atomic_load_acquire(&ended)) {
        for (unsigned i = 0; i < CLOCKS; i++) {
            long long real = real_ns(clocks[i]), now = shown_ns(clocks[i]);
            check(now >= before[i], "goes back", clocks[i]);
            check(now >= real, "is behind", clocks[i]);
            before[i] = now;
        }
    }
    return nothing;
}

/* The original's clock is 100 s further than ours. */
static void check_ahead(void)
{
    struct timeval day;
    struct timespec utc;
    for (unsigned i = 0; i < CLOCKS; i++) {
        long long ahead = shown_ns(clocks[i]) - real_ns(clocks[i]);
        check(ahead > 30 * second && ahead <= 100 * second, "is not ahead", clocks[i]);
    }
    long long real_s = real_ns(CLOCK_REALTIME) / second;
    gettimeofday(&day, NULL);
    timespec_get(&utc, TIME_UTC);
    check(day.tv_sec > real_s + 30, "gettimeofday()", CLOCK_REALTIME);
    check(utc.tv_sec > real_s + 30, "timespec_get()", CLOCK_REALTIME);
    check(time(NULL) > real_s + 30, "time()", CLOCK_REALTIME);
    check(shown_ns(CLOCK_PROCESS_CPUTIME_ID) < 30 * second, "is processor time",
          CLOCK_PROCESS_CPUTIME_ID);
}

int main(void)
{
    pthread_t watcher;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    puts("a sanitizer has its own functions of the clock: none is shown");
    return 77;
#endif
    shown_clock_open();
    for (unsigned i = 0; i < CLOCKS; i++) {
        long long before = real_ns(clocks[i]), now = shown_ns(clocks[i]);
        check(now >= before && now < before + 20 * second, "is not real at first", clocks[i]);
    }
    shown_clock_start();
    if (pthread_create(&watcher, NULL, watch, NULL) != 0) return 1;
    for (uint64_t ms = 1; ms <= 100000; ms++)
        shown_clock_set(ms * 1000000);
    check_ahead();
    atomic_store_release(&ended, 1);
    pthread_join(watcher, NULL);
    return failed;
}
