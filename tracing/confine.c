/* confine - before the program takes from itself what the recorder needs.
 *
 * The functions of libc stand behind these. They do what they would do anyway, but first:
 *
 *   a filter of system calls for the      the writer begins, and from then on threads of the
 *   calling thread                        program make no calls of ours (os_confine)
 *   a filter for all threads              the recording ends, as the writer is one of them
 *   another root directory or user,       the writer begins, and with it the recording of a
 *   a lower limit                         forked child
 *
 * A program that makes these system calls without libc is on its own (docs/recording.md, Limits). */
#include "next_function.h"
#include "os.h"
#include "os_linux.h"
#include "recording.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static long result_of(long result)
{
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

/* --- filters --- */

static long confine(long number, long a, long b, long c, long d, long e, long f)
{
    bool for_all =
        number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER && b & SECCOMP_FILTER_FLAG_TSYNC;
    if (for_all)
        recording_end_for_filter();
    else
        recording_needs_writer();
    long result = system_call(number, a, b, c, d, e, f);
    if (result >= 0) os_confine();
    return result_of(result);
}

/* Whether the call confines the thread. seccomp() that is given no filter only reports what the
 * system can do. */
static bool confines(long number, long a, long c)
{
    if (number == SYS_prctl) return a == PR_SET_SECCOMP;
    return number == SYS_seccomp &&
           (a == SECCOMP_SET_MODE_STRICT || (a == SECCOMP_SET_MODE_FILTER && c != 0));
}

/* Like the one of libc it takes six words, however many there are. */
EXPORT long confine_syscall(long number, long a, long b, long c, long d, long e,
                            long f) __asm__("syscall");

long confine_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (confines(number, a, c)) return confine(number, a, b, c, d, e, f);
    return result_of(system_call(number, a, b, c, d, e, f));
}

EXPORT int confine_prctl(long option, long a, long b, long c, long d) __asm__("prctl");

int confine_prctl(long option, long a, long b, long c, long d)
{
    option = (int)option;
    return (int)confine_syscall(SYS_prctl, option, a, b, c, d, 0);
}

/* --- limits, root directories and users --- */

EXPORT int confine_setrlimit(int resource, const struct rlimit *limit) __asm__("setrlimit");
/* The same on a machine with words of 64 bits. */
EXPORT int confine_setrlimit64(int resource, const struct rlimit *limit) __asm__("setrlimit64")
    __attribute__((alias("setrlimit")));

/* Whether the writer could not begin, or not write, with so much less. */
static bool takes_away(int resource, const struct rlimit *limit)
{
    struct rlimit now;
    if (os_is_confined() || !limit) return false;
    if (resource != RLIMIT_NOFILE && resource != RLIMIT_FSIZE && resource != RLIMIT_AS &&
        resource != RLIMIT_NPROC)
        return false;
    return system_call(SYS_getrlimit, resource, (long)&now, 0, 0, 0, 0) == 0 &&
           limit->rlim_cur < now.rlim_cur;
}

int confine_setrlimit(int resource, const struct rlimit *limit)
{
    if (takes_away(resource, limit)) recording_needs_writer();
    return (int)result_of(system_call(SYS_setrlimit, resource, (long)limit, 0, 0, 0, 0));
}

EXPORT int chroot(const char *path)
{
    recording_needs_writer();
    return (int)result_of(system_call(SYS_chroot, (long)path, 0, 0, 0, 0, 0));
}

/* libc changes the user of all threads that it knows. Up to three users, as all of these functions
 * take them. */
typedef int change_user(uid_t a, uid_t b, uid_t c);

static struct {
    change_user *setuid, *seteuid, *setreuid, *setresuid;
} libc;

/* In a constructor, because after a fork dlsym() might wait for a lock. */
__attribute__((constructor)) static void find_all(void)
{
    if (libc.setuid) return;
    next_function(&libc.setuid, "setuid");
    next_function(&libc.seteuid, "seteuid");
    next_function(&libc.setreuid, "setreuid");
    next_function(&libc.setresuid, "setresuid");
}

static int change(change_user *const *function, uid_t a, uid_t b, uid_t c)
{
    find_all();
    recording_needs_writer();
    return (*function)(a, b, c);
}

#define DEFINE_CHANGE(function, parameters, a, b, c) \
    EXPORT int function parameters                   \
    {                                                \
        return change(&libc.function, a, b, c);      \
    }
DEFINE_CHANGE(setuid, (uid_t user), user, 0, 0)
DEFINE_CHANGE(seteuid, (uid_t effective), effective, 0, 0)
DEFINE_CHANGE(setreuid, (uid_t real, uid_t effective), real, effective, 0)
DEFINE_CHANGE(setresuid, (uid_t real, uid_t effective, uid_t saved), real, effective, saved)
