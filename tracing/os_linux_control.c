/* os_linux_control - the socket of the control thread. Abstract: there is no file that could be left behind. */
#include "os.h"

#include "os_linux.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#define WAITING_MAX    16
/* A client has sent its request when it connects, or soon. */
#define REQUEST_WAIT_S 2

/* Abstract names begin with a null byte and end where the length says. */
static int socket_address(struct sockaddr_un *address, int process_id)
{
    static const char name[] = "\0malloctape-";
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, sizeof name - 1);
    char *end = os_linux_put_number(address->sun_path + sizeof name - 1, (unsigned)process_id);
    return (int)(end - (char *)address);
}

int os_control_listen(void)
{
    struct sockaddr_un address;
    int bytes = socket_address(&address, os_process_id());
    int file = os_linux_keep_from_messages(
        (int)system_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0));
    if (file < 0) return file;
    long result = system_call(SYS_bind, file, (long)&address, bytes, 0, 0, 0);
    if (result == 0) result = system_call(SYS_listen, file, WAITING_MAX, 0, 0, 0, 0);
    if (result == 0) return file;
    os_file_close(file);
    return (int)result;
}

/* The process runs as the user whom its directory in /proc belongs to, whatever it was at the start. */
static bool may_ask(int file)
{
    struct ucred peer;
    struct stat process;
    unsigned bytes = sizeof peer;
    if (system_call(SYS_getsockopt, file, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&bytes, 0) <
        0)
        return false;
    if (peer.uid == 0) return true;
    long result =
        system_call(SYS_newfstatat, AT_FDCWD, (long)"/proc/self", (long)&process, 0, 0, 0);
    uid_t user = result == 0 ? process.st_uid : (uid_t)system_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
    return peer.uid == user;
}

/* Up to the end of a line, which is cut off. False: none came. */
static bool read_line(int file, char *text, size_t bytes)
{
    size_t used = 0;
    while (used < bytes) {
        long more = system_call(SYS_read, file, (long)(text + used), (long)(bytes - used), 0, 0, 0);
        if (more <= 0) return false;
        for (char *end = text + used; more > 0; end++, used++, more--) {
            if (*end != '\n') continue;
            *end = 0;
            return true;
        }
    }
    return false;
}

int os_control_next(int listening, char *request, size_t bytes, uint64_t timeout_ns)
{
    struct pollfd wanted = {.fd = listening, .events = POLLIN};
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    const struct timeval patience = {REQUEST_WAIT_S, 0};
    if (system_call(SYS_ppoll, (long)&wanted, 1, (long)&timeout, 0, 0, 0) != 1) return ERRNO_EAGAIN;
    int file = os_linux_keep_from_messages(
        (int)system_call(SYS_accept4, listening, 0, 0, SOCK_CLOEXEC, 0, 0));
    if (file < 0) return ERRNO_EAGAIN;
    system_call(SYS_setsockopt, file, SOL_SOCKET, SO_RCVTIMEO, (long)&patience, sizeof patience, 0);
    system_call(SYS_setsockopt, file, SOL_SOCKET, SO_SNDTIMEO, (long)&patience, sizeof patience, 0);
    if (may_ask(file) && read_line(file, request, bytes)) return file;
    os_file_close(file);
    return ERRNO_EAGAIN;
}

void os_control_answer(int file, const char *text, size_t bytes)
{
    system_call(SYS_sendto, file, (long)text, (long)bytes, MSG_NOSIGNAL, 0, 0);
    os_file_close(file);
}
