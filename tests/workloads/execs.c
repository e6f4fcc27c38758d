/* execs - a process in which every exec fails, while another thread allocates or none does.
 *
 *   execs FILE THREADS    FILE can be executed, but the system does not know its format. Each of
 *                         THREADS threads makes 50 000 objects of 777 bytes, the first one 1 000
 *                         before the first exec and after each of five; exit status 7 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>

#include "allocate.h"

enum { CALLS = 50000, OWN_CALLS = 1000, THREADS_MAX = 8, WORD_BYTES = 200000 };

static void *work(void *unused)
{
    allocate(CALLS);
    return unused;
}

static void expect(int error, bool good)
{
    if (!good || errno != error) fail("an exec");
    allocate(OWN_CALLS);
}

int main(int count, char **words)
{
    static char long_word[WORD_BYTES];
    char *few[] = {words[1], NULL}, *many[] = {words[1], long_word, NULL};
    pthread_t threads[THREADS_MAX];
    if (count != 3) fail("see the head of tests/workloads/execs.c");
    int others = atoi(words[2]), file = open(words[1], O_RDONLY);
    pid_t process;
    memset(long_word, 'x', WORD_BYTES - 1);
    allocate(OWN_CALLS);
    for (int i = 0; i < others; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) fail("no thread");
    expect(ENOEXEC, execve(words[1], few, environ) == -1);
    expect(ENOEXEC, fexecve(file, few, environ) == -1);
    expect(ENOTDIR, execveat(file, "there", few, environ, 0) == -1);
    expect(E2BIG, execvp("true", many) == -1);
    errno = posix_spawn(&process, words[1], NULL, NULL, few, environ);
    expect(ENOEXEC, errno != 0);
    for (int i = 0; i < others; i++)
        pthread_join(threads[i], NULL);
    close(file);
    return 7;
}
