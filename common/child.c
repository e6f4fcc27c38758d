#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static bool use_as(int file, int standard)
{
    return file < 0 || dup2(file, standard) >= 0;
}

/* Becomes the program, or tells why not. */
static void become(const struct child *child, int errors)
{
    if (use_as(child->input, STDIN_FILENO) && use_as(child->output, STDOUT_FILENO) &&
        use_as(child->error, STDERR_FILENO)) {
        if (child->enter != NULL) child->enter(child->of);
        execvp(child->path, child->words);
    }
    int error = errno;
    ssize_t written = write(errors, &error, sizeof error);
    (void)written; /* nobody is left to tell */
    _exit(127);
}

/* The errno that the child tells before it ends; 0: it has become the program. */
static int error_read(int from)
{
    int error = 0;
    ssize_t bytes;
    do
        bytes = read(from, &error, sizeof error);
    while (bytes < 0 && errno == EINTR);
    return bytes == (ssize_t)sizeof error ? error : 0;
}

int child_start(const struct child *child, pid_t *process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    *process = fork();
    int error = *process < 0 ? errno : 0;
    if (*process == 0) become(child, ends[1]);
    close(ends[1]);
    if (error == 0) error = error_read(ends[0]);
    close(ends[0]);
    if (error == 0) return 0;
    if (*process > 0) waitpid(*process, NULL, 0);
    *process = 0;
    return error;
}
