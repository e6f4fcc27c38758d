/* starts - starts a program in one way, and ends with its exit status.
 *
 *   starts WAY PROGRAM    WAY: a function of libc, or vfork, which execs in a vfork child */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "allocate.h"

static int status_of(pid_t process)
{
    int status;
    if (process < 0 || waitpid(process, &status, 0) != process) fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int open_and_run(const char *command)
{
    char line[256];
    FILE *from = popen(command, "r");
    if (!from) fail("popen");
    while (fgets(line, sizeof line, from))
        fputs(line, stdout);
    return pclose(from);
}

static int fork_and_run(const char *program, char **words)
{
    pid_t process = vfork();
    if (process != 0) return status_of(process);
    execvp(program, words);
    _exit(1);
}

/* Returns if the program is a child, or could not be started. */
static int start(const char *way, const char *program, char **words)
{
    pid_t process = -1;
    if (strcmp(way, "execl") == 0) return execl(program, program, (char *)NULL);
    if (strcmp(way, "execlp") == 0) return execlp(program, program, (char *)NULL);
    if (strcmp(way, "execle") == 0) return execle(program, program, (char *)NULL, environ);
    if (strcmp(way, "execv") == 0) return execv(program, words);
    if (strcmp(way, "execve") == 0) return execve(program, words, environ);
    if (strcmp(way, "execvp") == 0) return execvp(program, words);
    if (strcmp(way, "execvpe") == 0) return execvpe(program, words, environ);
    if (strcmp(way, "fexecve") == 0)
        return fexecve(open(program, O_RDONLY | O_CLOEXEC), words, environ);
    if (strcmp(way, "execveat") == 0) return execveat(AT_FDCWD, program, words, environ, 0);
    if (strcmp(way, "system") == 0) return system(program);
    if (strcmp(way, "popen") == 0) return open_and_run(program);
    if (strcmp(way, "vfork") == 0) return fork_and_run(program, words);
    if (strcmp(way, "posix_spawn") == 0)
        errno = posix_spawn(&process, program, NULL, NULL, words, environ);
    else if (strcmp(way, "posix_spawnp") == 0)
        errno = posix_spawnp(&process, program, NULL, NULL, words, environ);
    return status_of(process);
}

int main(int count, char **words)
{
    if (count != 3) fail("see the head of tests/workloads/starts.c");
    allocate(10);
    int status = start(words[1], words[2], words + 2);
    if (status < 0) fail(words[1]);
    return status;
}
