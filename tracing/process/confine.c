/* confine - what happens before the program gives up something that the recorder needs.
 *
 * These functions replace those of libc. They do the same, but first:
 *
 *   a filter of system calls for the      the writer begins, and from then on threads of the
 *   calling thread                        program make no calls of ours (os_confine)
 *   a filter for all threads              the recording ends, as the writer is one of them
 *   another root directory, user or       the writer begins, and with it the recording of a
 *   group, fewer capabilities, rules of   forked child
 *   landlock, a lower limit
 *   a namespace of users, which needs     the recording ends if there is no thread but ours and
 *   a process of one thread               the calling one
 *
 * A program that makes these system calls without libc is on its own (docs/recording.md, Limits).
 * Mounts, and namespaces of mounts, are not here: if they hide the files from a writer that has not
 * begun, the recording ends with one line. */
#include "tracing/core/recording_begin.h"
#include "tracing/os/next_function.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Since Linux 5.13; older headers do not have it. */
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

#define EXPORT __attribute__((visibility("default")))

static long result_of(long result)
{
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

/* ---- filters ---- */

static long confine(long number, long a, long b, long c, long d, long e, long f)
{
    bool for_all =
        number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER && b & SECCOMP_FILTER_FLAG_TSYNC;
    if (for_all)
        recording_end_for_filter();
    else
        recording_needs_writer();
    long result = os_system_call(number, a, b, c, d, e, f);
    if (result >= 0) os_confine();
    return result_of(result);
}

/* Whether the call confines the thread. Without a filter it only asks what the system supports. */
static bool confines(long number, long a, long b, long c)
{
    if (number == SYS_prctl) return a == PR_SET_SECCOMP && (b == SECCOMP_MODE_STRICT || c != 0);
    return number == SYS_seccomp &&
           (a == SECCOMP_SET_MODE_STRICT || (a == SECCOMP_SET_MODE_FILTER && c != 0));
}

EXPORT int confine_prctl(long option, long a, long b, long c, long d) __asm__("prctl");

int confine_prctl(long option, long a, long b, long c, long d)
{
    option = (int)option;
    if (confines(SYS_prctl, option, a, b)) return (int)confine(SYS_prctl, option, a, b, c, d, 0);
    return (int)result_of(os_system_call(SYS_prctl, option, a, b, c, d, 0));
}

/* ---- limits ---- */

EXPORT int confine_setrlimit(int resource, const struct rlimit *limit) __asm__("setrlimit");
/* The same on a machine with words of 64 bits. */
EXPORT int confine_setrlimit64(int resource, const struct rlimit *limit) __asm__("setrlimit64")
    __attribute__((alias("setrlimit")));
EXPORT int confine_prlimit(pid_t process, int resource, const struct rlimit *limit,
                           struct rlimit *before) __asm__("prlimit");
EXPORT int confine_prlimit64(pid_t process, int resource, const struct rlimit *limit,
                             struct rlimit *before) __asm__("prlimit64")
    __attribute__((alias("prlimit")));

/* Whether the process gets a lower limit, with which the writer might not be able to begin or
 * write. */
static bool lowers(long process, long resource, const struct rlimit *limit)
{
    struct rlimit now;
    if (os_is_confined() || limit == NULL || (process != 0 && process != os_process_id()))
        return false;
    if (resource != RLIMIT_NOFILE && resource != RLIMIT_FSIZE && resource != RLIMIT_AS &&
        resource != RLIMIT_NPROC)
        return false;
    return os_system_call(SYS_getrlimit, resource, (long)&now, 0, 0, 0, 0) == 0 &&
           limit->rlim_cur < now.rlim_cur;
}

int confine_prlimit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *before)
{
    if (lowers(process, resource, limit)) recording_needs_writer();
    return (int)result_of(
        os_system_call(SYS_prlimit64, process, resource, (long)limit, (long)before, 0, 0));
}

int confine_setrlimit(int resource, const struct rlimit *limit)
{
    return confine_prlimit(0, resource, limit, NULL);
}

/* ---- root directories, users, groups, capabilities ---- */

EXPORT int chroot(const char *path)
{
    recording_needs_writer();
    return (int)result_of(os_system_call(SYS_chroot, (long)path, 0, 0, 0, 0, 0));
}

#define DEFINE(name, parameters, arguments)      \
    EXPORT int name parameters;                  \
    int name parameters                          \
    {                                            \
        recording_needs_writer();                \
        return next_functions()->name arguments; \
    }
NEXT_FUNCTIONS_THAT_CONFINE(DEFINE)

/* ---- namespaces ---- */

/* With CLONE_NEWUSER, which needs a process of one thread, our threads end if the call fails
 * because of them. Without it, CLONE_NEWPID lets no thread begin any more, so the writer begins
 * first. */
static long unshare_alone(long flags)
{
    if ((flags & (CLONE_NEWUSER | CLONE_NEWPID)) == CLONE_NEWPID) recording_needs_writer();
    long result = os_system_call(SYS_unshare, flags, 0, 0, 0, 0, 0);
    if (result != -EINVAL || !(flags & CLONE_NEWUSER) || !recording_end_to_be_alone())
        return result;
    return os_system_call(SYS_unshare, flags, 0, 0, 0, 0, 0);
}

EXPORT int unshare(int flags)
{
    return (int)result_of(unshare_alone(flags));
}

/* ---- any of these ---- */

/* Whether the call takes away what opening the files needs. SYS_capset is left out: programs that
 * make it by themselves are sandboxes, which later look whether they are alone (browsers). */
static bool takes_away(long number, long a, long b, long c)
{
    switch (number) {
    case SYS_setuid:
    case SYS_setreuid:
    case SYS_setresuid:
    case SYS_setfsuid:
    case SYS_setgid:
    case SYS_setregid:
    case SYS_setresgid:
    case SYS_setfsgid:
    case SYS_setgroups:
    case SYS_chroot:
    case SYS_pivot_root:
    case SYS_landlock_restrict_self: return true;
    case SYS_setrlimit: return lowers(0, a, (const struct rlimit *)b);
    case SYS_prlimit64: return lowers(a, b, (const struct rlimit *)c);
    default: return false;
    }
}

/* Like libc's, it reads six arguments, however many the caller passes. */
EXPORT long confine_syscall(long number, long a, long b, long c, long d, long e,
                            long f) __asm__("syscall");

long confine_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (confines(number, a, b, c)) return confine(number, a, b, c, d, e, f);
    if (number == SYS_unshare) return result_of(unshare_alone(a));
    if (takes_away(number, a, b, c)) recording_needs_writer();
    /* In this function itself: a thread that waits here can be used to detach (attach/safe_place.h).
     */
    return result_of(arch_system_call(number, a, b, c, d, e, f));
}
