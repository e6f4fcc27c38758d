/* shared - a process with children that share its memory.
 *
 *   shared HOW CALLS MORE    a child makes CALLS objects of 777 bytes, then the process MORE; HOW:
 *                            clone   a process of its own, made by clone(CLONE_VM); it ends by the
 *                                    system call exit, as its function returns
 *                            exit    the same, by _exit()
 *                            vfork   by vfork(); it ends by _exit()
 *                            exec    the same; it executes /bin/true
 * Exit status 7. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "allocate.h"

enum { STACK_BYTES = 1 << 20 };

static unsigned long calls;

static int child_main(void *how)
{
    allocate(calls);
    if (strcmp(how, "exit") == 0) _exit(0);
    return 0;
}

static pid_t clone_child(char *how)
{
    static char stack[STACK_BYTES];
    return clone(child_main, stack + STACK_BYTES, CLONE_VM | SIGCHLD, how);
}

static pid_t vfork_child(const char *how)
{
    pid_t child = vfork();
    if (child != 0) return child;
    allocate(calls);
    if (strcmp(how, "exec") == 0) execl("/bin/true", "true", (char *)NULL);
    _exit(0);
}

int main(int count, char **words)
{
    int status;
    if (count != 4) fail("see the head of tests/workloads/shared.c");
    char *how = words[1];
    calls = strtoul(words[2], NULL, 10);
    allocate(10);
    bool vforks = strcmp(how, "vfork") == 0 || strcmp(how, "exec") == 0;
    pid_t child = vforks ? vfork_child(how) : clone_child(how);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("the child");
    allocate(strtoul(words[3], NULL, 10));
    return 7;
}
