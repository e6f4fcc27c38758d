#include "attach/attach.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/inject.h"
#include "attach/target.h"
#include "common/arch.h"
#include "common/error.h"

#define PATIENCE_NS UINT64_C(5000000000)
/* A program that has just been started gets its C library soon. */
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

/* The library as the process sees it is ours. */
static bool sees_library(pid_t process, const char *library)
{
    char path[PATH_MAX + 32];
    struct stat here, there;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)process, library);
    return stat(library, &here) == 0 && stat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

/* An ELF file for this kind of machine. */
static bool is_our_machine(pid_t process)
{
    char path[64];
    unsigned char head[20] = {0};
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return true; /* it cannot be known: attaching will tell */
    const bool read = fread(head, 1, sizeof head, file) == sizeof head;
    fclose(file);
    return !read || (head[EI_CLASS] == ELFCLASS64 && head[18] == ARCH_ELF_MACHINE);
}

static bool explain_permission(pid_t process, char *why, size_t why_bytes)
{
    char path[64], tracer[64] = "0", scope[16] = "0";
    struct stat status;
    if (status_get(process, "TracerPid", tracer, sizeof tracer) && strcmp(tracer, "0") != 0)
        return error_explain(why, why_bytes, "process %s traces it: a debugger, or strace", tracer);
    snprintf(path, sizeof path, "/proc/%d", (int)process);
    if (geteuid() != 0 && stat(path, &status) == 0 && status.st_uid != geteuid())
        return error_explain(why, why_bytes, "it is another user's: root can attach to it");
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL && fgets(scope, sizeof scope, file) == NULL) scope[0] = '0';
    if (file != NULL) fclose(file);
    if (scope[0] != '0')
        return error_explain(why, why_bytes,
                             "kernel.yama.ptrace_scope is %c: only root can attach to a process "
                             "that runs (sysctl kernel.yama.ptrace_scope=0)",
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
                             "it is a program for another kind of machine than malloctape");
    if (status_get(process, "Seccomp", value, sizeof value) && strcmp(value, "0") != 0)
        return error_explain(why, why_bytes,
                             "it has confined its system calls (seccomp): those of the recorder "
                             "could end it");
    if (status_get(process, "State", value, sizeof value) && strchr("TtZX", value[0]) != NULL)
        return error_explain(why, why_bytes, "it does not run: its state is %s", value);
    if (has_module(target, "libasan.so") || has_module(target, "libtsan.so") ||
        has_module(target, "libclang_rt."))
        return error_explain(why, why_bytes,
                             "it is built with a sanitizer, which has an allocator "
                             "of its own");
    if (!has_module(target, "ld-"))
        return error_explain(why, why_bytes,
                             "it is linked statically: no library can be put in front of its "
                             "allocator");
    if (!has_module(target, "libc.so.6"))
        return error_explain(why, why_bytes, "its C library is not glibc");
    if (has_module(target, "libtcmalloc_minimal_tracing.so"))
        return error_explain(why, why_bytes,
                             "it runs on malloctape's tcmalloc, but was started without "
                             "TCMALLOC_TRACE_CONTROL=1");
    return true;
}

/* ---- calls ---- */

/* Opens the maps anew: what was loaded meanwhile is in them. */
static bool call_library(struct inject *inject, pid_t process, const char *function,
                         const char *text, uint64_t *result, char *why, size_t why_bytes)
{
    struct target target;
    if (!target_open(&target, process)) return error_explain(why, why_bytes, "it has ended");
    const uint64_t address =
        target_function(&target, target_module_named(&target, LIBRARY), function);
    target_close(&target);
    if (address == 0) return error_explain(why, why_bytes, "it has another version of " LIBRARY);
    return inject_call(inject, address, text, 0, result, why, why_bytes);
}

static bool load(struct inject *inject, const char *library, char *why, size_t why_bytes)
{
    uint64_t handle, text;
    char reason[256] = "";
    struct target *target = inject->target;
    const size_t libc = target_module_named(target, "libc.so.6");
    const uint64_t open = target_function(target, libc, "dlopen"),
                   error = target_function(target, libc, "dlerror");
    if (open == 0 || error == 0)
        return error_explain(why, why_bytes, "its C library is older than glibc 2.34");
    if (!inject_call(inject, open, library, RTLD_NOW, &handle, why, why_bytes)) return false;
    if (handle != 0) return true;
    if (!inject_call(inject, error, NULL, 0, &text, why, why_bytes)) return false;
    if (text != 0) inject_read_text(inject, text, reason, sizeof reason);
    return error_explain(why, why_bytes, "it cannot load %s: %s", library, reason);
}

/* What must not end this process while another one does what it says. */
static void signals_block(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
}

static bool call_in(struct target *target, const char *library, const char *function,
                    const char *text, struct attached *attached, char *why, size_t why_bytes)
{
    struct inject inject;
    sigset_t before;
    uint64_t result = 0;
    signals_block(&before);
    bool good = inject_begin(&inject, target, PATIENCE_NS, why, why_bytes);
    if (good) {
        good = (library == NULL || load(&inject, library, why, why_bytes)) &&
               call_library(&inject, target->process, function, text, &result, why, why_bytes);
        inject_end(&inject);
        attached->has_ended = inject.is_gone;
        attached->stopped_ns = inject.stopped_ns;
    } else if (errno == EPERM) {
        explain_permission(target->process, why, why_bytes);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    attached->slots = (int)result;
    if (good && attached->slots == -EEXIST)
        return error_explain(why, why_bytes,
                             "it was started with " LIBRARY
                             ", but without TCMALLOC_TRACE_CONTROL=1");
    if (good && attached->slots < 0)
        return error_explain(why, why_bytes, "%s", strerror(-attached->slots));
    return good;
}

static bool open_process(struct target *target, pid_t process, char *why, size_t why_bytes)
{
    bool opened = target_open(target, process);
    for (unsigned i = 0;
         i < START_TRIES && opened && has_module(target, "ld-") && !has_module(target, "libc.");
         i++) {
        target_close(target);
        usleep(START_WAIT_US);
        opened = target_open(target, process);
    }
    if (opened) return true;
    if (errno == EACCES || errno == EPERM) return explain_permission(process, why, why_bytes);
    return error_explain(why, why_bytes, "%s",
                         errno == ENOENT || errno == ESRCH ? "there is no such process, or it is "
                                                             "one of the kernel's"
                                                           : strerror(errno));
}

bool attach_to(pid_t process, const char *library, const char *stacks, struct attached *attached,
               char *why, size_t why_bytes)
{
    struct target target;
    *attached = (struct attached){0};
    if (!open_process(&target, process, why, why_bytes)) return false;
    bool good = is_possible(&target, why, why_bytes);
    const bool is_loaded = good && has_module(&target, LIBRARY);
    if (good && !is_loaded && !sees_library(process, library))
        good = error_explain(why, why_bytes,
                             "%s is not there in its view of the file system (a container?): "
                             "install malloctape there",
                             library);
    good = good && call_in(&target, is_loaded ? NULL : library, "malloctape_library_attach", stacks,
                           attached, why, why_bytes);
    target_close(&target);
    return good;
}

bool attach_undo(pid_t process, struct attached *attached, char *why, size_t why_bytes)
{
    struct target target;
    *attached = (struct attached){0};
    if (!open_process(&target, process, why, why_bytes)) return false;
    const bool good =
        call_in(&target, NULL, "malloctape_library_detach", NULL, attached, why, why_bytes);
    target_close(&target);
    return good;
}
