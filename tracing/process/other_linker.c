#include "tracing/process/other_linker.h"

#include "common/linker.h"
#include "common/output_name.h"
#include "tracing/data/notice.h"
#include "tracing/data/settings.h"
#include "tracing/os/os.h"
#include "tracing/os/preload_list.h"
#include "tracing/process/program_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>

/* Of a dynamic linker's path: all that exist are far below this. */
enum { LINKER_BYTES = 256 };

/* Of the library's path: a longer one is taken for one that can be read. */
enum { LIBRARY_BYTES = 1024 };

/* An environment, or a PATH, that needs more is left alone: it would be too much for the stack. */
enum { ROOM_BYTES_MAX = 1 << 18 };

/* ---- the environment ---- */

static const char *own_list(const char *variable)
{
    const char *list = preload_list_in(variable);
    return list != NULL && preload_list_has_own(list) ? list : NULL;
}

/* 0: it would load no library that records. */
static size_t room_for(char *const environment[])
{
    size_t count = 0, bytes = 0;
    for (; environment && environment[count] != NULL; count++)
        if (own_list(environment[count]) != NULL) bytes += strlen(environment[count]) + 1;
    return bytes ? (count + 1) * sizeof *environment + bytes : 0;
}

char *const *other_linker_environment(void *room, char *const environment[])
{
    if (room == NULL) return environment;
    size_t count = 0;
    while (environment[count] != NULL)
        count++;
    char **to = room, *text = (char *)(to + count + 1);
    for (size_t i = 0; i < count; i++) {
        const char *list = own_list(environment[i]);
        if (list == NULL) {
            *to++ = environment[i];
            continue;
        }
        char *others = text + (list - environment[i]);
        memcpy(text, environment[i], (size_t)(others - text));
        preload_list_without_own(others, list);
        if (!*others) continue; /* not even an empty list */
        *to++ = text;
        text = others + strlen(others) + 1;
    }
    *to = NULL;
    return room;
}

/* ---- the program ---- */

static void tell(const char *why, const char *path)
{
    const bool follows = output_name_has_process(settings.output);
    notice_for_record("%s %lu %s", follows ? why : "unfollowed", (uint64_t)os_process_id(),
                      output_name_last(*path ? path : "a program"));
}

static void tell_other_libc(void *path)
{
    tell("other_libc", path);
}

static void tell_unreadable(void *path)
{
    tell("unreadable", path);
}

/* In another root directory, or for another user. */
static bool cannot_read_own(char *const environment[])
{
    char path[LIBRARY_BYTES];
    for (; *environment != NULL; environment++) {
        const char *list = own_list(*environment);
        if (list == NULL || !preload_list_own_path(path, sizeof path, list)) continue;
        const int file = os_file_open_read(path);
        if (file >= 0) os_file_close(file);
        if (file == -ENOENT || file == -EACCES) return true;
    }
    return false;
}

size_t other_linker_room(int directory, const char *path, int flags, char *const environment[])
{
    char linker[LINKER_BYTES];
    const size_t bytes = room_for(environment);
    if (bytes == 0 || bytes > ROOM_BYTES_MAX || path == NULL || os_is_confined() ||
        os_exec_linker(directory, path, flags, linker, sizeof linker) == 0)
        return 0;
    const bool is_glibc = linker_is_glibc(linker);
    if (is_glibc && !cannot_read_own(environment)) return 0;
    /* Apart, because the notice opens a file. */
    os_call_apart(is_glibc ? tell_unreadable : tell_other_libc, (void *)(uintptr_t)path, false);
    return bytes;
}

size_t other_linker_room_in_path(const char *file, char *const environment[])
{
    if (file == NULL || strchr(file, '/') != NULL || room_for(environment) == 0)
        return other_linker_room(AT_FDCWD, file, 0, environment);
    const size_t bytes = program_path_bytes(file);
    if (bytes > ROOM_BYTES_MAX) return 0;
    char *path = __builtin_alloca(bytes);
    return program_path_find(file, path) ? other_linker_room(AT_FDCWD, path, 0, environment) : 0;
}
