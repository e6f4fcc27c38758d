#include "attach/attach.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/inject.h"
#include "attach/target.h"
#include "common/arch.h"
#include "common/error.h"

#define PATIENCE_NS UINT64_C(5000000000)
/* How often, and at what interval, to wait for a program that has just been started to load its C
 * library. */
enum { START_TRIES = 100, START_WAIT_US = 10000 };
#define LIBRARY "libmalloctape.so"

/* ---- what is in the way ---- */

/* A line "NAME:\tVALUE" of /proc/PROCESS/status. False: there is none. */
static bool status_get(pid_t process, const char *name, char *value, size_t bytes)
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const size_t length = strlen(name);
        if (strncmp(line, name, length) != 0 || line[length] != ':') continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(value, bytes, "%s", line + length + 1 + strspn(line + length + 1, "\t "));
        found = true;
    }
    fclose(file);
    return found;
}

static bool has_module(const struct target *target, const char *name)
{
    return target_module_named(target, name) != TARGET_NONE;
}

/* Whether the process sees the library, the same file as this process, at its path. */
static bool sees_library(pid_t process, const char *library)
{
    char path[PATH_MAX + 32];
    struct stat here, there;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)process, library);
    return stat(library, &here) == 0 && stat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

/* Whether the program is an ELF file for this architecture. */
static bool is_our_machine(pid_t process)
{
    char path[64];
    unsigned char head[20] = {0};
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return true; /* unknown: attaching will tell */
    const bool read = fread(head, 1, sizeof head, file) == sizeof head;
    fclose(file);
    return !read || (head[EI_CLASS] == ELFCLASS64 && head[18] == ARCH_ELF_MACHINE);
}

static bool explain_permission(pid_t process, char *why, size_t why_bytes)
{
    char path[64], tracer[64] = "0", scope[16] = "0";
    struct stat status;
    if (status_get(process, "TracerPid", tracer, sizeof tracer) && strcmp(tracer, "0") != 0)
        return error_explain(why, why_bytes, "process %s, a debugger or strace, traces it already",
                             tracer);
    snprintf(path, sizeof path, "/proc/%d", (int)process);
    if (geteuid() != 0 && stat(path, &status) == 0 && status.st_uid != geteuid())
        return error_explain(why, why_bytes,
                             "it belongs to another user: only root can attach to it");
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL && fgets(scope, sizeof scope, file) == NULL) scope[0] = '0';
    if (file != NULL) fclose(file);
    if (scope[0] != '0')
        return error_explain(why, why_bytes,
                             "kernel.yama.ptrace_scope is %c: only root can attach to a running "
                             "process (sysctl kernel.yama.ptrace_scope=0 lets you do so)",
                             scope[0]);
    return error_explain(why, why_bytes, "the system does not allow it to be traced");
}

static bool is_possible(struct target *target, char *why, size_t why_bytes)
{
    const pid_t process = target->process;
    char value[64];
    if (status_get(process, "TracerPid", value, sizeof value) && strcmp(value, "0") != 0)
        return explain_permission(process, why, why_bytes);
    if (!is_our_machine(process))
        return error_explain(why, why_bytes,
                             "it is built for another architecture than malloctape");
    if (status_get(process, "Seccomp", value, sizeof value) && strcmp(value, "0") != 0)
        return error_explain(why, why_bytes,
                             "it filters its system calls (seccomp): those of the recorder could "
                             "kill it");
    if (status_get(process, "State", value, sizeof value) && strchr("TtZX", value[0]) != NULL)
        return error_explain(why, why_bytes, "it is not running: its state is %s", value);
    if (has_module(target, "libasan.so") || has_module(target, "libtsan.so") ||
        has_module(target, "libclang_rt."))
        return error_explain(why, why_bytes,
                             "it is built with a sanitizer, which has an allocator "
                             "of its own");
    if (!has_module(target, "ld-"))
        return error_explain(
            why, why_bytes,
            "it is statically linked: no library can be put in front of its allocator");
    if (!has_module(target, "libc.so.6"))
        return error_explain(why, why_bytes, "its C library is not glibc");
    if (has_module(target, "libtcmalloc_minimal_tracing.so"))
        return error_explain(why, why_bytes,
                             "it runs on malloctape's tcmalloc, but was started without "
                             "TCMALLOC_TRACE_CONTROL=1");
    return true;
}

/* ---- calls ---- */

/* Calls a function of the library. Reads the maps anew, because the library may just have been
 * loaded. */
static bool call_library(struct inject *inject, pid_t process, const char *function,
                         const char *text, uint64_t *result, char *why, size_t why_bytes)
{
    struct target target;
    if (!target_open(&target, process, inject->target->original))
        return error_explain(why, why_bytes, "it has ended");
    const uint64_t address =
        target_function(&target, target_module_named(&target, LIBRARY), function);
    target_close(&target);
    if (address == 0) return error_explain(why, why_bytes, "it has another version of " LIBRARY);
    return inject_call(inject, address, text, 0, result, why, why_bytes);
}

/* ---- the library where the process does not see it ---- */

/* Creates a memory file in the process with a copy of the library and sets *descriptor. The file's
 * name ends with that of the library. */
static bool copy_library(struct inject *inject, const char *library, uint64_t *descriptor,
                         char *why, size_t why_bytes)
{
    const uint64_t arguments[6] = {0, MFD_CLOEXEC};
    char path[64];
    struct stat status;
    if (!inject_system_call(inject, SYS_memfd_create, TARGET_COPY LIBRARY, arguments, descriptor,
                            why, why_bytes))
        return false;
    if ((int64_t)*descriptor < 0)
        return error_explain(why, why_bytes, "the library cannot be copied into it: %s",
                             strerror((int)-(int64_t)*descriptor));
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)inject->target->process, (int)*descriptor);
    const int from = open(library, O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CLOEXEC);
    bool good = from >= 0 && to >= 0 && fstat(from, &status) == 0;
    for (off_t at = 0; good && at < status.st_size;)
        good = sendfile(to, from, &at, (size_t)(status.st_size - at)) > 0;
    if (!good) error_explain(why, why_bytes, "%s cannot be copied: %s", library, strerror(errno));
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    return good;
}

static bool load_path(struct inject *inject, const char *path, char *why, size_t why_bytes)
{
    uint64_t handle, text;
    char reason[256] = "";
    struct target *target = inject->target;
    const size_t libc = target_module_named(target, "libc.so.6");
    const uint64_t open = target_function(target, libc, "dlopen"),
                   error = target_function(target, libc, "dlerror");
    if (open == 0 || error == 0)
        return error_explain(why, why_bytes, "its C library is older than glibc 2.34");
    if (!inject_call(inject, open, path, RTLD_NOW, &handle, why, why_bytes)) return false;
    if (handle != 0) return true;
    if (!inject_call(inject, error, NULL, 0, &text, why, why_bytes)) return false;
    if (text != 0) inject_read_text(inject, text, reason, sizeof reason);
    return error_explain(why, why_bytes, "it cannot load %s: %s", LIBRARY, reason);
}

static bool load(struct inject *inject, const char *library, char *why, size_t why_bytes)
{
    char path[64], unused[256];
    uint64_t descriptor = UINT64_MAX, result;
    if (sees_library(inject->target->process, library))
        return load_path(inject, library, why, why_bytes);
    bool good = copy_library(inject, library, &descriptor, why, why_bytes);
    if (good) {
        /* An unusual path, so that no library loaded before has the same name. */
        snprintf(path, sizeof path, "/proc/self/./fd/%d", (int)descriptor);
        good = load_path(inject, path, why, why_bytes);
    }
    if ((int64_t)descriptor >= 0) {
        const uint64_t arguments[6] = {descriptor};
        inject_system_call(inject, SYS_close, NULL, arguments, &result, unused, sizeof unused);
    }
    return good;
}

/* ---- in a process of its own ---- */

/* The result of the child process that injects. */
struct answer {
    struct attached attached;
    bool is_good, is_denied;
    char why[PATH_MAX + 256];
};

struct call {
    struct target *target;
    const char *library; /* NULL: already loaded */
    const char *function, *text;
};

static void call_carry_out(const struct call *call, struct answer *answer)
{
    static struct inject inject;
    uint64_t result = 0;
    answer->is_good =
        inject_begin(&inject, call->target, PATIENCE_NS, answer->why, sizeof answer->why);
    if (answer->is_good) {
        answer->is_good = (call->library == NULL ||
                           load(&inject, call->library, answer->why, sizeof answer->why)) &&
                          call_library(&inject, call->target->process, call->function, call->text,
                                       &result, answer->why, sizeof answer->why);
        inject_end(&inject);
    }
    answer->is_denied = inject.is_denied;
    answer->attached = (struct attached){
        .slots = (int)result, .stopped_ns = inject.stopped_ns, .has_ended = inject.is_gone};
}

/* Injects in a child process with a session of its own, so that a signal that ends this process
 * does not end the one that controls the program's threads. When the child ends, threads that it
 * has asked to stop go on. */
static bool call_in(const struct call *call, struct attached *attached, char *why, size_t why_bytes)
{
    sigset_t all, before;
    struct answer *answer =
        mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED) return error_explain(why, why_bytes, "%s", strerror(errno));
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        call_carry_out(call, answer);
        _exit(0);
    }
    int status = 0;
    bool good = child > 0;
    if (!good) error_explain(why, why_bytes, "%s", strerror(errno));
    while (good && waitpid(child, &status, 0) < 0)
        good = errno == EINTR;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (good && (!WIFEXITED(status) || !answer->is_good)) {
        good = false;
        if (!WIFEXITED(status))
            error_explain(why, why_bytes, "the process that attaches was killed");
        else if (answer->is_denied)
            explain_permission(call->target->process, why, why_bytes);
        else
            error_explain(why, why_bytes, "%s", answer->why);
    }
    *attached = answer->attached;
    munmap(answer, sizeof *answer);
    if (good && attached->slots == -EEXIST)
        return error_explain(why, why_bytes,
                             "it was started with " LIBRARY
                             ", but without TCMALLOC_TRACE_CONTROL=1");
    if (good && attached->slots < 0)
        return error_explain(why, why_bytes, "%s", strerror(-attached->slots));
    return good;
}

static bool open_process(struct target *target, pid_t process, const char *library, char *why,
                         size_t why_bytes)
{
    bool opened = target_open(target, process, library);
    for (unsigned i = 0;
         i < START_TRIES && opened && has_module(target, "ld-") && !has_module(target, "libc.");
         i++) {
        target_close(target);
        usleep(START_WAIT_US);
        opened = target_open(target, process, library);
    }
    if (opened) return true;
    if (errno == EACCES || errno == EPERM) return explain_permission(process, why, why_bytes);
    return error_explain(why, why_bytes, "%s",
                         errno == ENOENT || errno == ESRCH
                             ? "there is no such process, or it is a kernel thread"
                             : strerror(errno));
}

bool attach_to(pid_t process, const char *library, const char *settings, struct attached *attached,
               char *why, size_t why_bytes)
{
    struct target target;
    *attached = (struct attached){0};
    if (!open_process(&target, process, library, why, why_bytes)) return false;
    bool good = is_possible(&target, why, why_bytes);
    const struct call call = {&target, has_module(&target, LIBRARY) ? NULL : library,
                              "malloctape_library_attach", settings};
    good = good && call_in(&call, attached, why, why_bytes);
    target_close(&target);
    return good;
}

bool attach_undo(pid_t process, const char *library, struct attached *attached, char *why,
                 size_t why_bytes)
{
    struct target target;
    *attached = (struct attached){0};
    if (!open_process(&target, process, library, why, why_bytes)) return false;
    const struct call call = {&target, NULL, "malloctape_library_detach", NULL};
    const bool good = call_in(&call, attached, why, why_bytes);
    target_close(&target);
    return good;
}
