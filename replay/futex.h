/* futex - sleeping and waking by the kernel, with nothing in between that could take memory.
 *
 * A word is an event count: its owner adds EVENT_STEP for each thing that happened, and
 * EVENT_SLEEPING in it says that somebody sleeps until the next one. Who is about to sleep sets
 * that bit in the word that he has looked at, so nothing that happens in between is missed, and
 * nobody is woken who does not sleep. Who wakes looks again for what it waits for. */
#ifndef MALLOCTAPE_REPLAY_FUTEX_H
#define MALLOCTAPE_REPLAY_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/atomic.h"

/* Sleeps while *word is `value`; may return early. */
static inline void futex_wait(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#define EVENT_SLEEPING 1u
#define EVENT_STEP     2u

/* Something happened. Everything written before is seen by who takes the event. */
static inline void event_signal(uint32_t *event)
{
    uint32_t old = atomic_load_relaxed(event);
    while (!atomic_swap_once(event, &old, (old & ~EVENT_SLEEPING) + EVENT_STEP))
        ;
    if (old & EVENT_SLEEPING) futex_wake(event);
}

/* The state to look for reasons to sleep after, and to give to event_sleep(). */
static inline uint32_t event_look(const uint32_t *event)
{
    return atomic_load_acquire(event);
}

/* Sleeps until something happens, unless that is so since `seen`; may return early. */
static inline void event_sleep(uint32_t *event, uint32_t seen)
{
    uint32_t sleeping = seen | EVENT_SLEEPING;
    if (atomic_swap_once(event, &seen, sleeping)) futex_wait(event, sleeping);
}

#endif
