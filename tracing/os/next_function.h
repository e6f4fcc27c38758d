/* next_function - the functions of libc that ours of the same names replace, and call. */
#ifndef MALLOCTAPE_NEXT_FUNCTION_H
#define MALLOCTAPE_NEXT_FUNCTION_H

#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Functions that take from the program what the recorder needs, each as DO(name, parameters,
 * arguments); all return an int. libc's do more than the system call: they change all threads that
 * libc knows. */
#define NEXT_FUNCTIONS_THAT_CONFINE(DO)                                                 \
    DO(setuid, (uid_t user), (user))                                                    \
    DO(seteuid, (uid_t effective), (effective))                                         \
    DO(setreuid, (uid_t real, uid_t effective), (real, effective))                      \
    DO(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved)) \
    DO(setfsuid, (uid_t user), (user))                                                  \
    DO(setgid, (gid_t group), (group))                                                  \
    DO(setegid, (gid_t effective), (effective))                                         \
    DO(setregid, (gid_t real, gid_t effective), (real, effective))                      \
    DO(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved)) \
    DO(setfsgid, (gid_t group), (group))                                                \
    DO(setgroups, (size_t count, const gid_t *groups), (count, groups))                 \
    DO(initgroups, (const char *user, gid_t group), (user, group))                      \
    DO(capset, (void *header, const void *capabilities), (header, capabilities))        \
    DO(pivot_root, (const char *root, const char *place_for_old), (root, place_for_old))

struct next_functions {
#define NEXT_FUNCTION_POINTER(name, parameters, arguments) int(*name) parameters;
    NEXT_FUNCTIONS_THAT_CONFINE(NEXT_FUNCTION_POINTER)
#undef NEXT_FUNCTION_POINTER
    int (*execve)(const char *path, char *const words[], char *const environment[]);
    int (*execvpe)(const char *file, char *const words[], char *const environment[]);
    int (*fexecve)(int file, char *const words[], char *const environment[]);
    int (*execveat)(int directory, const char *path, char *const words[], char *const environment[],
                    int flags);
    int (*posix_spawn)(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const words[],
                       char *const environment[]);
    int (*posix_spawnp)(pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const words[],
                        char *const environment[]);
    int (*sigaction)(int number, const struct sigaction *action, struct sigaction *before);
    sighandler_t (*signal)(int number, sighandler_t handler);
    sighandler_t (*sysv_signal)(int number, sighandler_t handler);
    int (*sigprocmask)(int how, const sigset_t *set, sigset_t *before);
    int (*pthread_sigmask)(int how, const sigset_t *set, sigset_t *before);
    void *(*mmap)(void *address, size_t length, int protection, int flags, int file, off_t offset);
    void *(*mmap64)(void *address, size_t length, int protection, int flags, int file,
                    off_t offset);
    int (*munmap)(void *address, size_t length);
    void *(*mremap)(void *address, size_t length, size_t new_length, int flags, ...);
    int (*madvise)(void *address, size_t length, int advice);
    int (*posix_madvise)(void *address, size_t length, int advice);
    int (*mprotect)(void *address, size_t length, int protection);
    void *(*shmat)(int id, const void *address, int flags);
    int (*shmdt)(const void *address);
    int (*brk)(void *end);
    void *(*sbrk)(intptr_t bytes);
    void *(*dlopen)(const char *file, int mode);
    int (*dlclose)(void *library);
};

#ifdef __cplusplus
extern "C" {
#endif

/* Any thread. */
const struct next_functions *next_functions(void);

/* The same, NULL if they have not been found yet: finding them may call the allocator, which may be
 * what calls here. */
const struct next_functions *next_functions_found(void);

/* From now on ours of this name calls that one, if it calls any. The caller sees to it that nobody
 * calls ours meanwhile. */
void next_functions_lead(const char *name, uintptr_t to);

#ifdef __cplusplus
}
#endif

#endif
