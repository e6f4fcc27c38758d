#include "cli/ask.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tracing/process/request.h"

#define SOCKET_NAME "malloctape-" /* followed by the process id */

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
    const char *why = "it was started without TCMALLOC_TRACE_CONTROL=1";
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
    if (should_listen || has_library) *attaches = '\0';
    cli_fail(command, "process %d does not listen: %s%s", (int)process, why, attaches);
}

/* The id that the process has for itself, which differs if it is in another PID namespace. */
static int number_for_itself(pid_t process)
{
    char path[64], line[256];
    int number = (int)process;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "NSpid:", 6) == 0) number = atoi(strrchr(line, '\t') + 1);
    if (file != NULL) fclose(file);
    return number;
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
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (is_there) setns(back, CLONE_NEWNET);
    if (back >= 0) close(back);
    if (into >= 0) close(into);
    return made;
}

/* A descriptor, or -1 and, unless `command` is NULL, a message. */
static int process_connect(const struct cli_command *command, pid_t process)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, SOCKET_NAME "%d",
                          number_for_itself(process));
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
    int file = socket_open(process);
    bool connected = file >= 0 && connect(file, (struct sockaddr *)&address, bytes) == 0;
    if (connected && is_process(command, file, process)) return file;
    if (file >= 0) close(file);
    if (!connected && command != NULL) say_why_silent(command, process);
    return -1;
}

/* Reads until the other side closes, which it may do without having read everything. */
static size_t answer_read(int file, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t more;
    while ((more = read(file, text + used, bytes - 1 - used)) > 0)
        used += (size_t)more;
    text[used] = '\0';
    return used;
}

/* The rest of the answer after `head`, if it begins with that; or NULL. */
static char *behind(char *answer, const char *head)
{
    return strncmp(answer, head, strlen(head)) == 0 ? answer + strlen(head) : NULL;
}

void ask_make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text) && *text != '\n') *text = '?';
}

/* Explains an answer that is not CONTROL_OK. */
static void say_why_not(const struct cli_command *command, pid_t process, char *answer)
{
    ask_make_printable(answer);
    const char *error = behind(answer, CONTROL_ERROR), *other = behind(answer, CONTROL_NAME);
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

size_t ask_process(const struct cli_command *command, pid_t process, const char *request,
                   char *answer, size_t room)
{
    int file = process_connect(command, process);
    if (file < 0) return 0;
    send(file, CONTROL_HEAD, strlen(CONTROL_HEAD), MSG_NOSIGNAL);
    send(file, request, strlen(request), MSG_NOSIGNAL);
    size_t bytes = answer_read(file, answer, room);
    close(file);
    const char *text = behind(answer, CONTROL_OK);
    if (text == NULL && command != NULL) say_why_not(command, process, answer);
    if (text == NULL) return 0;
    bytes -= (size_t)(text - answer);
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
            ask_make_printable(program);
            add(process, program);
        }
        if (comm != NULL) fclose(comm);
    }
    if (file != NULL) fclose(file);
}
