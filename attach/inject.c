#include "attach/inject.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/safe_place.h"
#include "common/error.h"

enum {
    STACK_BYTES = 1 << 20, /* constructors of libraries run there */
    STACK_WORDS = 16384,   /* of a thread's, that are looked at */
    RED_ZONE_BYTES = 128,
    SYSCALL_BYTES = 2
};
/* The threads are looked at anew after so long. */
#define ROUND_NS UINT64_C(1000000)
/* A thread that sleeps in the kernel stops when it wakes: then another one has to do. */
#define STOP_NS  UINT64_C(20000000)

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void rest(uint64_t ns)
{
    const struct timespec time = {.tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

/* ---- the memory of the process ---- */

static size_t memory_read(const struct inject *inject, uint64_t address, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
    const ssize_t got = process_vm_readv(inject->target->process, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

static bool memory_write(const struct inject *inject, uint64_t address, const void *from,
                         size_t bytes)
{
    struct iovec here = {(void *)(uintptr_t)from, bytes},
                 there = {(void *)(uintptr_t)address, bytes};
    return process_vm_writev(inject->target->process, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

void inject_read_text(const struct inject *inject, uint64_t address, char *text, size_t bytes)
{
    size_t used = 0;
    while (used + 1 < bytes && memory_read(inject, address + used, text + used, 1) == 1 &&
           text[used] != '\0')
        used++;
    text[used] = '\0';
}

/* ---- one thread ---- */

/* Its next stop, within so long. False: none, or it has ended. */
static bool stop_await(pid_t thread, uint64_t patience_ns, int *status)
{
    const uint64_t end = now_ns() + patience_ns;
    for (;;) {
        const pid_t got = waitpid(thread, status, __WALL | WNOHANG);
        if (got == thread) return WIFSTOPPED(*status);
        if (got < 0 && errno != EINTR) return false;
        if (now_ns() >= end) return false;
        rest(50000);
    }
}

static int event_of(int status)
{
    return status >> 16;
}

/* Stops a thread and leaves it stopped. False: it has not stopped, and is not traced. */
static bool thread_stop(pid_t thread)
{
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) return false;
    const bool asked = ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0;
    bool stops = asked && stop_await(thread, STOP_NS, &status);
    /* A signal came first: it has it, and stops with its next step. */
    while (stops && event_of(status) != PTRACE_EVENT_STOP) {
        ptrace(PTRACE_CONT, thread, NULL, (void *)(long)WSTOPSIG(status));
        stops = stop_await(thread, STOP_NS, &status);
    }
    if (stops) return true;
    /* A thread that is not stopped cannot be let go: it stops soon. */
    while (asked && stop_await(thread, UINT64_C(1000000000), &status)) {
        const int signal = event_of(status) == 0 ? WSTOPSIG(status) : 0;
        if (ptrace(PTRACE_DETACH, thread, NULL, (void *)(long)signal) == 0) break;
    }
    return false;
}

static void thread_release(pid_t thread)
{
    ptrace(PTRACE_DETACH, thread, NULL, NULL);
}

static bool thread_is_safe(struct inject *inject, const struct safe_places *places)
{
    static uint64_t stack[STACK_WORDS];
    if (ptrace(PTRACE_GETREGS, inject->thread, NULL, &inject->registers) != 0) return false;
    size_t bytes = 0, more;
    /* The stack may end before so much is read: by pages. */
    do {
        more = memory_read(inject, inject->registers.rsp + bytes, (char *)stack + bytes,
                           sizeof stack - bytes < 4096 ? sizeof stack - bytes : 4096);
        bytes += more;
    } while (more == 4096 && bytes < sizeof stack);
    return safe_place_is(places, inject->thread, &inject->registers, stack, bytes / sizeof *stack);
}

/* Looks at each thread once. False: none is safe. */
static bool threads_try(struct inject *inject, const struct safe_places *places, int *error)
{
    char path[64];
    struct dirent *entry;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)inject->target->process);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        *error = ESRCH;
        return false;
    }
    while (!found && (entry = readdir(directory)) != NULL) {
        inject->thread = (pid_t)atoi(entry->d_name);
        if (inject->thread <= 0) continue;
        inject->stopped_at_ns = now_ns();
        errno = 0;
        if (!thread_stop(inject->thread)) {
            if (errno == EPERM) *error = EPERM;
            continue;
        }
        *error = 0;
        found = thread_is_safe(inject, places);
        if (!found) thread_release(inject->thread);
    }
    closedir(directory);
    return found;
}

/* ---- calls ---- */

static bool vectors_get(struct inject *inject)
{
    struct iovec all = {inject->vectors, sizeof inject->vectors};
    if (ptrace(PTRACE_GETREGSET, inject->thread, (void *)NT_X86_XSTATE, &all) != 0) return false;
    inject->vectors_bytes = all.iov_len;
    return true;
}

static void vectors_set(struct inject *inject)
{
    struct iovec all = {inject->vectors, inject->vectors_bytes};
    ptrace(PTRACE_SETREGSET, inject->thread, (void *)NT_X86_XSTATE, &all);
}

static bool signals_set(const struct inject *inject, uint64_t blocked)
{
    return ptrace(PTRACE_SETSIGMASK, inject->thread, (void *)sizeof blocked, &blocked) == 0;
}

/* Lets the thread run until it stops for `signal` where `rip` is at `address` (0: anywhere). Other
 * signals are held for later. False: it has ended. */
static bool run_until(struct inject *inject, int request, int signal, uint64_t address,
                      struct user_regs_struct *registers)
{
    int status;
    for (;;) {
        if (ptrace((enum __ptrace_request)request, inject->thread, NULL, NULL) != 0) break;
        while (waitpid(inject->thread, &status, __WALL) < 0)
            if (errno != EINTR) goto gone;
        if (!WIFSTOPPED(status)) break;
        if (event_of(status) != 0) continue; /* an interrupt, or a stop of all */
        if (ptrace(PTRACE_GETREGS, inject->thread, NULL, registers) != 0) break;
        if (WSTOPSIG(status) == signal && (address == UINT64_MAX || registers->rip == address))
            return true;
        /* One of its own faults: it would come again and again. */
        if (WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGBUS ||
            WSTOPSIG(status) == SIGILL || WSTOPSIG(status) == SIGFPE) {
            ptrace(PTRACE_DETACH, inject->thread, NULL, (void *)(long)WSTOPSIG(status));
            break;
        }
        inject->held |= UINT64_C(1) << (WSTOPSIG(status) - 1);
    }
gone:
    inject->is_gone = true;
    return false;
}

/* A system call at an instruction that makes one. */
static bool system_call(struct inject *inject, uint64_t instruction, long number,
                        const uint64_t arguments[6], uint64_t *result)
{
    struct user_regs_struct registers = inject->registers;
    registers.rip = instruction;
    registers.rax = (uint64_t)number;
    registers.orig_rax = UINT64_MAX;
    registers.rdi = arguments[0];
    registers.rsi = arguments[1];
    registers.rdx = arguments[2];
    registers.r10 = arguments[3];
    registers.r8 = arguments[4];
    registers.r9 = arguments[5];
    if (ptrace(PTRACE_SETREGS, inject->thread, NULL, &registers) != 0) return false;
    if (!run_until(inject, PTRACE_SINGLESTEP, SIGTRAP, instruction + SYSCALL_BYTES, &registers))
        return false;
    *result = registers.rax;
    return true;
}

/* In a function of the C library that makes any. */
static uint64_t system_call_find(const struct inject *inject, size_t libc)
{
    unsigned char code[64];
    const uint64_t function = target_function(inject->target, libc, "syscall");
    if (function == 0) return 0;
    const size_t bytes = memory_read(inject, function, code, sizeof code);
    const unsigned char *at = memmem(code, bytes, "\x0f\x05", SYSCALL_BYTES);
    return at != NULL ? function + (uint64_t)(at - code) : 0;
}

static bool stack_map(struct inject *inject, uint64_t instruction)
{
    const uint64_t arguments[6] = {
        0, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    return system_call(inject, instruction, SYS_mmap, arguments, &inject->stack) &&
           inject->stack < UINT64_MAX - 4096;
}

bool inject_call(struct inject *inject, uint64_t function, const char *text, uint64_t number,
                 uint64_t *result, char *why, size_t why_bytes)
{
    struct user_regs_struct registers = inject->registers;
    const uint64_t top = inject->stack + STACK_BYTES - PATH_MAX - 16, nowhere = 0;
    if ((text != NULL && !memory_write(inject, top + 16, text, strlen(text) + 1)) ||
        !memory_write(inject, top - 8, &nowhere, sizeof nowhere))
        return error_explain(why, why_bytes, "its memory cannot be written");
    registers.rip = function;
    registers.rsp = top - 8;
    registers.rbp = 0;
    registers.rdi = text != NULL ? top + 16 : 0;
    registers.rsi = number;
    registers.rax = 0;
    registers.orig_rax = UINT64_MAX;
    registers.eflags &= ~UINT64_C(0x500); /* direction, single steps */
    if (ptrace(PTRACE_SETREGS, inject->thread, NULL, &registers) != 0 ||
        !run_until(inject, PTRACE_CONT, SIGSEGV, 0, &registers)) {
        inject->is_gone = true;
        return error_explain(why, why_bytes, "it ended meanwhile");
    }
    *result = registers.rax;
    return true;
}

/* ---- the whole ---- */

bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes)
{
    struct safe_places places;
    const uint64_t end = now_ns() + patience_ns;
    int error = 0;
    bool found;
    memset(inject, 0, sizeof *inject);
    inject->target = target;
    if (!safe_places_find(&places, target))
        return error_explain(why, why_bytes, "%s",
                             errno == ENOMEM ? strerror(errno)
                                             : "its C library is not glibc, or it has none");
    const uint64_t instruction = system_call_find(inject, places.libc);
    if (instruction == 0) {
        safe_places_free(&places);
        return error_explain(why, why_bytes, "its memory cannot be read");
    }
    while (!(found = threads_try(inject, &places, &error)) && error == 0 && now_ns() < end)
        rest(ROUND_NS);
    safe_places_free(&places);
    if (!found && error == ESRCH) return error_explain(why, why_bytes, "it has ended");
    if (!found && error != 0) return error_explain(why, why_bytes, "%s", strerror(error));
    if (!found)
        return error_explain(why, why_bytes,
                             "no thread of it was outside of the allocator and the dynamic linker "
                             "for %u s: try again",
                             (unsigned)(patience_ns / 1000000000));
    /* A fault while its signal is blocked would undo what the program has set for it. */
    const uint64_t faults = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGTRAP - 1) |
                            UINT64_C(1) << (SIGBUS - 1) | UINT64_C(1) << (SIGILL - 1) |
                            UINT64_C(1) << (SIGFPE - 1);
    if (ptrace(PTRACE_GETSIGMASK, inject->thread, (void *)sizeof inject->blocked,
               &inject->blocked) == 0 &&
        vectors_get(inject) && signals_set(inject, ~faults)) {
        if (stack_map(inject, instruction)) return true;
        inject->stack = 0;
        inject_end(inject);
        return error_explain(why, why_bytes,
                             inject->is_gone ? "it ended meanwhile"
                                             : "it has no memory for a stack");
    }
    thread_release(inject->thread);
    return error_explain(why, why_bytes, "its registers cannot be read");
}

void inject_end(struct inject *inject)
{
    if (inject->is_gone) return;
    uint64_t unused;
    const uint64_t instruction =
        system_call_find(inject, target_module_named(inject->target, "libc.so.6"));
    const uint64_t arguments[6] = {inject->stack, STACK_BYTES};
    if (inject->stack != 0) system_call(inject, instruction, SYS_munmap, arguments, &unused);
    vectors_set(inject);
    signals_set(inject, inject->blocked);
    ptrace(PTRACE_SETREGS, inject->thread, NULL, &inject->registers);
    for (int signal = 1; signal <= 64; signal++)
        if (inject->held >> (signal - 1) & 1)
            syscall(SYS_tgkill, inject->target->process, inject->thread, signal);
    thread_release(inject->thread);
    inject->stopped_ns = now_ns() - inject->stopped_at_ns;
}
