/* exec - a recording ends before another program takes the process over.
 *
 * The functions of libc stand behind these. They do what they would do anyway; what is added is
 * the end of the recording, if it seems that the exec will succeed. In a vfork child nothing is
 * added: the recording is its parent's. system(), popen() and posix_spawn() do not come here, and
 * need not: their children are of that kind. */
#include "next_function.h"
#include "os.h"
#include "recording.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* --- what libc has --- */

static struct {
    int (*execve)(const char *path, char *const words[], char *const environment[]);
    int (*execvpe)(const char *file, char *const words[], char *const environment[]);
    int (*fexecve)(int file, char *const words[], char *const environment[]);
    int (*execveat)(int directory, const char *path, char *const words[], char *const environment[],
                    int flags);
} libc;

/* In a constructor, because after a fork dlsym() might wait for a lock. */
__attribute__((constructor)) static void find_all(void)
{
    if (libc.execve) return;
    next_function(&libc.execve, "execve");
    next_function(&libc.execvpe, "execvpe");
    next_function(&libc.fexecve, "fexecve");
    next_function(&libc.execveat, "execveat");
}

/* --- whether it will succeed --- */

/* Whether one of the directories has it; as execvp(3), an empty one is the current one. `path` has
 * room for each. */
static bool is_in_one(const char *directories, const char *file, char *path)
{
    for (;;) {
        const char *end = strchrnul(directories, ':');
        size_t bytes = (size_t)(end - directories);
        memcpy(path, directories, bytes);
        path[bytes] = '/';
        memcpy(path + bytes + (bytes > 0), file, strlen(file) + 1);
        if (os_file_is_executable(path)) return true;
        if (!*end) return false;
        directories = end + 1;
    }
}

/* The stack may be a small one. */
static bool is_in_path(const char *file)
{
    const char *directories = getenv("PATH");
    if (!directories) directories = "/bin:/usr/bin";
    size_t bytes = strlen(directories) + strlen(file) + 2;
    char *path = os_memory_reserve(bytes);
    if (!path) return false;
    bool found = is_in_one(directories, file, path);
    os_memory_release(path, bytes);
    return found;
}

static bool will_run(const char *file, bool searched)
{
    if (!file || !*file) return false;
    return searched && !strchr(file, '/') ? is_in_path(file) : os_file_is_executable(file);
}

/* Whether a recording has ended for it. */
static bool prepare(bool runs)
{
    find_all();
    return runs && recording_end_at_exec();
}

static int failed(bool ended)
{
    if (ended) recording_go_on_after_exec();
    return -1;
}

/* --- the functions --- */

EXPORT int execve(const char *path, char *const words[], char *const environment[])
{
    bool ended = prepare(will_run(path, false));
    libc.execve(path, words, environment);
    return failed(ended);
}

EXPORT int execvpe(const char *file, char *const words[], char *const environment[])
{
    bool ended = prepare(will_run(file, true));
    libc.execvpe(file, words, environment);
    return failed(ended);
}

EXPORT int fexecve(int file, char *const words[], char *const environment[])
{
    bool ended = prepare(true);
    libc.fexecve(file, words, environment);
    return failed(ended);
}

EXPORT int execveat(int directory, const char *path, char *const words[], char *const environment[],
                    int flags)
{
    bool ended = prepare(true);
    libc.execveat(directory, path, words, environment, flags);
    return failed(ended);
}

EXPORT int execv(const char *path, char *const words[])
{
    return execve(path, words, environ);
}

EXPORT int execvp(const char *file, char *const words[])
{
    return execvpe(file, words, environ);
}

typedef int exec_function(const char *file, char *const words[], char *const environment[]);

/* `list` goes on behind `first`, and behind NULL with an environment, if it brings one. */
static int run_list(exec_function *run, const char *file, const char *first, va_list list,
                    bool brings_environment)
{
    size_t count = 1;
    va_list counted;
    va_copy(counted, list);
    for (const char *word = first; word; word = va_arg(counted, char *))
        count++;
    va_end(counted);
    char **words = __builtin_alloca(count * sizeof *words), **last = words;
    *last = (char *)(uintptr_t)first;
    while (*last)
        *++last = va_arg(list, char *);
    return run(file, words, brings_environment ? va_arg(list, char **) : environ);
}

#define DEFINE_LIST(function, run, brings_environment)                     \
    EXPORT int function(const char *file, const char *first, ...)          \
    {                                                                      \
        va_list list;                                                      \
        va_start(list, first);                                             \
        int result = run_list(run, file, first, list, brings_environment); \
        va_end(list);                                                      \
        return result;                                                     \
    }
DEFINE_LIST(execl, execve, false)
DEFINE_LIST(execlp, execvpe, false)
DEFINE_LIST(execle, execve, true)
