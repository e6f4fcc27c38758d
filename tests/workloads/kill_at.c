/* kill_at - kills a process just before one of its system calls.
 *
 *   kill_at PROCESS CALL COMMAND [WORD...]
 *
 * PROCESS  0: the command; N: the Nth process that it, or one that came of it, began as vfork()
 *          does; fN: as fork() does
 * CALL     1: the first
 * Exit     status of the command, 128 and the signal that ended it; 99 if the process did not come
 *          to that call, whose number of calls is then the last line on standard error */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "allocate.h"

enum { PROCESSES_MAX = 4096, NOT_REACHED = 99, SYSTEM_CALL = SIGTRAP | 0x80 };

static struct process {
    pid_t id;
    bool is_expected; /* a process said that it began this one */
    bool has_stopped; /* its first stop */
} processes[PROCESSES_MAX];
static size_t processes_count;
static pid_t killed; /* the process that is to be killed, once it is there */
static unsigned long calls;
static bool is_inside; /* that process, a call */

static struct process *process_at(pid_t id)
{
    for (size_t i = 0; i < processes_count; i++)
        if (processes[i].id == id) return &processes[i];
    if (processes_count == PROCESSES_MAX) fail("too many processes");
    processes[processes_count] = (struct process){.id = id};
    return &processes[processes_count++];
}

static void go_on(pid_t id, int number)
{
    ptrace(id == killed ? PTRACE_SYSCALL : PTRACE_CONT, id, NULL, (void *)(intptr_t)number);
}

/* A new process has stopped, and its parent has said so, in any order. */
static void meet(struct process *process)
{
    if (process->is_expected && process->has_stopped) go_on(process->id, 0);
}

/* `kind`: the event of the process that is to be killed. */
static void take_event(pid_t id, int event, int kind, unsigned *begun, unsigned wanted)
{
    unsigned long child = 0;
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
        ptrace(PTRACE_GETEVENTMSG, id, NULL, &child);
        if (event == kind && ++*begun == wanted) killed = (pid_t)child;
        struct process *process = process_at((pid_t)child);
        process->is_expected = true;
        meet(process);
    }
    go_on(id, 0);
}

static void take_stop(pid_t id, int status, unsigned long wanted_call)
{
    struct process *process = process_at(id);
    int number = WSTOPSIG(status);
    if (number == SYSTEM_CALL) {
        if (id == killed && !is_inside && ++calls == wanted_call) kill(id, SIGKILL);
        if (id == killed) is_inside = !is_inside;
        go_on(id, 0);
    } else if (!process->has_stopped) {
        process->has_stopped = true;
        meet(process);
    } else {
        go_on(id, number == SIGTRAP ? 0 : number);
    }
}

static pid_t begin(char **command)
{
    pid_t id = fork();
    if (id < 0) fail("fork");
    if (id > 0) return id;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    execvp(command[0], command);
    fail(command[0]);
    return 0;
}

int main(int count, char **words)
{
    if (count < 4) fail("see the head of tests/workloads/kill_at.c");
    const int kind = *words[1] == 'f' ? PTRACE_EVENT_FORK : PTRACE_EVENT_VFORK;
    const unsigned wanted = (unsigned)strtoul(words[1] + (*words[1] == 'f'), NULL, 10);
    const unsigned long wanted_call = strtoul(words[2], NULL, 10);
    unsigned begun = 0;
    int status = 0, result = 0;
    const pid_t command = begin(words + 3);
    *process_at(command) = (struct process){command, true, true};
    if (waitpid(command, &status, 0) != command || !WIFSTOPPED(status)) fail("no stop");
    if (wanted == 0) killed = command;
    if (ptrace(PTRACE_SETOPTIONS, command, NULL,
               (void *)(PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                        PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) != 0)
        fail("ptrace");
    go_on(command, 0);
    for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0;) {
        if (WIFSTOPPED(status)) {
            if (status >> 16 != 0)
                take_event(id, status >> 16, kind, &begun, wanted);
            else
                take_stop(id, status, wanted_call);
        } else if (id == command) {
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
    if (calls >= wanted_call) return result;
    fprintf(stderr, "%lu\n", calls);
    return NOT_REACHED;
}
