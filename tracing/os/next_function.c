#include "tracing/os/next_function.h"

#include "common/atomic.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Function pointers cannot be cast from what dlsym() returns. */
static void next_function_find(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

/* In a constructor, because after a fork dlsym() might wait for a lock; before it, if another
 * library's constructor calls one of ours. */
__attribute__((constructor)) static void next_function_find_all(void)
{
    next_functions();
}

static struct next_functions all;
static bool found;

const struct next_functions *next_functions_found(void)
{
    return atomic_load_acquire(&found) ? &all : NULL;
}

const struct next_functions *next_functions(void)
{
    if (atomic_load_acquire(&found)) return &all;
#define FIND_ONE(name, ...) next_function_find(&all.name, #name);
    NEXT_FUNCTIONS_THAT_CONFINE(FIND_ONE)
    FIND_ONE(execve)
    FIND_ONE(execvpe)
    FIND_ONE(fexecve)
    FIND_ONE(execveat)
    FIND_ONE(posix_spawn)
    FIND_ONE(posix_spawnp)
    FIND_ONE(sigaction)
    FIND_ONE(signal)
    FIND_ONE(sysv_signal)
    FIND_ONE(sigprocmask)
    FIND_ONE(pthread_sigmask)
    FIND_ONE(mmap)
    FIND_ONE(munmap)
    FIND_ONE(mremap)
    FIND_ONE(madvise)
    FIND_ONE(posix_madvise)
    FIND_ONE(mprotect)
    FIND_ONE(shmat)
    FIND_ONE(shmdt)
    FIND_ONE(brk)
    FIND_ONE(sbrk)
    FIND_ONE(dlopen)
    FIND_ONE(dlclose)
    atomic_store_release(&found, true);
    return &all;
}
