/* usage - runs a command and writes, as JSON, what memory and processor time it took.
 *
 *   usage [-s] FILE COMMAND [ARGUMENT...]
 *
 * Memory is the kernel's account of the process just before it ends (PTRACE_EVENT_EXIT), while it
 * still has all of it: VmHWM, the most it ever had, and VmRSS, what it has then. getrusage(2) has
 * only the first, and includes the peak from before exec(). For a process that executes other
 * programs, the last one counts. Children are not followed; their processor time is included in
 * that of the command if it has waited for them.
 *
 *   -s   the process group may be stopped meanwhile, which a traced process would not survive:
 *        memory is taken from getrusage(2)
 *
 * The exit status is that of the command. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_USAGE = 2, STATUS_FAILED = 125 };

struct memory {
    long long peak_bytes, end_bytes;
};

static int usage_fail(const char *what)
{
    fprintf(stderr, "usage: %s: %s\n", what, strerror(errno));
    return STATUS_FAILED;
}

static void memory_read(struct memory *memory, pid_t pid)
{
    char line[256];
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *status = fopen(line, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        long long *field = strncmp(line, "VmHWM:", 6) == 0   ? &memory->peak_bytes
                           : strncmp(line, "VmRSS:", 6) == 0 ? &memory->end_bytes
                                                             : NULL;
        if (field != NULL) *field = strtoll(line + 6, NULL, 10) * 1024;
    }
    if (status != NULL) fclose(status);
}

static void execute(char **words)
{
    execvp(words[0], words);
    _exit(usage_fail(words[0]));
}

static void execute_traced(char **words)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) {
        raise(SIGSTOP); /* until the options are set */
        execute(words);
    }
    _exit(usage_fail(words[0]));
}

/* Lets the process run until it has ended, and delivers signals sent to it. */
static int usage_follow(pid_t pid, struct memory *memory, struct rusage *usage)
{
    int status;
    while (wait4(pid, &status, 0, usage) == pid && WIFSTOPPED(status)) {
        int event = status >> 16, number = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXIT) memory_read(memory, pid);
        if (event != 0 || number == SIGTRAP) number = 0;
        ptrace(PTRACE_CONT, pid, NULL, number);
    }
    return status;
}

static double usage_seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static int write_figures(const char *path, const struct memory *memory, const struct rusage *usage)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) return usage_fail(path);
    fprintf(file,
            "{\"peak_rss_bytes\": %lld, \"end_rss_bytes\": %lld, \"user_seconds\": %.6f, "
            "\"system_seconds\": %.6f, \"minor_faults\": %ld}\n",
            memory->peak_bytes, memory->end_bytes, usage_seconds_of(usage->ru_utime),
            usage_seconds_of(usage->ru_stime), usage->ru_minflt);
    return fclose(file) == 0 ? 0 : usage_fail(path);
}

static int usage_run(char **words, struct memory *memory, struct rusage *usage)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) execute(words);
    if (pid < 0 || wait4(pid, &status, 0, usage) != pid) exit(usage_fail("fork"));
    memory->peak_bytes = usage->ru_maxrss * 1024LL;
    return status;
}

static int run_traced(char **words, struct memory *memory, struct rusage *usage)
{
    int status;
    pid_t pid = fork();
    if (pid < 0) exit(usage_fail("fork"));
    if (pid == 0) execute_traced(words);
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) exit(STATUS_FAILED);
    if (ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL) != 0) {
        kill(pid, SIGKILL);
        exit(usage_fail("ptrace"));
    }
    ptrace(PTRACE_CONT, pid, NULL, 0);
    return usage_follow(pid, memory, usage);
}

int main(int count, char **words)
{
    struct memory memory = {0};
    struct rusage usage;
    const int may_be_stopped = count > 1 && strcmp(words[1], "-s") == 0;
    words += may_be_stopped;
    if (count - may_be_stopped < 3) {
        fputs("usage: usage [-s] FILE COMMAND [ARGUMENT...]\n", stderr);
        return STATUS_USAGE;
    }
    int status = (may_be_stopped ? usage_run : run_traced)(words + 2, &memory, &usage);
    int failure = write_figures(words[1], &memory, &usage);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : failure;
}
