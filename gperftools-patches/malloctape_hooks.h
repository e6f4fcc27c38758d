/* malloctape_hooks - what the patched gperftools sources call.
 *
 * MALLOCTAPE(CALL) calls malloctape_CALL. In libtcmalloc_minimal.so, without MALLOCTAPE_TRACING, it
 * does nothing, and the object code is upstream's. In libtcmalloc_minimal_tracing.so it reaches the
 * capture core (tracing/core/hooks.h) or the front end.
 *
 * The functions are called while gperftools holds a spinlock: they take nothing from the heap, and
 * wait for nobody but each other and the writer thread, which never needs a lock of gperftools. */
#ifndef MALLOCTAPE_HOOKS_H
#define MALLOCTAPE_HOOKS_H

#ifdef MALLOCTAPE_TRACING

#include "common/arch.h"
#include "stream/raw_format.h"
#include "tracing/core/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* malloctape_heap_grown() - the heap has got these addresses from the system; nothing is on them
 * yet.
 *
 * Thread   any; pageheap_lock is held. */
void malloctape_heap_grown(const void *start, unsigned long bytes);

/* malloctape_span_populated() - a span is going to be cut into objects of a size class.
 *
 * Thread   any; no lock is held, and nobody else knows the span yet. */
void malloctape_span_populated(unsigned long first_page, unsigned long pages, unsigned size_class);

/* malloctape_own_new() - memory that gperftools needs for itself, as from operator new; and
 * malloctape_own_delete() gives it back. These calls are not the program's: they are not recorded.
 *
 * Thread   any; no lock is held. */
void *malloctape_own_new(unsigned long bytes);
void malloctape_own_delete(void *memory);

/* malloctape_hook_added() - a hook has been added to a list, by the program or by malloctape.
 *
 * Thread   any; the lock of the hook lists is held. */
void malloctape_hook_added(const void *list);

/* malloctape_span_deleted() - a span goes back to the page heap; no object on it lives. Called for
 * spans of small objects before pageheap_lock is taken, so that others wait less, and again for all
 * spans while it is held: a recording may have begun in between.
 *
 * Thread   any; nobody else knows the span. */
void malloctape_span_deleted(unsigned long first_page, unsigned long pages, unsigned size_class);

/* malloctape_system_memory() - memory came from the system, went back or is used again; `how` is
 * an enum raw_inside.
 *
 * Thread   any; a lock of gperftools is held. */
void malloctape_system_memory(unsigned how, unsigned long bytes);

/* malloctape_span_split() - these pages are left of a span that has been split, as a span of their
 * own. malloctape_span_merged() - this free span becomes a part of one beside it.
 *
 * Thread   any; pageheap_lock is held. */
void malloctape_span_split(unsigned long first_page, unsigned long pages);
void malloctape_span_merged(unsigned long first_page, unsigned long pages);

/* A thread has waited for a lock since the processor's clock said `since`, and has it now. */
struct malloctape_wait {
    const void *lock;
    unsigned long since;
};
void malloctape_lock_taken(const struct malloctape_wait *wait);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#define MALLOCTAPE(call) malloctape_##call

/* From here to the end of the function the thread waits for the lock. */
#define MALLOCTAPE_WAIT(lock)                    \
    const struct malloctape_wait malloctape_wait \
        __attribute__((cleanup(malloctape_lock_taken))) = {(lock), arch_clock()}
#define MALLOCTAPE_OWN_NEW(bytes)     malloctape_own_new(bytes)
#define MALLOCTAPE_OWN_DELETE(memory) malloctape_own_delete(memory)
/* Instead of `pair`, which takes memory and gives it back to initialize the library. */
#define MALLOCTAPE_OWN_PAIR(pair)     malloctape_own_delete(malloctape_own_new(32))
/* The pointer is to stay in a register: the compiler would compute it twice. */
#define MALLOCTAPE_KEEP(pointer)      __asm__("" : "+r"(pointer))

#else

#define MALLOCTAPE(call)              ((void)0)
#define MALLOCTAPE_WAIT(lock)         ((void)0)
#define MALLOCTAPE_OWN_NEW(bytes)     ::operator new(bytes)
#define MALLOCTAPE_OWN_DELETE(memory) ::operator delete(memory)
#define MALLOCTAPE_OWN_PAIR(pair)     pair
#define MALLOCTAPE_KEEP(pointer)      ((void)0)

#endif

#endif
