/* errand - what a thread of the process is made to do: load the library and call a function of it.
 *
 * The code of errand_run() is copied into the process. It calls nothing but what the structure
 * says, so it runs at any address. It is one call, so that it is finished even if the process that
 * controls the thread dies: then nobody else would release the lock. */
#ifndef MALLOCTAPE_ATTACH_ERRAND_H
#define MALLOCTAPE_ATTACH_ERRAND_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* In the memory of the process; addresses are of functions and texts there. */
struct errand {
    /* Of the lock that dlopen() takes; without that lock nothing else is done. So no library comes or
     * goes meanwhile, and a child that another thread forks finds the lock free. */
    uint64_t linker_lock, lock, unlock; /* lock: pthread_mutex_clocklock() */
    struct timespec until;              /* CLOCK_MONOTONIC: wait for it no longer */
    uint64_t error_number;              /* __errno_location() */
    /* Loads `path`, if not 0, and finds `function`, a name, in it. */
    uint64_t open, find, explain, path, name;
    uint64_t function; /* or its address, if it is loaded already */
    uint64_t argument;

    uint64_t is_busy; /* another thread has the lock: nothing has been done */
    uint64_t why;     /* a text, if it could not be loaded; or 0 */
    int64_t result;   /* of the function */
};

/* The code, and its length. */
const void *errand_code(size_t *bytes);

#endif
