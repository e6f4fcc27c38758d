#include "tracing/process/runtime.h"

#include "common/output_name.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

static const char runtime_name[] = "libstdc++.so";

/* Made by the linker: where this library begins. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static bool runtime_is_runtime(const char *file)
{
    return strncmp(output_name_last(file), runtime_name, sizeof runtime_name - 1) == 0;
}

/* An address in the dynamic section, which some systems leave relative, as it is in the file. */
static const char *runtime_address_in(const struct link_map *map, ElfW(Addr) address)
{
    return (const char *)(address < map->l_addr ? map->l_addr + address : address);
}

/* Whether the library was linked with the runtime. */
static bool needs_runtime(const struct link_map *map)
{
    const char *names = NULL;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_STRTAB) names = runtime_address_in(map, entry->d_un.d_ptr);
    for (const ElfW(Dyn) *entry = map->l_ld; names != NULL && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && runtime_is_runtime(names + entry->d_un.d_val)) return true;
    return false;
}

bool runtime_is_for_us(const void *caller)
{
    Dl_info info;
    if (!dladdr(caller, &info) || info.dli_fname == NULL || !runtime_is_runtime(info.dli_fname))
        return false;
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next)
        if ((const char *)map->l_addr != __ehdr_start && map->l_ld != NULL && needs_runtime(map))
            return false;
    return true;
}
