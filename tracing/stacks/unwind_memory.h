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
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is copied at a time, and how many copies are kept. */
#define UNWIND_COPY_BYTES 2048
#define UNWIND_COPIES     8u

/* How many addresses are remembered, and for how many questions. */
#define UNWIND_CALLS       1024u
#define UNWIND_CALLS_ASKED (1u << 16)

struct unwind_copies {
    uint32_t count;
    uint32_t uses; /* their time */
    struct unwind_copy {
        uintptr_t from;
        uint32_t bytes;
        uint32_t used; /* the time of its latest use */
    } copy[UNWIND_COPIES];
    uint8_t bytes[UNWIND_COPIES][UNWIND_COPY_BYTES];
};

/* All zero at first. */
struct unwind_memory {
    uintptr_t from, to; /* read as it is, in this walk */
    uintptr_t own_from,
        own_to;        /* the thread's own stack, as far as it is known; empty: not at all */
    int32_t thread_id; /* 0: the own stack has not been sought yet */
    /* What is known of code: whether a call precedes an address (twice the address, and 1 if so);
     * and of pages, how often none did (the page, and that count). It may become untrue with the
     * code, so it is asked anew from time to time. */
    uint32_t calls_asked;
    /* Of this walk; and of what is in objects, as long as none is unloaded. */
    struct unwind_copies copies, of_objects;
    uintptr_t calls[UNWIND_CALLS], pages[UNWIND_CALLS];
};

/* Another thread uses it from now on. What stays is looked at only when it has been filled anew. */
static inline void unwind_memory_forget(struct unwind_memory *memory)
{
    memset(memory, 0, offsetof(struct unwind_memory, copies));
    memory->copies.count = memory->of_objects.count = 0;
}

/* An object may have been unloaded. */
static inline void unwind_memory_forget_objects(struct unwind_memory *memory)
{
    memory->of_objects.count = 0;
}

/* Where `sp` is not in the own stack, as far as that is known: seeks it, and returns the end of what
 * can be read as it is. */
uintptr_t unwind_memory_seek(struct unwind_memory *memory, uintptr_t sp);

/* A walk begins: the calling thread's stack pointer is `sp`. */
static inline void unwind_memory_begin(struct unwind_memory *memory, uintptr_t sp)
{
    const bool is_own = sp - memory->own_from < memory->own_to - memory->own_from;
    memory->copies.count = 0;
    memory->from = sp;
    memory->to = __builtin_expect(is_own, 1) ? memory->own_to : unwind_memory_seek(memory, sp);
}

/* Whether an address is in the own stack, or in what the first thread's may have been. */
bool unwind_memory_is_stack(const struct unwind_memory *memory, uintptr_t address);

/* Reads memory that may go at any time. False: it cannot be read, or is more than is copied at a
 * time. */
bool unwind_memory_copy(struct unwind_memory *memory, uintptr_t from, void *to, size_t bytes);

/* The same of an object's. */
bool unwind_memory_copy_of_object(struct unwind_memory *memory, uintptr_t from, void *to,
                                  size_t bytes);

/* The same without another copy: valid until the next call. NULL: as above. */
const uint8_t *unwind_memory_piece(struct unwind_memory *memory, uintptr_t from, size_t bytes);

/* The same where what lies below will be needed, too. */
const uint8_t *unwind_memory_piece_below(struct unwind_memory *memory, uintptr_t from,
                                         size_t bytes);

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
