/* exec - a recording ends before another program takes the process over.
 *
 * These functions replace those of libc and call them. They first end the recording, if the exec
 * will succeed, which another process tries. A program whose dynamic linker cannot load this
 * library gets an environment without it (other_linker.h).
 *
 * In a vfork child nothing ends: the recording is its parent's. Those of posix_spawn() are of that
 * kind. system() and popen() do not come here, and need not: they run a shell. */
#include "tracing/core/recording_begin.h"
#include "tracing/data/notice.h"
#include "tracing/data/settings.h"
#include "tracing/os/next_function.h"
#include "tracing/os/os.h"
#include "tracing/process/other_linker.h"
#include "tracing/process/program_path.h"
#include "tracing/recording/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- whether it will succeed ---- */

/* True also if that cannot be tried. `is_script_run`: /bin/sh runs what the system cannot
 * execute. */
static bool runs(int directory, const char *path, char *const words[], char *const environment[],
                 int flags, bool is_script_run)
{
    int result = os_exec_try(directory, path, words, environment, flags);
    return result == 0 || (result == -ENOEXEC && is_script_run);
}

/* Puts the path into memory of its own, because the stack may be small. */
static bool runs_from_path(const char *file, char *const words[], char *const environment[])
{
    size_t bytes = program_path_bytes(file);
    char *path = os_memory_reserve(bytes);
    if (path == NULL) return false;
    bool found = program_path_find(file, path) && runs(AT_FDCWD, path, words, environment, 0, true);
    os_memory_release(path, bytes);
    return found;
}

static bool runs_from(const char *file, char *const words[], char *const environment[],
                      bool searched)
{
    if (file == NULL || !*file) return false;
    if (searched && strchr(file, '/') == NULL) return runs_from_path(file, words, environment);
    return os_file_is_executable(file) && runs(AT_FDCWD, file, words, environment, 0, searched);
}

/* ---- the recording ---- */

/* Whether this process, not a child that shares its memory, has a recording that an exec ends. */
static bool is_at_exec(void)
{
    uint32_t state = recording_state();
    if (state != MALLOCTAPE_RECORDING && state != MALLOCTAPE_PAUSED && state != MALLOCTAPE_ENDING)
        return false;
    /* A confined vfork child that execs must not be taken for its parent. A process that may exec
     * may ask for its id. */
    return recording_is_own() && os_process_id() == recording.writer.process_id;
}

/* Before an exec: ends the recording, if this process has one. What a forked child has recorded is
 * removed if it is little, because it belongs to no program of its own. Returns whether there was a
 * recording. */
static bool end_at_exec(void)
{
    if (!is_at_exec()) return false;
    if (recording_is_forked()) atomic_store_release(&recording.writer.discard, 1);
    atomic_store_release(&recording.writer.at_exec, 1);
    return recording_finish();
}

/* After an exec that has failed all the same: what comes now is a recording of its own, if that can
 * have a name of its own. */
static void begin_again(void)
{
    if (output_name_has_process(settings.output))
        recording_begin(settings.output);
    else
        notice_text("recording ended early: %s: before an exec that failed",
                    recording.writer.output);
}

/* The exec has failed. */
static int exec_go_on(bool ended)
{
    int kept_errno = errno;
    if (ended) begin_again();
    errno = kept_errno;
    return -1;
}

/* ---- the functions ---- */

EXPORT int execve(const char *path, char *const words[], char *const environment[])
{
    size_t room = other_linker_room(AT_FDCWD, path, 0, environment);
    environment = OTHER_LINKER_ENVIRONMENT(room, environment);
    bool ended = is_at_exec() && runs_from(path, words, environment, false) && end_at_exec();
    next_functions()->execve(path, words, environment);
    return exec_go_on(ended);
}

EXPORT int execvpe(const char *file, char *const words[], char *const environment[])
{
    size_t room = other_linker_room_in_path(file, environment);
    environment = OTHER_LINKER_ENVIRONMENT(room, environment);
    bool ended = is_at_exec() && runs_from(file, words, environment, true) && end_at_exec();
    next_functions()->execvpe(file, words, environment);
    return exec_go_on(ended);
}

EXPORT int fexecve(int file, char *const words[], char *const environment[])
{
    size_t room = other_linker_room(file, "", AT_EMPTY_PATH, environment);
    environment = OTHER_LINKER_ENVIRONMENT(room, environment);
    bool ended =
        is_at_exec() && runs(file, "", words, environment, AT_EMPTY_PATH, false) && end_at_exec();
    next_functions()->fexecve(file, words, environment);
    return exec_go_on(ended);
}

EXPORT int execveat(int directory, const char *path, char *const words[], char *const environment[],
                    int flags)
{
    size_t room = other_linker_room(directory, path, flags, environment);
    environment = OTHER_LINKER_ENVIRONMENT(room, environment);
    bool ended =
        is_at_exec() && runs(directory, path, words, environment, flags, false) && end_at_exec();
    next_functions()->execveat(directory, path, words, environment, flags);
    return exec_go_on(ended);
}

/* These start a child, which shares this process's memory until its exec. Programs that were linked
 * with glibc before 2.15 get what those linked later do: a text file is no program. */

EXPORT int posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const words[],
                       char *const environment[])
{
    size_t room = other_linker_room(AT_FDCWD, path, 0, environment);
    return next_functions()->posix_spawn(process, path, actions, attributes, words,
                                         OTHER_LINKER_ENVIRONMENT(room, environment));
}

EXPORT int posix_spawnp(pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const words[],
                        char *const environment[])
{
    size_t room = other_linker_room_in_path(file, environment);
    return next_functions()->posix_spawnp(process, file, actions, attributes, words,
                                          OTHER_LINKER_ENVIRONMENT(room, environment));
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

/* `list` continues after `first` up to a NULL, which an environment follows if it brings one. */
static int exec_run_list(exec_function *run, const char *file, const char *first, va_list list,
                         bool brings_environment)
{
    size_t count = 1;
    va_list counted;
    va_copy(counted, list);
    for (const char *word = first; word != NULL; word = va_arg(counted, char *))
        count++;
    va_end(counted);
    char **words = __builtin_alloca(count * sizeof *words), **last = words;
    *last = (char *)(uintptr_t)first;
    while (*last)
        *++last = va_arg(list, char *);
    return run(file, words, brings_environment ? va_arg(list, char **) : environ);
}

#define DEFINE_LIST(function, run, brings_environment)                          \
    EXPORT int function(const char *file, const char *first, ...)               \
    {                                                                           \
        va_list list;                                                           \
        va_start(list, first);                                                  \
        int result = exec_run_list(run, file, first, list, brings_environment); \
        va_end(list);                                                           \
        return result;                                                          \
    }
DEFINE_LIST(execl, execve, false)
DEFINE_LIST(execlp, execvpe, false)
DEFINE_LIST(execle, execve, true)
