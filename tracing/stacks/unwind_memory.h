/* unwind_memory - what is read while a stack is unwound, without a fault whatever other threads unmap
 * meanwhile.
 *
 *   the thread's own stack, from its stack pointer on    as it is: it stays while the thread is there
 *   anything else                                        as a copy, which the kernel makes
 *
 * The own stack is the one that the C library, or for the first thread the kernel, has given the
 * thread. Where the stack of a coroutine or of a signal handler ends nobody knows: of these, only the
 * page of the stack pointer is read as it is.
 *
 * Threads   any, also in signal handlers; each with a struct of its own. */
#ifndef MALLOCTAPE_UNWIND_MEMORY_H
#define MALLOCTAPE_UNWIND_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is copied at a time. */
#define UNWIND_COPY_BYTES 2048

/* All zero at first, and whenever another thread uses it. */
struct unwind_memory {
    uintptr_t from, to; /* read as it is, in this walk */
    uintptr_t own_from,
        own_to;            /* the thread's own stack, as far as it is known; empty: not at all */
    int32_t thread_id;     /* 0: the own stack has not been sought yet */
    uint32_t copied_bytes; /* in this walk */
    uintptr_t copied_from;
    uint8_t copy[UNWIND_COPY_BYTES];
};

/* Where `sp` is not in the own stack, as far as that is known: seeks it, and returns the end of what
 * can be read as it is. */
uintptr_t unwind_memory_seek(struct unwind_memory *memory, uintptr_t sp);

/* A walk begins: the calling thread's stack pointer is `sp`. */
static inline void unwind_memory_begin(struct unwind_memory *memory, uintptr_t sp)
{
    const bool is_own = sp - memory->own_from < memory->own_to - memory->own_from;
    memory->copied_bytes = 0;
    memory->from = sp;
    memory->to = __builtin_expect(is_own, 1) ? memory->own_to : unwind_memory_seek(memory, sp);
}

/* Reads memory that may go at any time. False: it cannot be read, or is more than is copied at a
 * time. */
bool unwind_memory_copy(struct unwind_memory *memory, uintptr_t from, void *to, size_t bytes);

bool unwind_memory_copy_word(struct unwind_memory *memory, uintptr_t address, uintptr_t *word);

/* The word at this address; false: there is none that can be read. */
static inline bool unwind_memory_word(struct unwind_memory *memory, uintptr_t address,
                                      uintptr_t *word)
{
    if (__builtin_expect(address - memory->from >= memory->to - memory->from || address % 8, 0))
        return unwind_memory_copy_word(memory, address, word);
    *word = *(const uintptr_t *)address;
    return true;
}

#ifdef __cplusplus
}
#endif
#endif
