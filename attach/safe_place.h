/* safe_place - whether a stopped thread can be made to call dlopen(): not if it is inside the
 * allocator or the dynamic linker, which would be entered a second time, or in a signal handler
 * that may have interrupted one of them.
 *
 * A thread is taken to be safe if no frame of its stack is in one of these, and it
 *   waits in a system call that neither of them makes, or
 *   runs code of a library that is neither of them nor the C library.
 * If the stack cannot be unwound (elfutils), every word that looks like a return address counts as
 * one. Then a safe thread may be rejected, and another moment or thread is tried. */
#ifndef MALLOCTAPE_ATTACH_SAFE_PLACE_H
#define MALLOCTAPE_ATTACH_SAFE_PLACE_H

#include <elfutils/libdwfl.h>
#include <sys/user.h>

#include "attach/target.h"

/* Code of which no frame may be on the stack. */
struct safe_place_range {
    uint64_t start, end;
};

enum { SAFE_PLACE_PLAIN = 7, SAFE_PLACE_SYSCALL = SAFE_PLACE_PLAIN - 1 };

struct safe_places {
    const struct target *target;
    struct safe_place_range *ranges;
    size_t ranges_count, ranges_room;
    Dwfl *unwinder;      /* or NULL */
    size_t libc, linker; /* modules */
    /* Functions of the C library that only make a system call; the last is syscall(). */
    struct safe_place_range plain[SAFE_PLACE_PLAIN];
    uint64_t restorer;  /* the code that calls rt_sigreturn(2); 0: not found */
    bool is_own_malloc; /* the program itself contains an allocator */
};

/* False: the process has no usable dynamic linker or C library, or no memory (errno is ENOMEM). */
bool safe_places_find(struct safe_places *places, struct target *target);
void safe_places_free(struct safe_places *places);

/* Whether a thread that this process has stopped is safe. `stack`: `words` of its stack, from the
 * stack pointer on. */
bool safe_place_is(const struct safe_places *places, pid_t thread,
                   const struct user_regs_struct *registers, const uint64_t *stack, size_t words);

#endif
