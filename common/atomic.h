/* atomic - loads, stores and exchanges with their memory order in the name.
 *
 * GNU builtins on plain variables, because C11 _Atomic in a header cannot be included from C++.
 * Additions and exchanges return what was there before. */
#ifndef MALLOCTAPE_ATOMIC_H
#define MALLOCTAPE_ATOMIC_H

#include <stdint.h>

#include "common/arch.h"

#define atomic_load_relaxed(object) __atomic_load_n(object, __ATOMIC_RELAXED)
#define atomic_load_acquire(object) __atomic_load_n(object, __ATOMIC_ACQUIRE)
#define atomic_load_seq_cst(object) __atomic_load_n(object, __ATOMIC_SEQ_CST)

#define atomic_store_relaxed(object, value) __atomic_store_n(object, value, __ATOMIC_RELAXED)
#define atomic_store_release(object, value) __atomic_store_n(object, value, __ATOMIC_RELEASE)
#define atomic_store_seq_cst(object, value) __atomic_store_n(object, value, __ATOMIC_SEQ_CST)

#define atomic_exchange_relaxed(object, value) __atomic_exchange_n(object, value, __ATOMIC_RELAXED)
#define atomic_exchange_acquire(object, value) __atomic_exchange_n(object, value, __ATOMIC_ACQUIRE)
#define atomic_exchange_acq_rel(object, value) __atomic_exchange_n(object, value, __ATOMIC_ACQ_REL)
#define atomic_exchange_seq_cst(object, value) __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST)

#define atomic_add_relaxed(object, value) __atomic_fetch_add(object, value, __ATOMIC_RELAXED)
#define atomic_add_acq_rel(object, value) __atomic_fetch_add(object, value, __ATOMIC_ACQ_REL)
#define atomic_add_seq_cst(object, value) __atomic_fetch_add(object, value, __ATOMIC_SEQ_CST)

#define atomic_or_relaxed(object, value) ((void)__atomic_fetch_or(object, value, __ATOMIC_RELAXED))
#define atomic_and_relaxed(object, value) \
    ((void)__atomic_fetch_and(object, value, __ATOMIC_RELAXED))

/* Adds, with release order, to an object that only the calling thread stores to. */
static inline void atomic_add_own_release(uint64_t *object, uint64_t value)
{
    arch_add_own(object, value);
}

/* For fast paths. The first adds, relaxed, to an object that only the calling thread stores to. The
 * second loads, relaxed, a value that is only compared. The third loads, with acquire order, a
 * number from which addresses of later loads are computed. */
static inline void atomic_add_own_relaxed(uint64_t *object, uint64_t value)
{
#if ARCH_PLAIN_IS_ATOMIC
    *object += value;
#else
    atomic_store_relaxed(object, atomic_load_relaxed(object) + value);
#endif
}

#if ARCH_PLAIN_IS_ATOMIC
#define atomic_load_operand(object) (*(object))
#define atomic_load_consume(object) (*(object))
#else
#define atomic_load_operand(object) atomic_load_relaxed(object)
#define atomic_load_consume(object) atomic_load_acquire(object)
#endif

/* Compare and swap: each returns whether *object was *expected and is now `desired`; if not,
 * *expected is set to what was there. These two may fail spuriously, so they belong in a loop. */
#define atomic_swap_acquire(object, expected, desired) \
    __atomic_compare_exchange_n(object, expected, desired, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define atomic_swap_release(object, expected, desired) \
    __atomic_compare_exchange_n(object, expected, desired, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)

/* These fail only if *object was not *expected. */
#define atomic_swap_once(object, expected, desired) \
    __atomic_compare_exchange_n(object, expected, desired, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define atomic_swap_once_relaxed(object, expected, desired) \
    __atomic_compare_exchange_n(object, expected, desired, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define atomic_swap_once_seq_cst(object, expected, desired) \
    __atomic_compare_exchange_n(object, expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Orders earlier stores before later ones. No instruction on x86. */
#define atomic_fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)

/* Orders earlier loads before later ones. No instruction on x86. */
#define atomic_fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)

/* Orders an earlier store before a later load of another object, which nothing weaker does. */
#define atomic_fence_full() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Prefetches the cache line of an address, which may be any, for a store. */
static inline void atomic_prefetch(const void *address)
{
    arch_prefetch_for_store(address);
}

/* For loops that wait for a store of another thread. */
static inline void atomic_pause(void)
{
    arch_pause();
}

#endif
