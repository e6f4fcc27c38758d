#include "replay/release.h"

#include "replay/allocator.h"

/* jemalloc(3), MALLCTL_ARENAS_ALL. */
#define PURGE_ALL_ARENAS "arena.4096.purge"

void release_find(struct release *release)
{
    *release = (struct release){0};
    allocator_find_own("MallocExtension_ReleaseFreeMemory", &release->release_free_memory);
    allocator_find_own("mallctl", &release->control);
    allocator_find_own("mi_collect", &release->collect);
    allocator_find_own("malloc_trim", &release->trim);
    if (release->release_free_memory != NULL)
        release->means = "MallocExtension_ReleaseFreeMemory()";
    else if (release->control != NULL)
        release->means = "mallctl(\"" PURGE_ALL_ARENAS "\")";
    else if (release->collect != NULL)
        release->means = "mi_collect(true)";
    else if (release->trim != NULL)
        release->means = "malloc_trim(0)";
}

void release_call(const struct release *release)
{
    if (release->release_free_memory != NULL)
        release->release_free_memory();
    else if (release->control != NULL)
        release->control(PURGE_ALL_ARENAS, NULL, NULL, NULL, 0);
    else if (release->collect != NULL)
        release->collect(true);
    else
        release->trim(0);
}
