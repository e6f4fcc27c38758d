/* allocate - what workloads have in common: objects that live for a moment, and an end for what
 * fails. */
#ifndef TESTS_WORKLOADS_ALLOCATE_H
#define TESTS_WORKLOADS_ALLOCATE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void fail(const char *what)
{
    dprintf(STDERR_FILENO, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    _exit(1);
}

/* Makes objects of 777 bytes, one after another. */
static inline void allocate(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        void *object = malloc(777);
        if (!object) fail("out of memory");
        free(object);
    }
}

#endif
