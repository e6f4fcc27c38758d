#include "attach/attach.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/inject.h"
#include "attach/target.h"
#include "common/arch.h"
#include "common/error.h"

#define PATIENCE_NS UINT64_C(5000000000)
/* How often, and at what interval, to wait for a program that has just been started to load its C
 * library. */
enum { START_TRIES = 100, START_WAIT_US = 10000 };
/* For the dynamic linker's lock, a thread waits this long while it is stopped. Its owner may wait
 * for that very thread: then it goes on, for a while, before this is tried again. */
enum { LOCK_WAIT_MS = 30, BUSY_TRIES = 60, BUSY_WAIT_US = 50000 };
/* More than the size of the linker's data. */
enum { LINKER_BYTES_MAX = 65536 };

/* ---- what is in the way ---- */

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
    if (target_status(process, "TracerPid", tracer, sizeof tracer) && strcmp(tracer, "0") != 0)
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
    if (target_status(process, "TracerPid", value, sizeof value) && strcmp(value, "0") != 0)
        return explain_permission(process, why, why_bytes);
    if (!is_our_machine(process))
        return error_explain(why, why_bytes,
                             "it is built for another architecture than malloctape");
    if (target_status(process, "Seccomp", value, sizeof value) && strcmp(value, "0") != 0)
        return error_explain(why, why_bytes,
                             "it filters its system calls (seccomp): those of the recorder could "
                             "kill it");
    if (target_status(process, "State", value, sizeof value) && strchr("TtZX", value[0]) != NULL)
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

/* ---- the dynamic linker's lock ---- */

/* The address of the lock that dlopen() takes: the first of two or three recursive mutexes, one
 * after the other, in the linker's data. They are looked for in the linker's file, where nothing
 * else is as yet. 0: not found. */
static uint64_t linker_lock_find(struct target *target)
{
    static unsigned char data[LINKER_BYTES_MAX];
    pthread_mutex_t locks[2];
    size_t bytes = sizeof data;
    const uint64_t start = target_variable(target, target_module_named(target, ARCH_LINKER),
                                           "_rtld_global", data, &bytes);
    for (size_t at = 0; start != 0 && at + sizeof locks <= bytes; at += sizeof(uint64_t)) {
        memcpy(locks, data + at, sizeof locks);
        if (locks[0].__data.__kind == (int)PTHREAD_MUTEX_RECURSIVE_NP &&
            locks[1].__data.__kind == (int)PTHREAD_MUTEX_RECURSIVE_NP)
            return start + at;
    }
    return 0;
}

/* ---- the library, or a copy where the process cannot load it ---- */

/* Creates a memory file in the process with a copy of the library and sets *descriptor. The file's
 * name ends with that of the library. */
static bool copy_library(struct inject *inject, const char *library, uint64_t *descriptor,
                         char *why, size_t why_bytes)
{
    const uint64_t arguments[6] = {0, MFD_CLOEXEC};
    char path[64];
    struct stat status;
    if (!inject_system_call(inject, SYS_memfd_create, TARGET_COPY TARGET_LIBRARY, arguments,
                            descriptor, why, why_bytes))
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

/* ---- the errand ---- */

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

/* Fills in what is known before a thread is stopped. */
static bool errand_make(struct errand *errand, const struct call *call, char *why, size_t why_bytes)
{
    struct target *target = call->target;
    const size_t libc = target_module_named(target, "libc.so.6");
    *errand = (struct errand){.linker_lock = linker_lock_find(target),
                              .lock = target_function(target, libc, "pthread_mutex_clocklock"),
                              .unlock = target_function(target, libc, "pthread_mutex_unlock"),
                              .error_number = target_function(target, libc, "__errno_location"),
                              .open = target_function(target, libc, "dlopen"),
                              .find = target_function(target, libc, "dlsym"),
                              .explain = target_function(target, libc, "dlerror")};
    if (errand->lock == 0 || errand->unlock == 0 || errand->error_number == 0 ||
        errand->open == 0 || errand->find == 0 || errand->explain == 0)
        return error_explain(why, why_bytes, "its C library is older than glibc 2.34");
    if (errand->linker_lock == 0)
        return error_explain(why, why_bytes,
                             "its dynamic linker is not one of glibc that is known");
    if (call->library != NULL) return true;
    errand->function =
        target_function(target, target_module_named(target, TARGET_LIBRARY), call->function);
    return errand->function != 0 ||
           error_explain(why, why_bytes, "it has another version of " TARGET_LIBRARY);
}

/* Loads the library from `path`, if not NULL, and calls the function. */
static bool errand_run_in(struct inject *inject, struct errand *errand, const struct call *call,
                          const char *path, char *why, size_t why_bytes)
{
    char reason[256] = "";
    clock_gettime(CLOCK_MONOTONIC, &errand->until);
    errand->until.tv_nsec += LOCK_WAIT_MS * 1000000L;
    if (errand->until.tv_nsec >= 1000000000) {
        errand->until.tv_nsec -= 1000000000;
        errand->until.tv_sec++;
    }
    if (!inject_run(inject, errand, path, call->function, call->text, why, why_bytes)) return false;
    if (errand->is_busy || errand->function != 0) return true;
    if (errand->why != 0) inject_read_text(inject, errand->why, reason, sizeof reason);
    return error_explain(why, why_bytes, "it cannot load %s: %s", TARGET_LIBRARY, reason);
}

/* A file that the process sees may still not be its to load: its user may not read it, or the file
 * system is mounted with noexec. Then it gets a copy. */
static bool errand_of(struct inject *inject, struct errand *errand, const struct call *call,
                      char *why, size_t why_bytes)
{
    char path[64], unused[256];
    uint64_t descriptor = UINT64_MAX, result;
    if (call->library == NULL || sees_library(inject->target->process, call->library)) {
        if (errand_run_in(inject, errand, call, call->library, why, why_bytes)) return true;
        if (call->library == NULL || errand->why == 0) return false;
        errand->why = 0;
    }
    bool good = copy_library(inject, call->library, &descriptor, why, why_bytes);
    if (good) {
        /* An unusual path, so that no library loaded before has the same name. */
        snprintf(path, sizeof path, "/proc/self/./fd/%d", (int)descriptor);
        good = errand_run_in(inject, errand, call, path, why, why_bytes);
    }
    if ((int64_t)descriptor >= 0) {
        const uint64_t arguments[6] = {descriptor};
        inject_system_call(inject, SYS_close, NULL, arguments, &result, unused, sizeof unused);
    }
    return good;
}

/* Once. *is_busy: in vain, because another thread has the linker's lock. */
static bool call_try(struct inject *inject, const struct call *call, struct answer *answer,
                     bool *is_busy)
{
    struct errand errand;
    *is_busy = false;
    if (!errand_make(&errand, call, answer->why, sizeof answer->why)) return false;
    if (!inject_begin(inject, call->target, PATIENCE_NS, answer->why, sizeof answer->why))
        return false;
    const bool good = errand_of(inject, &errand, call, answer->why, sizeof answer->why);
    inject_end(inject);
    *is_busy = good && errand.is_busy;
    answer->attached.slots = (int)errand.result;
    return good && !*is_busy;
}

/* ---- in a process of its own ---- */

static void call_carry_out(const struct call *call, struct answer *answer)
{
    static struct inject inject;
    bool is_busy = true;
    for (unsigned i = 0; i < BUSY_TRIES && is_busy; i++) {
        if (i > 0) usleep(BUSY_WAIT_US);
        answer->is_good = call_try(&inject, call, answer, &is_busy);
    }
    if (is_busy)
        error_explain(answer->why, sizeof answer->why,
                      "another thread of it is loading or unloading a library: try again");
    answer->is_denied = inject.is_denied;
    answer->attached.stopped_ns = inject.stopped_ns;
    answer->attached.has_ended = inject.stopped.is_gone;
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
                             "it was started with " TARGET_LIBRARY
                             ", but without `record --control` or TCMALLOC_TRACE_CONTROL=1");
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
    const struct call call = {&target, has_module(&target, TARGET_LIBRARY) ? NULL : library,
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
