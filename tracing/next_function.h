/* next_function - what stands behind a function of ours. */
#ifndef MALLOCTAPE_NEXT_FUNCTION_H
#define MALLOCTAPE_NEXT_FUNCTION_H

#include <dlfcn.h>
#include <string.h>

/* Function pointers cannot be cast from what dlsym() returns. */
static inline void next_function(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

#endif
