/* os_linux_command - a command at the end of a pipe, which the program must not notice.
 *
 *   writer thread --clone, no signal at its end--> keeper --vfork, exec--> /bin/sh -c command
 *
 * A child that execs gets SIGCHLD as the signal of its end and is found by wait(), whatever it was
 * cloned with. So the program's child is the keeper, which never execs, and is found only by calls
 * that ask for clones (__WALL, __WCLONE). It waits for the command and ends with its status. It
 * gives back all memory but its own stack and this library, and so holds no copy of the rest. */
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"
#include "tracing/os/preload_list.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (32u * 1024)
#define SIGNALS     64
/* The exit status of a shell that cannot run a command. */
#define CANNOT_RUN  127
/* How far apart the checks are whether the command has ended: at first, and after a while. */
#define ASK_NS_MIN  UINT64_C(200000)
#define ASK_NS_MAX  UINT64_C(20000000)

/* Made by the linker: where this library begins and ends. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static const char trace_variable[] = "TCMALLOC_TRACE_";

struct command {
    const char *text;
    int input;
    uint8_t *stacks; /* of the keeper, then of the process that becomes the command */
};

/* ---- its environment ---- */

/* Gives the keeper an environment without what makes a program record. The program's may be in
 * memory that cannot be written to. */
static bool make_environment(void)
{
    char **from = environ;
    size_t count = 0, bytes = 0;
    for (; from != NULL && from[count] != NULL; count++)
        bytes += strlen(from[count]) + 1;
    char **to = os_memory_reserve((count + 1) * sizeof *to + bytes);
    if (to == NULL) return false;
    char *room = (char *)(to + count + 1);
    environ = to;
    for (; count > 0; count--, from++) {
        if (strncmp(*from, trace_variable, sizeof trace_variable - 1) == 0) continue;
        bytes = strlen(*from) + 1;
        *to++ = memcpy(room, *from, bytes);
        const char *list = preload_list_in(room);
        if (list != NULL) preload_list_without_own(room + (list - room), list);
        room += bytes;
    }
    return true;
}

/* ---- the processes ---- */

/* The program may ignore SIGCHLD, and then nobody could wait for the command. */
static void handle_signals_by_default(void)
{
    /* The kernel's structure: handler, flags, restorer, mask. */
    const uint64_t by_default[4] = {0};
    for (int number = 1; number <= SIGNALS; number++)
        system_call(SYS_rt_sigaction, number, (long)by_default, 0, 8, 0, 0);
}

/* All other files of the writer are closed by the exec. */
static void be_at_the_pipe(int input)
{
    /* First to another number, as dup3() refuses to copy a descriptor to itself. */
    int other = (int)system_call(SYS_fcntl, input, F_DUPFD_CLOEXEC, STDERR_FILENO + 1, 0, 0, 0);
    system_call(SYS_dup3, other, STDIN_FILENO, 0, 0, 0, 0);
    if (system_call(SYS_dup3, STDERR_FILENO, STDOUT_FILENO, 0, 0, 0, 0) >= 0) return;
    system_call(SYS_openat, AT_FDCWD, (long)"/dev/null", O_WRONLY, 0, 0, 0);
    system_call(SYS_openat, AT_FDCWD, (long)"/dev/null", O_WRONLY, 0, 0, 0);
}

/* Shares the memory of the keeper, which sleeps until the exec. */
static int become_command(void *argument)
{
    const struct command *command = argument;
    const char *const words[] = {"sh", "-c", command->text, NULL};
    const uint64_t no_signals = 0;
    be_at_the_pipe(command->input);
    system_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&no_signals, 0, sizeof no_signals, 0, 0);
    system_call(SYS_execve, (long)"/bin/sh", (long)words, (long)environ, 0, 0, 0);
    os_process_exit(CANNOT_RUN);
}

/* Gives back the whole pages from `from` up to `to`. False: the address space does not reach that
 * far. */
static bool os_linux_forget(uint64_t from, uint64_t to, uint64_t page_bytes)
{
    from = (from + page_bytes - 1) & -page_bytes;
    to &= -page_bytes;
    return from >= to || system_call(SYS_munmap, (long)from, (long)(to - from), 0, 0, 0, 0) == 0;
}

/* After os_linux_forget(), nothing outside this library may be called. */
static int os_linux_keep(void *argument)
{
    struct command *command = argument;
    const uint64_t page_bytes = os_page_bytes();
    uint64_t stack = (uint64_t)command->stacks;
    uint64_t library = (uint64_t)__ehdr_start;
    uint64_t low = stack < library ? stack : library;
    uint64_t high = stack < library ? library : stack;
    uint64_t low_end = stack < library ? stack + 2 * STACK_BYTES : (uint64_t)_end + page_bytes - 1;
    uint64_t high_end = stack < library ? (uint64_t)_end + page_bytes - 1 : stack + 2 * STACK_BYTES;
    handle_signals_by_default();
    if (!make_environment()) os_process_exit(CANNOT_RUN);
    int child = clone(become_command, command->stacks + 2 * STACK_BYTES,
                      CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
    if (child < 0) os_process_exit(CANNOT_RUN);
    os_linux_close_files(0, INT_MAX);
    os_linux_forget(0, low, page_bytes);
    os_linux_forget(low_end, high, page_bytes);
    for (unsigned bits = ARCH_ADDRESS_BITS;
         !os_linux_forget(high_end, (UINT64_C(1) << bits) - page_bytes, page_bytes); bits--)
        continue;
    int status = 0;
    while (system_call(SYS_wait4, child, (long)&status, 0, 0, 0, 0) == -EINTR)
        continue;
    os_process_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int start_keeper(const char *text, int input)
{
    struct command command = {text, input, os_memory_reserve(2 * STACK_BYTES)};
    if (command.stacks == NULL) return -ENOMEM;
    int process = clone(os_linux_keep, command.stacks + STACK_BYTES, 0, &command);
    os_memory_release(command.stacks, 2 * STACK_BYTES);
    return process < 0 ? -EAGAIN : process;
}

int os_command_start(const char *text, int *process)
{
    int ends[2];
    int result = (int)system_call(SYS_pipe2, (long)ends, O_CLOEXEC, 0, 0, 0, 0);
    if (result < 0) return result;
    int input = os_linux_keep_from_messages(ends[0]);
    int output = os_linux_keep_from_messages(ends[1]);
    *process = input < 0 ? input : output < 0 ? output : start_keeper(text, input);
    os_file_close(input);
    if (*process > 0) return output;
    os_file_close(output);
    return *process;
}

int os_command_wait(int process, uint64_t timeout_ns)
{
    uint64_t since = os_clock_ns();
    for (uint64_t ask_ns = ASK_NS_MIN;; ask_ns = ask_ns < ASK_NS_MAX ? ask_ns * 2 : ASK_NS_MAX) {
        int status = 0;
        long result = system_call(SYS_wait4, process, (long)&status, WNOHANG | __WCLONE, 0, 0, 0);
        if (result < 0 && result != -EINTR) return (int)result;
        if (result == process)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (timeout_ns && os_clock_ns() - since >= timeout_ns) return -ETIMEDOUT;
        os_sleep(ask_ns);
    }
}
