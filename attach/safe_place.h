/* safe_place - whether a stopped thread can be made to call dlopen(): not if it is inside the
 * allocator or the dynamic linker, which would be entered a second time, or in a signal handler that
 * may have interrupted one of them.
 *
 * A thread is taken to be safe if no frame of its stack is in one of these, and it
 *   waits in a system call that neither of them makes, or
 *   runs code of a library that is neither of them nor the C library.
 * Where the stack cannot be unwound (elfutils), what only looks like a return address is taken for
 * one: then another moment or another thread has to do. */
#ifndef MALLOCTAPE_ATTACH_SAFE_PLACE_H
#define MALLOCTAPE_ATTACH_SAFE_PLACE_H

#include <elfutils/libdwfl.h>
#include <sys/user.h>

#include "attach/target.h"

/* Code that must not be found on a stack. */
struct safe_place_range {
    uint64_t start, end;
};

struct safe_places {
    const struct target *target;
    struct safe_place_range *ranges;
    size_t ranges_count, ranges_room;
    Dwfl *unwinder;      /* or NULL */
    size_t libc, linker; /* modules */
    uint64_t restorer;   /* where the C library makes rt_sigreturn(2); 0: it was not found */
    bool is_own_malloc;  /* the program itself has the allocator */
};

/* False: it has no dynamic linker or C library that can be used, or no memory (errno is ENOMEM). */
bool safe_places_find(struct safe_places *places, struct target *target);
void safe_places_free(struct safe_places *places);

/* Of a thread that this process has stopped. `stack`: `words` of it from the stack pointer on. */
bool safe_place_is(const struct safe_places *places, pid_t thread,
                   const struct user_regs_struct *registers, const uint64_t *stack, size_t words);

#endif
