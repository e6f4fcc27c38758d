/* os_linux_exec - what an exec would do.
 *
 * Whether it would succeed: another process tries it. That one is traced, so it stops before the
 * first instruction of the new program, and is killed there.
 *
 *   thread --clone, as vfork()--> the tracer --the same--> the trial: exec
 *
 * Which dynamic linker it would start: another process reads the file, because its descriptor must
 * not be seen by the program's threads. */
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)32 << 10)

struct trial {
    int directory;
    const char *path;
    char *const *words, *const *environment;
    int flags;
    int result; /* 0, also if it cannot be tried; or the negative errno with which it failed */
};

/* Has a session of its own, so that no signal to the program's process group stops it. SIGTRAP, the
 * signal of a successful exec, is the only one that is not blocked. */
static int trial_main(void *argument)
{
    const uint64_t sigtrap = UINT64_C(1) << (SIGTRAP - 1);
    struct trial *trial = argument;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    system_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&sigtrap, 0, sizeof sigtrap, 0, 0);
    if (system_call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0, 0, 0) == 0)
        trial->result =
            (int)system_call(SYS_execveat, trial->directory, (long)trial->path, (long)trial->words,
                             (long)trial->environment, trial->flags, 0);
    os_process_exit(0);
}

static int tracer_main(void *argument)
{
    uint8_t stack[STACK_BYTES] __attribute__((aligned(16)));
    int status = 0;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    int process = clone(trial_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK, argument);
    if (process > 0 && system_call(SYS_wait4, process, (long)&status, __WALL, 0, 0, 0) == process &&
        WIFSTOPPED(status)) {
        system_call(SYS_kill, process, SIGKILL, 0, 0, 0, 0);
        system_call(SYS_wait4, process, 0, __WALL, 0, 0, 0);
    }
    os_process_exit(0);
}

int os_exec_try(int directory, const char *path, char *const words[], char *const environment[],
                int flags)
{
    struct trial trial = {directory, path, words, environment, flags, 0};
    os_linux_run_apart(tracer_main, &trial);
    return trial.result;
}

/* ---- the dynamic linker ---- */

enum {
    SCRIPT_LINE_BYTES = 256, /* the kernel reads no more, either */
    SCRIPTS_MAX = 5,         /* a script's interpreter may be one; the kernel follows as many */
    SEGMENTS_MAX = 256
};

struct linker_look {
    int directory;
    const char *path;
    int flags;
    char *linker;
    size_t bytes, used;
};

static bool read_at(int file, void *data, size_t bytes, uint64_t offset)
{
    return system_call(SYS_pread64, file, (long)data, (long)bytes, (long)offset, 0, 0) ==
           (long)bytes;
}

static bool may_run(const struct linker_look *look)
{
    return !*look->path ||
           system_call(SYS_faccessat, look->directory, (long)look->path, X_OK, 0, 0, 0) == 0;
}

/* Opens what would be run; a FIFO does not hold it up. Or a negative errno. */
static int open_program(const struct linker_look *look, const char *path)
{
    const long flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    if (path != look->path)
        return (int)system_call(SYS_openat, AT_FDCWD, (long)path, flags, 0, 0, 0);
    if (!*path && look->flags & AT_EMPTY_PATH) return look->directory;
    return (int)system_call(SYS_openat, look->directory, (long)path, flags, 0, 0, 0);
}

/* The interpreter that the first line of a script names; false: it is none. */
static bool read_script(int file, char *line)
{
    const long got = system_call(SYS_pread64, file, (long)line, SCRIPT_LINE_BYTES, 0, 0, 0);
    if (got < 2 || line[0] != '#' || line[1] != '!') return false;
    line[got] = 0;
    line[strcspn(line, "\n")] = 0;
    const char *start = line + 2 + strspn(line + 2, " \t");
    const size_t bytes = strcspn(start, " \t");
    memmove(line, start, bytes);
    line[bytes] = 0;
    return bytes > 0;
}

/* Only of a program that this library could be loaded into. */
static void read_linker(int file, struct linker_look *look)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (!read_at(file, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != ARCH_ELF_MACHINE ||
        header.e_phentsize != sizeof segment)
        return;
    for (unsigned i = 0; i < header.e_phnum && i < SEGMENTS_MAX; i++) {
        if (!read_at(file, &segment, sizeof segment, header.e_phoff + i * sizeof segment)) return;
        if (segment.p_type != PT_INTERP) continue;
        if (segment.p_filesz == 0 || segment.p_filesz >= look->bytes ||
            !read_at(file, look->linker, segment.p_filesz, segment.p_offset))
            return;
        look->linker[segment.p_filesz] = 0;
        look->used = strlen(look->linker);
        return;
    }
}

static int linker_main(void *argument)
{
    struct linker_look *look = argument;
    char line[SCRIPT_LINE_BYTES + 1];
    const char *path = look->path;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    for (unsigned i = 0; i <= SCRIPTS_MAX && may_run(look); i++, path = line) {
        int file = open_program(look, path);
        if (file < 0) break;
        if (!read_script(file, line)) {
            read_linker(file, look);
            break;
        }
    }
    os_process_exit(0);
}

size_t os_exec_linker(int directory, const char *path, int flags, char *linker, size_t bytes)
{
    struct linker_look look = {directory, path, flags, linker, bytes, 0};
    os_linux_run_apart(linker_main, &look);
    return look.used;
}
