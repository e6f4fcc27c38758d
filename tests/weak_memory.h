/* weak_memory - runs a few threads in every order, on a memory as C11 allows it: a load may find an
 * older value than the latest, as long as nothing orders the newer one before it.
 *
 * What is run is compiled with -fsanitize=thread, and linked with this in place of ThreadSanitizer:
 * so each access of the real code comes here, with its memory order.
 *
 *   plain access    is found to be a race if nothing orders it and another one, of which one stores
 *   atomic store    becomes the latest in the object's order of stores
 *   atomic load     finds each of the stores that it may find, one after another
 *   acquire, release, fences, seq_cst   as C11 has them
 *
 * All runs: at each atomic access another thread may go on, but in a run this happens no more than a
 * few times where the thread could have gone on itself. Stores of different threads come into an
 * object's order as they are run, and no load finds a store of the future: real processors that
 * follow C11 may do both, so not all that can be wrong is found; what is found is wrong.
 *
 * Nothing here is called but from one thread. */
#ifndef MALLOCTAPE_WEAK_MEMORY_H
#define MALLOCTAPE_WEAK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEAK_THREADS_MAX 4

struct weak_program {
    void (*begin)(void);      /* makes everything as it was */
    const char *(*end)(void); /* when all threads have ended: what is wrong, or NULL */
    void (*threads[WEAK_THREADS_MAX])(void);
    unsigned threads_count;
    unsigned switches; /* as above */
    /* To see that it is found: stores to this object are relaxed; fences do nothing. */
    const void *weakened;
    bool without_fences;
};

struct weak_result {
    uint64_t runs;
    const char *wrong; /* in the latest; NULL: nothing in any */
};

struct weak_result weak_run(const struct weak_program *program);

/* From a thread: this run shows that something is wrong; the thread ends. */
void weak_fail(const char *what) __attribute__((noreturn));

/* Instead of memcpy() and memset(), which are not compiled here. */
void *weak_copy(void *to, const void *from, size_t bytes);
void *weak_set(void *to, int value, size_t bytes);

#endif
