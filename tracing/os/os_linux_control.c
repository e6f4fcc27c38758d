/* os_linux_control - the socket of the control thread. It is abstract: there is no file that could
 * be left behind. */
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#define WAITING_MAX    16
/* A client has sent its request when it connects, or soon. */
#define REQUEST_WAIT_S 2
/* In a user namespace, the id of all users and groups that it does not map. */
#define UNKNOWN_ID     65534

/* Abstract names begin with a null byte and end where the length says. Returns the name. */
static struct text begin_address(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    struct text text = {address->sun_path + 1, 0, sizeof address->sun_path - 1};
    text_string(&text, name);
    return text;
}

static int open_socket(void)
{
    return os_linux_keep_from_messages(
        (int)system_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0));
}

static long bind_socket(int file, const struct sockaddr_un *address, const struct text *name)
{
    const size_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + name->used;
    return system_call(SYS_bind, file, (long)address, (long)bytes, 0, 0, 0);
}

/* ---- who may ask ---- */

static uid_t own_user(void)
{
    return (uid_t)system_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

static gid_t own_group(void)
{
    return (gid_t)system_call(SYS_getegid, 0, 0, 0, 0, 0, 0);
}

/* Whoever has the same user need not have the same capabilities. */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    if (own_user() == 0) return 0;
    return (int)system_call(SYS_capset, (long)&header, (long)none, 0, 0, 0, 0);
}

/* Whether the namespace maps all ids, so that UNKNOWN_ID, too, is one user or group. */
static bool knows_all(const char *map)
{
    char text[64] = "";
    int file = os_file_open_read(map);
    os_file_read_start(file, text, sizeof text - 1);
    os_file_close(file);
    return strstr(text, " 4294967295\n") != NULL;
}

/* Whoever may trace the process (ptrace(2)) gains nothing by asking it, so this follows the
 * kernel's rule for that. When a thread changes its user or its group, only root can trace the
 * process, but the program may undo that. So the asker's ids must be those of this thread, which
 * never change, and those of the program's first thread, which own the directory in /proc. */
static bool os_linux_control_is_equal(const struct ucred *peer)
{
    struct stat process;
    if (system_call(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0, 0) != 1 ||
        system_call(SYS_newfstatat, AT_FDCWD, (long)"/proc/self", (long)&process, 0, 0, 0) != 0 ||
        peer->uid != own_user() || peer->uid != process.st_uid)
        return false;
    if (peer->uid == 0) return true;
    if (peer->gid != own_group() || peer->gid != process.st_gid) return false;
    return (peer->uid != UNKNOWN_ID || knows_all("/proc/self/uid_map")) &&
           (peer->gid != UNKNOWN_ID || knows_all("/proc/self/gid_map"));
}

static enum os_asker asker_at(int file)
{
    struct ucred peer;
    unsigned bytes = sizeof peer;
    if (system_call(SYS_getsockopt, file, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&bytes, 0) <
        0)
        return OS_ASKER_OTHER;
    if (os_linux_control_is_equal(&peer)) return OS_ASKER_EQUAL;
    return peer.uid == 0 ? OS_ASKER_ROOT : OS_ASKER_OTHER;
}

/* ---- requests ---- */

int os_control_listen(void)
{
    struct sockaddr_un address;
    struct text name = begin_address(&address, "malloctape-");
    text_decimal(&name, (unsigned)os_process_id());
    long result = drop_capabilities();
    int file = result < 0 ? (int)result : open_socket();
    if (file < 0) return file;
    result = bind_socket(file, &address, &name);
    if (result == 0) result = system_call(SYS_listen, file, WAITING_MAX, 0, 0, 0, 0);
    if (result == 0) return file;
    os_file_close(file);
    return (int)result;
}

/* Room for the descriptors of a request. */
union descriptors {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(struct os_files))];
};

/* Takes the descriptors that came with a part of a request: as many as are wanted, or none. */
static void take_files(const struct msghdr *message, struct os_files *given)
{
    const struct cmsghdr *head = CMSG_FIRSTHDR(message);
    struct os_files came = OS_NO_FILES;
    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return;
    const size_t bytes = head->cmsg_len - CMSG_LEN(0);
    memcpy(&came, CMSG_DATA(head), bytes < sizeof came ? bytes : sizeof came);
    came.stream = os_linux_keep_from_messages(came.stream);
    came.spool = os_linux_keep_from_messages(came.spool);
    if (given->stream < 0 && came.spool >= 0)
        *given = came;
    else
        os_files_close(&came);
}

static long os_linux_control_receive(int file, char *text, size_t bytes, struct os_files *given)
{
    union descriptors descriptors;
    struct iovec part = {text, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &descriptors,
                             .msg_controllen = sizeof descriptors};
    long result = system_call(SYS_recvmsg, file, (long)&message, MSG_CMSG_CLOEXEC, 0, 0, 0);
    if (result > 0) take_files(&message, given);
    return result;
}

/* Reads one line, without its end. False: none came. */
static bool os_linux_control_read_line(int file, char *text, size_t bytes, struct os_files *given)
{
    size_t used = 0;
    while (used < bytes) {
        long more = os_linux_control_receive(file, text + used, bytes - used, given);
        if (more <= 0) return false;
        for (char *end = text + used; more > 0; end++, used++, more--) {
            if (*end != '\n') continue;
            *end = 0;
            return true;
        }
    }
    return false;
}

int os_control_next(int listening, char *request, size_t bytes, uint64_t timeout_ns,
                    enum os_asker *asker, struct os_files *given)
{
    struct pollfd wanted = {.fd = listening, .events = POLLIN};
    struct timespec timeout = os_linux_timespec(timeout_ns);
    const struct timeval patience = {REQUEST_WAIT_S, 0};
    if (system_call(SYS_ppoll, (long)&wanted, 1, (long)&timeout, 0, 0, 0) != 1) return -EAGAIN;
    int file = os_linux_keep_from_messages(
        (int)system_call(SYS_accept4, listening, 0, 0, SOCK_CLOEXEC, 0, 0));
    if (file < 0) return -EAGAIN;
    system_call(SYS_setsockopt, file, SOL_SOCKET, SO_RCVTIMEO, (long)&patience, sizeof patience, 0);
    system_call(SYS_setsockopt, file, SOL_SOCKET, SO_SNDTIMEO, (long)&patience, sizeof patience, 0);
    request[0] = 0;
    *given = OS_NO_FILES;
    *asker = asker_at(file);
    if (*asker == OS_ASKER_OTHER || os_linux_control_read_line(file, request, bytes, given))
        return file;
    os_files_close(given);
    os_file_close(file);
    return -EAGAIN;
}

void os_control_answer(int file, const char *text, size_t bytes)
{
    system_call(SYS_sendto, file, (long)text, (long)bytes, MSG_NOSIGNAL, 0, 0);
    os_file_close(file);
}
