/* malloctape_hooks - what the patched gperftools sources call.
 *
 * Without MALLOCTAPE_TRACING (libtcmalloc_minimal.so) every macro is empty and the object code is
 * upstream's. With it (libtcmalloc_minimal_tracing.so) they reach the capture core
 * (tracing/hooks.h) and the front end, both in the same library.
 *
 * The functions are called while gperftools holds a spinlock: they take nothing from the heap, and
 * wait for nobody but each other and the writer thread, which never needs a lock of gperftools. */
#ifndef MALLOCTAPE_HOOKS_H
#define MALLOCTAPE_HOOKS_H

/* Structures are numbered by size class; the page heap takes a number that no size class has. It
 * stands for everything under pageheap_lock: spans, and the list and the budgets of the thread
 * caches. */
#define MALLOCTAPE_STRUCTURE_PAGE_HEAP 255u

/* How memory came from the system and went back to it; and that what went back is used again. */
#define MALLOCTAPE_SBRK    256u
#define MALLOCTAPE_MMAP    257u
#define MALLOCTAPE_RELEASE 258u
#define MALLOCTAPE_REUSE   259u

#ifdef MALLOCTAPE_TRACING

#include "tracing/hooks.h"

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

/* malloctape_span_deleted() - a span goes back to the page heap; no object on it lives. Said of
 * spans of small objects before pageheap_lock is taken, so that others wait less, and of all of
 * them again when it is held: a recording may have begun in between.
 *
 * Thread   any; nobody else knows the span. */
void malloctape_span_deleted(unsigned long first_page, unsigned long pages, unsigned size_class);

/* malloctape_system_memory() - memory came from the system, went back or is used again; `how` is
 * one of the numbers above.
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

/* From here to the end of the function the thread waits for the lock. */
#define MALLOCTAPE_WAIT(lock)                    \
    const struct malloctape_wait malloctape_wait \
        __attribute__((cleanup(malloctape_lock_taken))) = {(lock), __builtin_ia32_rdtsc()}
#define MALLOCTAPE_SYSTEM_MEMORY(how, bytes) malloctape_system_memory((how), (bytes))
#define MALLOCTAPE_SEQUENCE(structure)       malloctape_sequence(structure)
#define MALLOCTAPE_THREAD_CACHE_DELETED()    malloctape_thread_cache_deleted()
#define MALLOCTAPE_THREAD_CACHE_CHANGED()    malloctape_thread_cache_changed()
#define MALLOCTAPE_CACHED(cache, size_class, first, count) \
    malloctape_cached((cache), (size_class), (first), (unsigned)(count))
#define MALLOCTAPE_UNCACHED(cache, size_class, count) \
    malloctape_uncached((cache), (size_class), (unsigned)(count))
#define MALLOCTAPE_HEAP_GROWN(start, bytes) malloctape_heap_grown(start, bytes)
#define MALLOCTAPE_SPAN_POPULATED(span, size_class) \
    malloctape_span_populated((span)->start, (span)->length, (size_class))
#define MALLOCTAPE_HOOK_ADDED(list)   malloctape_hook_added(list)
#define MALLOCTAPE_OWN_NEW(bytes)     malloctape_own_new(bytes)
#define MALLOCTAPE_OWN_DELETE(memory) malloctape_own_delete(memory)
/* The pointer is to stay in a register: the compiler would compute it twice. */
#define MALLOCTAPE_KEEP(pointer)      __asm__("" : "+r"(pointer))
#define MALLOCTAPE_SPAN_DELETED(span) \
    malloctape_span_deleted((span)->start, (span)->length, (span)->sizeclass)
#define MALLOCTAPE_SPAN_EMPTY(span)  MALLOCTAPE_SPAN_DELETED(span)
#define MALLOCTAPE_SPAN_SPLIT(span)  malloctape_span_split((span)->start, (span)->length)
#define MALLOCTAPE_SPAN_MERGED(span) malloctape_span_merged((span)->start, (span)->length)

#else

#define MALLOCTAPE_WAIT(lock)                              ((void)0)
#define MALLOCTAPE_SYSTEM_MEMORY(how, bytes)               ((void)0)
#define MALLOCTAPE_SEQUENCE(structure)                     ((void)0)
#define MALLOCTAPE_THREAD_CACHE_DELETED()                  ((void)0)
#define MALLOCTAPE_THREAD_CACHE_CHANGED()                  ((void)0)
#define MALLOCTAPE_CACHED(cache, size_class, first, count) ((void)0)
#define MALLOCTAPE_UNCACHED(cache, size_class, count)      ((void)0)
#define MALLOCTAPE_HEAP_GROWN(start, bytes)                ((void)0)
#define MALLOCTAPE_SPAN_POPULATED(span, size_class)        ((void)0)
#define MALLOCTAPE_HOOK_ADDED(list)                        ((void)0)
#define MALLOCTAPE_OWN_NEW(bytes)                          ::operator new(bytes)
#define MALLOCTAPE_OWN_DELETE(memory)                      ::operator delete(memory)
#define MALLOCTAPE_KEEP(pointer)                           ((void)0)
#define MALLOCTAPE_SPAN_DELETED(span)                      ((void)0)
#define MALLOCTAPE_SPAN_EMPTY(span)                        ((void)0)
#define MALLOCTAPE_SPAN_SPLIT(span)                        ((void)0)
#define MALLOCTAPE_SPAN_MERGED(span)                       ((void)0)

#endif

#endif
