/* executable - examines a program before it is run.
 *
 * A preloaded library needs the dynamic linker of the program. If there is none, or if it ignores
 * LD_PRELOAD, the program runs as usual and nothing is recorded; it is better to say so first than
 * to leave a user without a file. */
#ifndef MALLOCTAPE_EXECUTABLE_H
#define MALLOCTAPE_EXECUTABLE_H

#include <limits.h>

enum executable_obstacle {
    EXECUTABLE_FINE,
    EXECUTABLE_STATIC,      /* no dynamic linker */
    EXECUTABLE_SANITIZER,   /* AddressSanitizer or ThreadSanitizer, each with its own allocator */
    EXECUTABLE_PRIVILEGED,  /* it runs with rights that the caller lacks: setuid, capabilities */
    EXECUTABLE_OTHER_LIBC,  /* its dynamic linker is not glibc's, and would not load the library */
    EXECUTABLE_OTHER_SYSTEM /* an ELF file for another machine or word size than ours */
};

struct executable {
    char path[PATH_MAX]; /* where the name led */
    char runs[PATH_MAX]; /* what the kernel will run: for a script its interpreter, else path */
    enum executable_obstacle obstacle;
};

/* Finds `name` as a shell does: with a slash in it, it is a path; else it is looked for in $PATH.
 * Returns 0, or the exit status of a shell that cannot run it: 127 not found, 126 found but not
 * executable. */
int executable_find(struct executable *executable, const char *name);

#endif
