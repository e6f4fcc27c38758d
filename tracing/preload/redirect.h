/* redirect - leads the calls of a process that runs to the entry points of this library, and back.
 *
 * A library that is loaded with dlopen() comes after all others, so nobody's calls come to it. But
 * each library calls the functions of others through slots that the dynamic linker has filled
 * (relocations JUMP_SLOT, GLOB_DAT and 64): here they are filled with the functions of this library.
 * What is not called through a slot stays as it is: pointers to functions that the program took
 * before, and what dlsym() says.
 *
 * Threads   any one thread that has the lock of dlopen() (attach/errand.h), so that no library comes
 *           or goes; a forked child finds that lock free. Others may call meanwhile; each slot
 *           changes at once. */
#ifndef MALLOCTAPE_REDIRECT_H
#define MALLOCTAPE_REDIRECT_H

/* Redirects the slots of all libraries that are loaded now; called again, those of libraries loaded
 * since. The result: how many slots lead here, or a negative errno value. */
int redirect_here(void);

/* Leads them back to the functions of other libraries. The result: how many slots were changed, or
 * a negative errno value. */
int redirect_back(void);

#endif
