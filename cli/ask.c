#include "cli/ask.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool ask_parse_process(pid_t *process, const char *word)
{
    char *end;
    errno = 0;
    long number = strtol(word, &end, 10);
    if (errno != 0 || *end != '\0' || number <= 0 || number > INT_MAX) return false;
    *process = (pid_t)number;
    return true;
}

/* A socket of that name may be anybody's. */
static bool is_process(int file, pid_t process)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == process;
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

/* Nobody listens for it. */
static void say_why_silent(const struct cli_command *command, pid_t process)
{
    const char *why = "it was started without TCMALLOC_TRACE_CONTROL=1";
    if (kill(process, 0) != 0 && errno == ESRCH) {
        cli_fail(command, "there is no process %d", (int)process);
        return;
    }
    if (process_file_has(process, "environ", "TCMALLOC_TRACE_CONTROL="))
        why = process_file_has(process, "maps", "libtcmalloc_minimal_tracing.so") ||
                      process_file_has(process, "maps", "libmalloctape.so")
                  ? "its socket is not there yet, or it is in another network namespace"
                  : "it was started without the tracing library";
    cli_fail(command, "process %d does not listen: %s", (int)process, why);
}

/* A descriptor, or -1 and, unless `command` is NULL, a message. */
static int process_connect(const struct cli_command *command, pid_t process)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "malloctape-%d", (int)process);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && connect(file, (struct sockaddr *)&address, bytes) == 0 &&
        is_process(file, process))
        return file;
    if (file >= 0) close(file);
    if (command != NULL) say_why_silent(command, process);
    return -1;
}

/* All that comes until the other side closes. 0: the connection broke. */
static size_t answer_read(int file, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t more;
    while ((more = read(file, text + used, bytes - 1 - used)) > 0)
        used += (size_t)more;
    text[used] = '\0';
    return more == 0 ? used : 0;
}

size_t ask_process(const struct cli_command *command, pid_t process, const char *request,
                   char *answer, size_t room)
{
    int file = process_connect(command, process);
    if (file < 0) return 0;
    size_t bytes = strlen(request), came = 0;
    if (send(file, request, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
        came = answer_read(file, answer, room);
    close(file);
    if (came > 0 && strncmp(answer, "ok", 2) == 0) return came;
    if (command == NULL) return 0;
    if (came == 0)
        cli_fail(command, "process %d does not answer: it has ended, or runs as another user",
                 (int)process);
    else
        cli_fail(command, "process %d: %s", (int)process,
                 strncmp(answer, "error ", 6) == 0 ? answer + 6 : answer);
    return 0;
}
