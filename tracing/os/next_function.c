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

#define NEXT_FUNCTION_LIST(DO)                                                                \
    NEXT_FUNCTIONS_THAT_CONFINE(DO)                                                           \
    DO(execve)                                                                                \
    DO(execvpe)                                                                               \
    DO(fexecve) DO(execveat) DO(posix_spawn) DO(posix_spawnp) DO(sigaction) DO(signal)        \
        DO(sysv_signal) DO(sigprocmask) DO(pthread_sigmask) DO(mmap) DO(mmap64) DO(munmap)    \
            DO(mremap) DO(madvise) DO(posix_madvise) DO(mprotect) DO(shmat) DO(shmdt) DO(brk) \
                DO(sbrk) DO(dlopen) DO(dlclose)

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
    NEXT_FUNCTION_LIST(FIND_ONE)
#undef FIND_ONE
    atomic_store_release(&found, true);
    return &all;
}

void next_functions_lead(const char *name, uintptr_t to)
{
    next_functions();
#define LEAD_ONE(function, ...)                                                     \
    if (strcmp(name, #function) == 0 && memcmp(&all.function, &to, sizeof to) != 0) \
        memcpy(&all.function, &to, sizeof to);
    NEXT_FUNCTION_LIST(LEAD_ONE)
#undef LEAD_ONE
}
