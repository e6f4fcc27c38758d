/* executable - what can be said about a program before it is run.
 *
 * A preloaded library works through the dynamic linker of the program. Where there is none, or
 * where the linker refuses libraries from the environment, the program runs as ever and nothing is
 * recorded; better to say so first than to leave a user with no file. */
#ifndef MALLOCTAPE_EXECUTABLE_H
#define MALLOCTAPE_EXECUTABLE_H

#include <limits.h>

enum executable_obstacle {
    EXECUTABLE_FINE,
    EXECUTABLE_STATIC,      /* no dynamic linker */
    EXECUTABLE_SANITIZER,   /* AddressSanitizer or ThreadSanitizer, each with its own allocator */
    EXECUTABLE_PRIVILEGED,  /* it runs with rights that the caller lacks: setuid, capabilities */
    EXECUTABLE_OTHER_SYSTEM /* an ELF file for another machine or word size than ours */
};

struct executable {
    char path[PATH_MAX]; /* where the name led */
    char runs[PATH_MAX]; /* what the kernel will run: of a script the interpreter, else path */
    enum executable_obstacle obstacle;
};

/* Finds `name` as a shell does: with a slash in it, it is a path; else it is looked for in $PATH.
 * Returns 0, or the exit status of a shell that cannot run it: 127 not found, 126 found but not
 * executable. */
int executable_find(struct executable *executable, const char *name);

#endif
