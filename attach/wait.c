#include "attach/wait.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/arch.h"

/* ---- time limits ---- */

/* The limit of a socket for receiving (SO_RCVTIMEO) is no argument of the call. */
static bool has_limit(pid_t process, uint64_t descriptor)
{
    struct timeval limit = {0, 0};
    socklen_t bytes = sizeof limit;
    const int of = (int)syscall(SYS_pidfd_open, process, 0);
    if (of < 0) return true;
    const int copy = (int)syscall(SYS_pidfd_getfd, of, (int)descriptor, 0);
    close(of);
    if (copy < 0) return true;
    /* What is no socket has none. */
    const bool is_limited = getsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &limit, &bytes) == 0 &&
                            (limit.tv_sec != 0 || limit.tv_usec != 0);
    close(copy);
    return is_limited;
}

static enum wait_kind wait_receive(pid_t process, const uint64_t arguments[6], uint64_t flags)
{
    if (flags & MSG_WAITALL) return WAIT_FRAGILE;
    return has_limit(process, arguments[0]) ? WAIT_RENEWED : WAIT_KEPT;
}

static enum wait_kind limited_if(bool is_limited)
{
    return is_limited ? WAIT_RENEWED : WAIT_KEPT;
}

/* ---- each call ---- */

static enum wait_kind futex_kind(const uint64_t arguments[6])
{
    const uint64_t operation = arguments[1] & FUTEX_CMD_MASK;
    if (operation == FUTEX_WAIT_BITSET) return WAIT_KEPT; /* until a time, not for a time */
    if (operation == FUTEX_WAIT) return limited_if(arguments[3] != 0 && !ARCH_STOP_KEEPS_TIME);
    return WAIT_FRAGILE;
}

static enum wait_kind uring_kind(const uint64_t arguments[6])
{
    /* It would have submitted something, or have got some of the completions. */
    if (arguments[1] != 0 || arguments[2] > 1) return WAIT_FRAGILE;
    return limited_if((arguments[3] & IORING_ENTER_EXT_ARG) != 0);
}

enum wait_kind wait_kind_of(pid_t process, long number, const uint64_t arguments[6])
{
    switch (number) {
    case SYS_futex: return futex_kind(arguments);
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_restart_syscall: /* of these, poll() or futex(), after a stop */
        return limited_if(!ARCH_STOP_KEEPS_TIME);
    case SYS_ppoll: /* the kernel updates the limits of these two */
    case SYS_pselect6:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_msgrcv:
    case SYS_mq_timedreceive: /* until a time */
    case SYS_flock:
    case SYS_rt_sigsuspend: return WAIT_KEPT;
    case SYS_fcntl:
        return arguments[1] == F_SETLKW || arguments[1] == F_OFD_SETLKW ? WAIT_KEPT : WAIT_FRAGILE;
#ifdef SYS_poll
    case SYS_poll: return limited_if((int)arguments[2] >= 0 && !ARCH_STOP_KEEPS_TIME);
    case SYS_select:
    case SYS_pause: return WAIT_KEPT;
    case SYS_epoll_wait: return limited_if((int)arguments[3] >= 0);
#endif
    case SYS_epoll_pwait: return limited_if((int)arguments[3] >= 0);
    case SYS_epoll_pwait2: return limited_if(arguments[3] != 0);
    case SYS_rt_sigtimedwait: return limited_if(arguments[2] != 0);
    case SYS_semtimedop: return limited_if(arguments[3] != 0);
    case SYS_semop: return WAIT_KEPT;
    case SYS_io_getevents:
        return (int64_t)arguments[1] > 1 ? WAIT_FRAGILE : limited_if(arguments[4] != 0);
    case SYS_io_uring_enter: return uring_kind(arguments);
    case SYS_accept:
    case SYS_accept4:
    case SYS_read:
    case SYS_readv: return wait_receive(process, arguments, 0);
    case SYS_recvfrom: return wait_receive(process, arguments, arguments[3]);
    case SYS_recvmsg: return wait_receive(process, arguments, arguments[2]);
    default: return WAIT_FRAGILE;
    }
}

/* ---- what /proc says ---- */

/* The file's beginning, as a text. False: it cannot be read. */
static bool file_read(pid_t process, pid_t thread, const char *name, char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)process, (int)thread, name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t got = read(file, text, bytes - 1);
    close(file);
    if (got < 0) return false;
    text[got] = '\0';
    return true;
}

void wait_look(struct wait *wait, pid_t process, pid_t thread)
{
    char text[256];
    uint64_t *of = wait->arguments;
    *wait = (struct wait){.kind = WAIT_NONE, .number = -1};
    if (!file_read(process, thread, "syscall", text, sizeof text) ||
        sscanf(text,
               "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
               " %" SCNx64 " %" SCNx64,
               &wait->number, &of[0], &of[1], &of[2], &of[3], &of[4], &of[5], &wait->stack,
               &wait->code) != 9)
        wait->number = -1; /* "running", or "-1" for a page fault */
    if (wait->number >= 0) wait->kind = wait_kind_of(process, wait->number, of);
}

bool wait_count(pid_t process, pid_t thread, uint64_t *count)
{
    static const char name[] = "\nvoluntary_ctxt_switches:";
    char text[4096];
    if (!file_read(process, thread, "status", text, sizeof text)) return false;
    const char *at = strstr(text, name);
    if (at == NULL) return false;
    *count = strtoull(at + sizeof name - 1, NULL, 10);
    return true;
}
