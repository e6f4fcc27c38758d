/* malloctape ctl - asks a running process to begin, end or interrupt its recording.
 *
 * See ask.h. */
#include "cli/ask.h"
#include "cli/kept.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/printable.h"

static const char ctl_help_text[] =
    "usage: malloctape ctl PID start|reset [OUTPUT]\n"
    "       malloctape ctl PID stop|pause|resume|sync|status\n"
    "       malloctape ctl PID keep FILE\n"
    "\n"
    "Controls the recording of a running process, which was started by `malloctape record --control`\n"
    "or `--idle`, or with the tracing library preloaded and TCMALLOC_TRACE_CONTROL=1 in its\n"
    "environment, by the same user and group; root may control all processes.\n"
    "\n"
    "  start     begins a recording to OUTPUT, which may be whatever TCMALLOC_TRACE_OUTPUT may be;\n"
    "            a command only if the process has, and always had, your rights alone\n"
    "            (default: the value of that when the process began, or else %e.%p.raw.lz4 in its\n"
    "            directory)\n"
    "  reset     ends it, if there is one, and begins another as `start` does, but replaces no\n"
    "            file: if one has the name, a number comes before its \".lz4\"; each hour, for\n"
    "            example, of a process that runs for days\n"
    "  stop      ends it, and returns when it is complete\n"
    "  pause     nothing is recorded until `resume`\n"
    "  sync      returns when everything recorded so far is in the output\n"
    "  status    prints what the process is doing\n"
    "  keep      writes the last minutes of `malloctape record --keep` to FILE (without --control,\n"
    "            too)\n"
    "\n"
    "pause, stop and sync print what the recording has. Objects that were made before `start` or\n"
    "during a pause are unknown in it.\n"
    "The exit status is 1 when the process cannot be reached or is not in a state for it.\n";

struct ctl {
    pid_t process;
    char request[PATH_MAX + 16];
    const char *kept; /* where to, or NULL */
};

/* Makes the output absolute: the process has another current directory. */
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

/* Returns PROGRAM_GO_ON or an exit status. */
static int ctl_words_parse(struct ctl *ctl, int count, char **words)
{
    const struct program_option none = {NULL, .values = ask_offer};
    const int status = program_options(count, words, &none, ctl_help_text, PROGRAM_IN_FRONT, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (count - optind < 2) return cli_usage_error(&cli_ctl, "missing process id or command");
    const char *request = words[optind + 1];
    const char *output = words[optind + 2];
    if (!ask_parse_process(&ctl->process, words[optind]))
        return cli_usage_error(&cli_ctl, "%s is not a process id", words[optind]);
    if (strcmp(request, "keep") == 0) {
        if (output == NULL || *output == '\0' || words[optind + 3] != NULL)
            return cli_usage_error(&cli_ctl, "keep takes one FILE");
        ctl->kept = output;
        return PROGRAM_GO_ON;
    }
    if (!is_request(request))
        return cli_usage_error(&cli_ctl, "there is no command '%s' for a process", request);
    if (output == NULL) {
        snprintf(ctl->request, sizeof ctl->request, "%s\n", request);
        return PROGRAM_GO_ON;
    }
    if (strcmp(request, "start") != 0 && strcmp(request, "reset") != 0)
        return cli_usage_error(&cli_ctl, "%s takes no OUTPUT: '%s'", request, output);
    if (*output == '\0' || words[optind + 3] != NULL)
        return cli_usage_error(&cli_ctl, "%s takes one OUTPUT", request);
    if (!start_request_set(ctl, request, output))
        return cli_fail(&cli_ctl, "%s: this name cannot be sent to the process", output);
    return PROGRAM_GO_ON;
}

static int ctl_run(int count, char **words)
{
    struct ctl ctl = {.kept = NULL};
    char answer[2048];
    int status = ctl_words_parse(&ctl, count, words);
    if (status != PROGRAM_GO_ON) return status;
    if (ctl.kept != NULL) return kept_ask(ctl.process, ctl.kept);
    struct ask ask = {
        .command = &cli_ctl, .process = ctl.process, .signals = -1, .given = {-1, -1}};
    if (ask_process(&ask, ctl.request, answer, sizeof answer) == 0) return PROGRAM_FAILED;
    answer[strcspn(answer, "\n")] = '\0';
    printable_print(stdout, answer, strlen(answer));
    putchar('\n');
    return PROGRAM_OK;
}

const struct cli_command cli_ctl = {
    "ctl", "begins, ends or interrupts the recording of a running process", ctl_run, ctl_help_text};
