/* give_up - a process that gives up something when it has made a few objects, and then makes many.
 * Status 7; 77: the system knows no such thing.
 *
 *   give_up WAY    by the function of libc, or with "raw_" by syscall()
 *   give_up alone  makes many objects, and others in another thread that has ended; then it must be
 *                  alone in its process, for a namespace of users; then makes as many again */
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "allocate.h"

enum { FEW_CALLS = 100, CALLS = 30000, NOBODY = 65534, UNKNOWN = 77 };

extern int capset(void *header, const void *data);
extern int pivot_root(const char *root, const char *place_for_old);

static struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
static struct __user_cap_data_struct no_capabilities[_LINUX_CAPABILITY_U32S_3];
static struct rlimit few_files = {3, 3};

/* Goes to a mount of its own. */
static void make_tree(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        (mkdir("tree", 0700) != 0 && errno != EEXIST) ||
        mount("none", "tree", "tmpfs", 0, NULL) != 0 || chdir("tree") != 0)
        fail("tree");
}

/* Nobody finds what was there before. */
static long leave_tree(long result)
{
    return result != 0 ? result : umount2(".", MNT_DETACH);
}

static long restrict_to_nothing(void)
{
    struct landlock_ruleset_attr all = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE |
                                                             LANDLOCK_ACCESS_FS_WRITE_FILE};
    long rules = syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0) _exit(UNKNOWN);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0);
}

#define FOR_ALL_WAYS(DO)                                                               \
    DO(setgid, setgid(NOBODY))                                                         \
    DO(setegid, setegid(NOBODY))                                                       \
    DO(setregid, setregid(NOBODY, NOBODY))                                             \
    DO(setresgid, setresgid(NOBODY, NOBODY, NOBODY))                                   \
    DO(raw_setresgid, syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY))                  \
    DO(setfsgid, setfsgid(NOBODY) == NOBODY)                                           \
    DO(setgroups, setgroups(0, NULL))                                                  \
    DO(raw_setgroups, syscall(SYS_setgroups, 0, NULL))                                 \
    DO(initgroups, initgroups("nobody", NOBODY))                                       \
    DO(setuid, setuid(NOBODY))                                                         \
    DO(raw_setresuid, syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY))                  \
    DO(setfsuid, setfsuid(NOBODY) == NOBODY)                                           \
    DO(raw_setfsuid, syscall(SYS_setfsuid, NOBODY) == NOBODY)                          \
    DO(capset, capset(&header, no_capabilities))                                       \
    DO(prlimit, prlimit(0, RLIMIT_NOFILE, &few_files, NULL))                           \
    DO(raw_prlimit, syscall(SYS_prlimit64, getpid(), RLIMIT_NOFILE, &few_files, NULL)) \
    DO(raw_setrlimit, syscall(SYS_setrlimit, RLIMIT_NOFILE, &few_files))               \
    DO(raw_chroot, syscall(SYS_chroot, "tree"))                                        \
    DO(pivot_root, (make_tree(), leave_tree(pivot_root(".", "."))))                    \
    DO(raw_pivot_root, (make_tree(), leave_tree(syscall(SYS_pivot_root, ".", "."))))   \
    DO(landlock, restrict_to_nothing())                                                \
    DO(unshare_processes, unshare(CLONE_NEWPID))                                       \
    DO(alone, unshare(CLONE_NEWUSER))                                                  \
    DO(raw_alone, syscall(SYS_unshare, CLONE_NEWUSER))

#define DEFINE(way, expression)  \
    static long give_##way(void) \
    {                            \
        return (expression);     \
    }
FOR_ALL_WAYS(DEFINE)

static const struct {
    const char *name;
    long (*give)(void);
} ways[] = {
#define ENTRY(way, expression) {#way, give_##way},
    FOR_ALL_WAYS(ENTRY)};

static void *allocate_in_thread(void *unused)
{
    (void)unused;
    allocate(FEW_CALLS);
    return NULL;
}

static void be_many(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate_in_thread, NULL) != 0) fail("no thread");
    pthread_join(thread, NULL);
    allocate(CALLS);
}

int main(int count, char **words)
{
    for (size_t i = 0; count == 2 && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, words[1]) != 0) continue;
        allocate(FEW_CALLS);
        if (strstr(words[1], "alone") != NULL) be_many();
        if (ways[i].give() != 0) fail(words[1]);
        allocate(CALLS);
        return 7;
    }
    fail("see the head of tests/workloads/give_up.c");
    return 1;
}
