#include "tracing/os/preload_list.h"

#include <stddef.h>
#include <string.h>

static const char preload[] = "LD_PRELOAD=";
static const char separators[] = ": ";

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

const char *preload_list_in(const char *variable)
{
    return begins_with(variable, preload) ? variable + sizeof preload - 1 : NULL;
}

/* Whether a path with so many bytes is that of a library that records. */
static bool is_own(const char *path, size_t bytes)
{
    size_t name = bytes;
    while (name > 0 && path[name - 1] != '/')
        name--;
    return begins_with(path + name, "libtcmalloc_minimal_tracing.so") ||
           begins_with(path + name, "libmalloctape.so");
}

bool preload_list_has_own(const char *list)
{
    for (;; list++) {
        const size_t bytes = strcspn(list, separators);
        if (is_own(list, bytes)) return true;
        list += bytes;
        if (!*list) return false;
    }
}

bool preload_list_own_path(char *to, size_t room, const char *list)
{
    size_t bytes;
    for (;; list += bytes) {
        list += strspn(list, separators);
        bytes = strcspn(list, separators);
        if (bytes == 0) return false;
        if (is_own(list, bytes)) break;
    }
    if (bytes >= room || memchr(list, '/', bytes) == NULL || memchr(list, '$', bytes) != NULL)
        return false;
    memcpy(to, list, bytes);
    to[bytes] = '\0';
    return true;
}

void preload_list_without_own(char *to, const char *list)
{
    char *const start = to;
    for (size_t bytes; *list; list += bytes) {
        list += strspn(list, separators);
        bytes = strcspn(list, separators);
        if (bytes == 0 || is_own(list, bytes)) continue;
        if (to > start) *to++ = ':';
        memmove(to, list, bytes);
        to += bytes;
    }
    *to = 0;
}
