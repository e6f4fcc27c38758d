#include "reading/ordered.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/program.h"
#include "launch/installed.h"
#include "launch/process.h"

/* A file is passed by name, so that postprocess finds the spool of a killed program beside it. */
static bool ordering_start(struct ordered *ordered, const char *path, const char *command,
                           struct error *error)
{
    struct installed program;
    char name[64];
    int ends[2];
    if (!installed_find_program(&program, ORDERING_PROGRAM))
        return error_set(error, &error_system, ERROR_NO_OFFSET, "%.200s not found", program.path);
    if (pipe2(ends, O_CLOEXEC) != 0) return error_set_system(error, "cannot make a pipe");
    const bool by_name = ordered->stream.is_file;
    const char *const words[] = {name, "--quiet", "--", by_name ? path : "-", "-", NULL};
    snprintf(name, sizeof name, "malloctape %s", command);
    const struct child child = {.path = program.path,
                                .words = (char *const *)words,
                                .input = by_name ? -1 : ordered->stream.fd,
                                .output = ends[1],
                                .error = -1};
    int failed = child_start(&child, &ordered->ordering);
    close(ends[1]);
    ordered->pipe = ends[0];
    errno = failed;
    if (failed != 0) return error_set_system(error, "cannot start " ORDERING_PROGRAM);
    input_open_fd(&ordered->piped, ordered->pipe);
    ordered->input = &ordered->piped;
    return true;
}

bool ordered_open(struct ordered *ordered, const char *path, const char *command,
                  struct error *error)
{
    *ordered = (struct ordered){.pipe = -1};
    if (!stream_open(&ordered->stream, path, error)) return false;
    ordered->of = ordered->stream.format;
    ordered->input = &ordered->stream.input;
    if (ordered->of == STREAM_INSTRUCTIONS) return true;
    if (ordering_start(ordered, path, command, error) && input_peek(ordered->input, 1) > 0)
        return true;
    ordered_close(ordered, false);
    return false;
}

/* Reports a child that was killed, which cannot report it itself. Unless the child was to run to
 * its end, some signals are expected: SIGTERM or SIGPIPE because this process stops it, SIGINT
 * because the terminal interrupts both. */
static void say_signal(int number, bool to_its_end)
{
    if (!to_its_end && (number == SIGTERM || number == SIGPIPE || number == SIGINT)) return;
    fprintf(stderr, "malloctape: " ORDERING_PROGRAM " ended by signal %d (%s)\n", number,
            strsignal(number));
}

int ordered_close(struct ordered *ordered, bool to_its_end)
{
    int status = 0;
    if (ordered->ordering > 0 && !to_its_end) kill(ordered->ordering, SIGTERM);
    if (ordered->input == &ordered->piped) input_close(&ordered->piped);
    if (ordered->pipe >= 0) close(ordered->pipe);
    const bool is_whole = stream_close(&ordered->stream);
    if (ordered->ordering <= 0) return PROGRAM_OK;
    if (waitpid(ordered->ordering, &status, 0) < 0) return PROGRAM_FAILED;
    if (WIFEXITED(status)) return is_whole ? WEXITSTATUS(status) : PROGRAM_FAILED;
    say_signal(WTERMSIG(status), to_its_end);
    return PROGRAM_FAILED;
}
