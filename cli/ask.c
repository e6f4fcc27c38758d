#include "cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/target.h"
#include "common/progress.h"
#include "tracing/process/request.h"

#define SOCKET_NAME "malloctape-" /* followed by the process id */

/* How long an answer may take, in seconds. */
#define QUICK_S  10.0
#define SLOW_S   120.0
#define RETRY_MS 20

bool ask_parse_process(pid_t *process, const char *word)
{
    char *end;
    errno = 0;
    long number = strtol(word, &end, 10);
    if (errno != 0 || *end != '\0' || number <= 0 || number > INT_MAX) return false;
    *process = (pid_t)number;
    return true;
}

/* Whether the peer is the process: a socket of that name may belong to anybody, or to an earlier
 * process with the same id. False: a message has been printed, unless `command` is NULL. */
static bool is_process(const struct cli_command *command, int file, pid_t process)
{
    struct ucred peer = {0};
    socklen_t bytes = sizeof peer;
    struct stat status;
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)process);
    if (getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == process &&
        (peer.uid == 0 || stat(path, &status) != 0 || peer.uid == status.st_uid))
        return true;
    if (command != NULL && peer.pid != 0)
        cli_fail(command,
                 "process %d cannot be reached: process %d of user %u has taken its socket's name",
                 (int)process, (int)peer.pid, (unsigned)peer.uid);
    else if (command != NULL)
        cli_fail(command,
                 "process %d cannot be reached: a process of user %u, not visible from here, has "
                 "taken its socket's name",
                 (int)process, (unsigned)peer.uid);
    return false;
}

/* Whether a file in the process's directory in /proc has the text, which may not hold a null byte.
 */
static bool process_file_has(pid_t process, const char *name, const char *text)
{
    char path[64];
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    int separator = strcmp(name, "environ") == 0 ? '\0' : '\n';
    while (!found && getdelim(&line, &room, separator, file) > 0)
        found = strstr(line, text) != NULL;
    free(line);
    fclose(file);
    return found;
}

/* Explains why no process listens. */
static void say_why_silent(const struct cli_command *command, pid_t process)
{
    const char *why = "it was not started by `malloctape record --control`";
    char attaches[64];
    snprintf(attaches, sizeof attaches, "; `malloctape %s --pid %d` attaches to it",
             command == &cli_top ? "top" : "record", (int)process);
    if (kill(process, 0) != 0 && errno == ESRCH) {
        cli_fail(command, "there is no process %d", (int)process);
        return;
    }
    const bool has_library = process_file_has(process, "maps", "libtcmalloc_minimal_tracing.so") ||
                             process_file_has(process, "maps", "libmalloctape.so");
    const bool should_listen = process_file_has(process, "environ", "TCMALLOC_TRACE_CONTROL=");
    if (should_listen)
        why = has_library ? "its socket is not there yet, or it is in another network namespace"
                          : "it was started without the tracing library";
    else if (has_library)
        why = "it was started without `record --control` or `--idle` (TCMALLOC_TRACE_CONTROL=1)";
    if (should_listen || has_library) *attaches = '\0';
    cli_fail(command, "process %d does not listen: %s%s", (int)process, why, attaches);
}

/* The id that the process has for itself, which differs if it is in another PID namespace. */
static int number_for_itself(pid_t process)
{
    char numbers[256];
    if (!target_status(process, "NSpid", numbers, sizeof numbers)) return (int)process;
    const char *last = strrchr(numbers, '\t');
    return atoi(last != NULL ? last + 1 : numbers);
}

/* A socket in the network namespace of the process, because each has its own abstract names. Only
 * root can create it there (setns(2)); for other users it is in this namespace. */
static int socket_open(pid_t process)
{
    char path[64];
    struct stat here, there;
    int back = -1, into = -1;
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)process);
    if (stat("/proc/self/ns/net", &here) == 0 && stat(path, &there) == 0 &&
        (here.st_dev != there.st_dev || here.st_ino != there.st_ino)) {
        back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        into = open(path, O_RDONLY | O_CLOEXEC);
    }
    const bool is_there = back >= 0 && into >= 0 && setns(into, CLONE_NEWNET) == 0;
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (is_there) setns(back, CLONE_NEWNET);
    if (back >= 0) close(back);
    if (into >= 0) close(into);
    return made;
}

/* ---- waiting: whoever has the socket may never answer ---- */

struct patience {
    double until_s, heeds_s; /* seconds_now() */
    int signals;
};

struct answer {
    char *text;
    size_t bytes, room;
};

/* Waits until there is something to read (`file` -1: a moment). Else ASK_SILENT or
 * ASK_INTERRUPTED. */
static enum ask_result ask_wait_for(const struct patience *patience, int file)
{
    struct pollfd files[] = {{patience->signals, POLLIN, 0}, {file, POLLIN, 0}};
    const double left = patience->until_s - seconds_now();
    if (left <= 0) return ASK_SILENT;
    const int ms = file >= 0 ? (int)(left * 1e3) + 1 : RETRY_MS;
    if (poll(files, 2, ms) < 0 && errno != EINTR) return ASK_SILENT;
    struct signalfd_siginfo dropped;
    if (files[0].revents != 0 && (seconds_now() >= patience->heeds_s ||
                                  read(patience->signals, &dropped, sizeof dropped) < 0))
        return ASK_INTERRUPTED;
    return ASK_ANSWERED;
}

/* A full queue of a socket may become shorter. */
static enum ask_result connect_to(const struct ask *ask, int file, const struct patience *patience)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, SOCKET_NAME "%d",
                                number_for_itself(ask->process));
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    enum ask_result result = ASK_ANSWERED;
    while (result == ASK_ANSWERED && connect(file, (struct sockaddr *)&address, bytes) != 0)
        result = errno == EAGAIN ? ask_wait_for(patience, -1) : ASK_NOBODY;
    return result;
}

/* Reads until the other side closes, which it may do without having read everything. */
static enum ask_result answer_read(int file, struct answer *answer, const struct patience *patience)
{
    enum ask_result result = ASK_ANSWERED;
    ssize_t more = 1;
    while (more != 0 && answer->bytes < answer->room - 1 && result == ASK_ANSWERED) {
        more = read(file, answer->text + answer->bytes, answer->room - 1 - answer->bytes);
        if (more > 0) answer->bytes += (size_t)more;
        if (more < 0 && errno != EAGAIN && errno != EINTR) break;
        if (more < 0) result = ask_wait_for(patience, file);
    }
    answer->text[answer->bytes] = '\0';
    return result;
}

/* In one piece: descriptors belong to the bytes that they are sent with. Whoever refuses to read it
 * has answered already. */
static void request_send(int file, const char *request, const int *given)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } descriptors = {.head = {.cmsg_len = CMSG_LEN(2 * sizeof(int)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS}};
    struct iovec parts[] = {{(char *)CONTROL_HEAD, strlen(CONTROL_HEAD)},
                            {(char *)request, strlen(request)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (given[1] >= 0) {
        memcpy(CMSG_DATA(&descriptors.head), given, 2 * sizeof(int));
        message.msg_control = &descriptors;
        message.msg_controllen = sizeof descriptors;
    }
    sendmsg(file, &message, MSG_NOSIGNAL);
}

/* What ends a recording may have to write much. */
static double seconds_for(const char *request)
{
    static const char *const quick[] = {"status", "watch", "start", "record"};
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        if (strncmp(request, quick[i], strlen(quick[i])) == 0) return QUICK_S;
    return SLOW_S;
}

/* Sends the request and reads the answer. */
static enum ask_result talk(const struct ask *ask, const char *request, struct answer *answer)
{
    const struct patience patience = {seconds_now() + seconds_for(request), ask->heeds_s,
                                      ask->signals};
    const int file = socket_open(ask->process);
    if (file < 0) return ASK_NOBODY;
    enum ask_result result = connect_to(ask, file, &patience);
    if (result == ASK_ANSWERED && !is_process(ask->command, file, ask->process))
        result = ASK_REFUSED;
    if (result == ASK_ANSWERED) {
        request_send(file, request, ask->given);
        result = answer_read(file, answer, &patience);
    }
    close(file);
    return result;
}

/* The rest of the answer after `head`, if it begins with that; or NULL. */
static char *ask_behind(char *answer, const char *head)
{
    return strncmp(answer, head, strlen(head)) == 0 ? answer + strlen(head) : NULL;
}

/* Explains an answer that is not CONTROL_OK. */
static void say_why_not(const struct cli_command *command, pid_t process, char *answer)
{
    answer[strcspn(answer, "\n")] = '\0';
    const char *error = ask_behind(answer, CONTROL_ERROR),
               *other = ask_behind(answer, CONTROL_NAME);
    if (*answer == '\0')
        cli_fail(command, "process %d does not answer: it has ended or is about to end",
                 (int)process);
    else if (error != NULL && command == &cli_record && strstr(error, "recording already") != NULL)
        cli_fail(command, "process %d: %s; `malloctape ctl %d stop` ends that", (int)process, error,
                 (int)process);
    else if (error != NULL)
        cli_fail(command, "process %d: %s", (int)process, error);
    else if (other != NULL)
        cli_fail(command,
                 "process %d was started with another version of malloctape: its control "
                 "protocol has version %.*s, this one has " CONTROL_VERSION,
                 (int)process, (int)strcspn(other, " \n"), other);
    else
        cli_fail(command,
                 "process %d was started with another version of malloctape: its control "
                 "protocol has no version, this one has " CONTROL_VERSION,
                 (int)process);
}

static bool is_stopped(pid_t process)
{
    char state[64];
    return target_status(process, "State", state, sizeof state) && strchr("Tt", state[0]) != NULL;
}

static void say_why_late(const struct ask *ask, const char *request)
{
    if (ask->result == ASK_SILENT)
        cli_fail(ask->command, "process %d has not answered for %.0f seconds%s", (int)ask->process,
                 seconds_for(request), is_stopped(ask->process) ? ": it is stopped" : "");
    else
        cli_fail(ask->command, "process %d has not answered yet", (int)ask->process);
}

size_t ask_process(struct ask *ask, const char *request, char *answer, size_t room)
{
    struct answer whole = {answer, 0, room};
    const bool speaks = ask->command != NULL;
    *answer = '\0';
    ask->result = talk(ask, request, &whole);
    if (ask->result == ASK_NOBODY && speaks) say_why_silent(ask->command, ask->process);
    if ((ask->result == ASK_SILENT || ask->result == ASK_INTERRUPTED) && speaks)
        say_why_late(ask, request);
    if (ask->result != ASK_ANSWERED) return 0;
    const char *text = ask_behind(answer, CONTROL_OK);
    if (text == NULL) {
        ask->result = ASK_REFUSED;
        if (speaks) say_why_not(ask->command, ask->process, answer);
        return 0;
    }
    const size_t bytes = whole.bytes - (size_t)(text - answer);
    memmove(answer, text, bytes + 1);
    return bytes;
}

/* Lines of /proc/net/unix end with the socket's name; the leading null byte is shown as @. */
void ask_offer(program_add *add)
{
    char line[512], process[16], path[32], program[64];
    FILE *file = fopen("/proc/net/unix", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *name = strstr(line, " @" SOCKET_NAME);
        if (name == NULL || sscanf(name, " @" SOCKET_NAME "%15[0-9]", process) != 1) continue;
        snprintf(path, sizeof path, "/proc/%s/comm", process);
        FILE *comm = fopen(path, "re");
        if (comm != NULL && fgets(program, sizeof program, comm) != NULL) {
            program[strcspn(program, "\n")] = '\0';
            add(process, program);
        }
        if (comm != NULL) fclose(comm);
    }
    if (file != NULL) fclose(file);
}
