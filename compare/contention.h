/* compare/contention - settings that change how threads wait for each other, such as
 * MALLOC_ARENA_MAX, and what a replay cannot say about them.
 *
 * A replay keeps the recorded overlap of threads. Where they wait for one lock, the program's threads
 * run longer together, and their objects with them: a setting that saves memory in the replay may
 * save none. How much more may be live is bounded twice:
 *
 *   by how long they wait   the lock is held for the share U of the time; what waits for it takes
 *                           1 / (1 - U) times as long, and as many times as much is live
 *                           U: processor time of the replay under that setting, without its own, over
 *                           the program's time, over the number of locks
 *   by the trace            the sum of the most that each thread had (replay/lane_peaks.h)
 *
 * The lesser of the two widens the interval upwards: with that, the row is best only if it still is
 * when the program has all of it. */
#ifndef MALLOCTAPE_COMPARE_CONTENTION_H
#define MALLOCTAPE_COMPARE_CONTENTION_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct compare;
struct compare_entry;

/* How many locks the entry's settings leave to all threads; 0: they say nothing about that. */
double contention_locks(const struct compare_entry *entry);

/* How much more is live, as a share, if the lock is held for that share of the time. */
double contention_more(double held);

/* Whether any row of a program with threads has such a setting. */
bool contention_is_possible(const struct compare *compare);

/* Sets `more_bytes` of all rows. Call after all replays. */
void contention_widen(struct compare *compare);

#ifdef __cplusplus
}
#endif
#endif
