/* malloctape ctl - asks a running process to begin, end or interrupt its recording.
 *
 * The process has been started with TCMALLOC_TRACE_CONTROL=1 and waits at an abstract socket
 * (tracing/control.h). */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
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

static const char help_text[] =
    "usage: malloctape ctl PID start|reset [OUTPUT]\n"
    "       malloctape ctl PID stop|pause|resume|sync|status\n"
    "\n"
    "Controls the recording of a running process, which was started with the tracing library\n"
    "preloaded and TCMALLOC_TRACE_CONTROL=1 in its environment, by the same user.\n"
    "\n"
    "  start     begins a recording to OUTPUT, which may be whatever TCMALLOC_TRACE_OUTPUT may be\n"
    "            (default: the value of that when the process began, or else %e.%p.raw.lz4 in its\n"
    "            directory)\n"
    "  reset     ends it, if there is one, and begins another as `start` does, but replaces no\n"
    "            file: if one has the name, a number comes before its \".lz4\"\n"
    "  stop      ends it, and returns when it is complete\n"
    "  pause     nothing is recorded until `resume`\n"
    "  sync      returns when everything recorded so far is in the output\n"
    "  status    prints what the process is doing\n"
    "\n"
    "pause, stop and sync print what the recording has. Objects that were made before `start` or\n"
    "during a pause are unknown in it.\n"
    "The exit status is 1 when the process cannot be reached or is not in a state for it.\n";

struct ctl {
    pid_t process;
    char request[PATH_MAX + 16];
};

static bool process_parse(struct ctl *ctl, const char *word)
{
    char *end;
    errno = 0;
    long number = strtol(word, &end, 10);
    if (errno != 0 || *end != '\0' || number <= 0 || number > INT_MAX) return false;
    ctl->process = (pid_t)number;
    return true;
}

/* The process has another current directory. */
static bool start_request_set(struct ctl *ctl, const char *word, const char *output)
{
    char here[PATH_MAX] = "";
    bool relative = output[0] != '/' && output[0] != '|' && strncmp(output, "fd:", 3) != 0;
    if (relative && getcwd(here, sizeof here) == NULL) return false;
    int length = snprintf(ctl->request, sizeof ctl->request, "%s %s%s%s\n", word, here,
                          relative ? "/" : "", output);
    return length > 0 && (size_t)length < sizeof ctl->request && strchr(output, '\n') == NULL;
}

static bool is_request(const char *word)
{
    static const char *const requests[] = {"start",  "reset", "stop",  "pause",
                                           "resume", "sync",  "status"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (strcmp(word, requests[i]) == 0) return true;
    return false;
}

/* Returns 0 to go on, or the exit status plus one. */
static int words_parse(struct ctl *ctl, int count, char **words)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(count, words, "+h", options, NULL)) != -1)
        return option == 'h' ? program_help(help_text) + 1 : cli_usage_error(&cli_ctl, NULL) + 1;
    if (count - optind < 2) return cli_usage_error(&cli_ctl, "which process is to do what?") + 1;
    const char *request = words[optind + 1];
    const char *output = words[optind + 2];
    if (!process_parse(ctl, words[optind]))
        return cli_usage_error(&cli_ctl, "%s is not the number of a process", words[optind]) + 1;
    if (!is_request(request))
        return cli_usage_error(&cli_ctl, "a process cannot be asked to '%s'", request) + 1;
    if (output == NULL) {
        snprintf(ctl->request, sizeof ctl->request, "%s\n", request);
        return 0;
    }
    if ((strcmp(request, "start") != 0 && strcmp(request, "reset") != 0) ||
        words[optind + 3] != NULL || *output == '\0')
        return cli_usage_error(&cli_ctl, "%s: too much, or nothing", output) + 1;
    if (!start_request_set(ctl, request, output))
        return cli_fail(&cli_ctl, "%s: this name cannot be passed on", output) + 1;
    return 0;
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
static void silence_tell(pid_t process)
{
    const char *why = "it was started without TCMALLOC_TRACE_CONTROL=1";
    if (kill(process, 0) != 0 && errno == ESRCH) {
        cli_fail(&cli_ctl, "there is no process %d", (int)process);
        return;
    }
    if (process_file_has(process, "environ", "TCMALLOC_TRACE_CONTROL="))
        why = process_file_has(process, "maps", "libtcmalloc_minimal_tracing.so") ||
                      process_file_has(process, "maps", "libmalloctape.so")
                  ? "its socket is not there yet, or it is in another network namespace"
                  : "it was started without the tracing library";
    cli_fail(&cli_ctl, "process %d does not listen: %s", (int)process, why);
}

/* A descriptor, or -1 and a message. */
static int process_connect(pid_t process)
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
    silence_tell(process);
    return -1;
}

/* All that comes until the other side closes. False: the connection broke. */
static bool answer_read(int file, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t more;
    while ((more = read(file, text + used, bytes - 1 - used)) > 0)
        used += (size_t)more;
    text[used] = '\0';
    return more == 0 && used > 0;
}

static int answer_tell(const struct ctl *ctl, const char *text)
{
    const char *line = strchr(text, '\n');
    if (strncmp(text, "ok", 2) != 0)
        return cli_fail(&cli_ctl, "process %d: %s", (int)ctl->process,
                        strncmp(text, "error ", 6) == 0 ? text + 6 : text);
    if (line != NULL && line[1] != '\0') puts(line + 1);
    return PROGRAM_OK;
}

static int run(int count, char **words)
{
    struct ctl ctl;
    char answer[2048];
    int status = words_parse(&ctl, count, words);
    if (status != 0) return status - 1;
    int file = process_connect(ctl.process);
    if (file < 0) return PROGRAM_FAILED;
    size_t bytes = strlen(ctl.request);
    bool answered = send(file, ctl.request, bytes, MSG_NOSIGNAL) == (ssize_t)bytes &&
                    answer_read(file, answer, sizeof answer);
    close(file);
    if (answered) return answer_tell(&ctl, answer);
    return cli_fail(&cli_ctl, "process %d does not answer: it has ended, or runs as another user",
                    (int)ctl.process);
}

const struct cli_command cli_ctl = {
    "ctl", "begins, ends or interrupts the recording of a running process", run, help_text};
