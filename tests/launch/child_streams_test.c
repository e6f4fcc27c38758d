/* child_streams_test - a program that is started has the standard streams that it was given,
 * whichever of ours were closed, and so whichever numbers the files have that it gets. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/process.h"

enum { STREAMS = 3, CASES = 1 << STREAMS };

static int make_file(const char *text)
{
    int file = memfd_create("stream", MFD_CLOEXEC);
    if (file < 0 || write(file, text, strlen(text)) < 0) _exit(2);
    return file;
}

static bool has(int file, const char *text)
{
    char found[64] = "";
    return pread(file, found, sizeof found - 1, 0) >= 0 && strcmp(found, text) == 0;
}

/* In a process of its own. Files take the lowest numbers that are free. `turned`: the input's comes
 * last. Returns an exit status. */
static int run_with_closed(unsigned closed, bool turned)
{
    static char *const words[] = {(char *)"sh", (char *)"-c", (char *)"cat; echo mistake >&2",
                                  NULL};
    pid_t process;
    int status = -1, input = -1;
    for (int stream = 0; stream < STREAMS; stream++)
        if (closed >> stream & 1) close(stream);
    if (!turned) input = make_file("text\n");
    int error = make_file("");
    int output = make_file("");
    if (turned) input = make_file("text\n");
    lseek(input, 0, SEEK_SET);
    const struct child child = {"/bin/sh", words, input, output, error, NULL, NULL};
    if (child_start(&child, &process) != 0) return 3;
    if (waitpid(process, &status, 0) != process || status != 0) return 4;
    return has(output, "text\n") && has(error, "mistake\n") ? 0 : 1;
}

/* It is told why a program does not start. */
static int fail_with_closed(unsigned closed)
{
    static char *const words[] = {(char *)"program", NULL};
    pid_t process;
    for (int stream = 0; stream < STREAMS; stream++)
        if (closed >> stream & 1) close(stream);
    const struct child child = {"/no/such/program", words, make_file(""), -1, -1, NULL, NULL};
    return child_start(&child, &process) == 2 /* ENOENT */ ? 0 : 1;
}

static bool passes(unsigned closed, int (*run)(unsigned, bool), bool turned)
{
    int status = -1;
    pid_t process = fork();
    if (process == 0) _exit(run != NULL ? run(closed, turned) : fail_with_closed(closed));
    if (waitpid(process, &status, 0) == process && status == 0) return true;
    printf("closed streams %u%s%s: status %d\n", closed, turned ? ", turned" : "",
           run != NULL ? "" : ", no program", WEXITSTATUS(status));
    return false;
}

int main(void)
{
    bool good = true;
    for (unsigned closed = 0; closed < CASES; closed++) {
        good &= passes(closed, run_with_closed, false);
        good &= passes(closed, run_with_closed, true);
        good &= passes(closed, NULL, false);
    }
    return good ? 0 : 1;
}
