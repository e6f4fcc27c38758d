#include "attach/inject.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/registers.h"
#include "attach/safe_place.h"
#include "common/error.h"

enum {
    STACK_BYTES = 1 << 20, /* of the mapped stack: constructors of libraries run on it */
    STACK_WORDS = 16384,   /* how much of a thread's own stack is looked at */
    CODE_BYTES = 4096,
    /* A stop at a system call (ptrace(2), PTRACE_O_TRACESYSGOOD). */
    SYSCALL_STOP = SIGTRAP | 0x80
};
/* The pause between two rounds over all threads. */
#define ROUND_NS UINT64_C(1000000)
/* How long to wait for a thread to stop. One that sleeps uninterruptibly in the kernel stops only
 * when it wakes (in vfork(2), when its child has executed another program): then another is
 * tried. */
#define STOP_NS  UINT64_C(20000000)
/* A call that has waited this long for a lock of the dynamic linker may never get it: the owner may
 * be in a library's constructor that waits for this very thread. */
#define STUCK_NS UINT64_C(10000000000)

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

/* Waits for the thread's next stop, up to `patience_ns`. False: none, or it has ended. */
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

/* The entry of a thread that has been asked to stop and has not yet (0: a free entry); NULL:
 * none. */
static pid_t *late_find(struct inject *inject, pid_t thread)
{
    for (unsigned i = 0; i < INJECT_LATE_MAX; i++)
        if (inject->late[i] == thread) return &inject->late[i];
    return NULL;
}

/* Stops a thread and leaves it stopped. False: it has not stopped yet, or cannot be traced (errno).
 * When this process ends, it goes on. */
static bool thread_stop(struct inject *inject, pid_t thread)
{
    int status;
    pid_t *late = late_find(inject, thread);
    if (late == NULL) {
        if ((late = late_find(inject, 0)) == NULL) return false;
        if (ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) return false;
        *late = thread;
        if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0) return false;
    }
    bool stops = stop_await(thread, STOP_NS, &status);
    /* A signal came first: deliver it. The thread stops right afterwards. */
    while (stops && event_of(status) != PTRACE_EVENT_STOP) {
        ptrace(PTRACE_CONT, thread, NULL, (void *)(long)WSTOPSIG(status));
        stops = stop_await(thread, STOP_NS, &status);
    }
    if (stops) *late = 0;
    errno = 0;
    return stops;
}

static void thread_release(pid_t thread)
{
    ptrace(PTRACE_DETACH, thread, NULL, NULL);
}

static bool thread_is_safe(struct inject *inject, const struct safe_places *places)
{
    static uint64_t stack[STACK_WORDS];
    struct user_regs_struct *registers = &inject->state.registers;
    if (!registers_get(inject->thread, registers)) return false;
    size_t bytes = 0, more;
    /* The stack may end before: read it in pieces. */
    do {
        more = memory_read(inject, registers_stack(registers) + bytes, (char *)stack + bytes,
                           sizeof stack - bytes < 4096 ? sizeof stack - bytes : 4096);
        bytes += more;
    } while (more == 4096 && bytes < sizeof stack);
    return safe_place_is(places, inject->thread, registers, stack, bytes / sizeof *stack);
}

static bool state_get(struct inject *inject)
{
    struct iovec all = {inject->state.vectors, sizeof inject->state.vectors};
    if (ptrace(PTRACE_GETSIGMASK, inject->thread, (void *)sizeof inject->state.blocked,
               &inject->state.blocked) != 0 ||
        !registers_vectors_get(inject->thread, &all, &inject->state.vectors_kind))
        return false;
    inject->state.vectors_bytes = all.iov_len;
    return true;
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
        if (!thread_stop(inject, inject->thread)) {
            if (errno == EPERM) *error = EPERM;
            continue;
        }
        *error = 0;
        found = thread_is_safe(inject, places) && state_get(inject);
        if (!found) thread_release(inject->thread);
    }
    closedir(directory);
    return found;
}

/* ---- calls ---- */

/* The mask of blocked signals during calls: all but SIGURG (registers.h) and faults. If a fault's
 * signal were blocked, the kernel would reset the program's handler for it. */
static uint64_t signals_of_calls(void)
{
    static const int open[] = {SIGSEGV, SIGTRAP, SIGBUS, SIGILL, SIGFPE, SIGURG};
    uint64_t blocked = UINT64_MAX;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        blocked &= ~(UINT64_C(1) << (open[i] - 1));
    return blocked;
}

static bool signals_set(const struct inject *inject, uint64_t blocked)
{
    return ptrace(PTRACE_SETSIGMASK, inject->thread, (void *)sizeof blocked, &blocked) == 0;
}

/* Waits for the thread's next stop. False: it has ended, or waits too long for a lock. */
static bool call_await(struct inject *inject, int *status)
{
    const uint64_t end = now_ns() + STUCK_NS;
    struct user_regs_struct registers;
    bool was_asked = false;
    for (;;) {
        const pid_t got = waitpid(inject->thread, status, __WALL | WNOHANG);
        if (got < 0 && errno != EINTR) break;
        if (got == inject->thread && !WIFSTOPPED(*status)) break;
        if (got == inject->thread && was_asked && event_of(*status) == PTRACE_EVENT_STOP &&
            registers_get(inject->thread, &registers) &&
            registers_waits_in(inject->thread, &registers) == SYS_futex) {
            inject->is_stuck = true;
            return false;
        }
        if (got == inject->thread) return true;
        if (now_ns() >= end && !was_asked)
            was_asked = ptrace(PTRACE_INTERRUPT, inject->thread, NULL, NULL) == 0;
        rest(50000);
    }
    inject->is_gone = true;
    return false;
}

/* Lets the thread run until it stops for `signal` at `address`. Other signals are held
 * for later. False: as above. */
static bool run_until(struct inject *inject, int request, int signal, uint64_t address,
                      struct user_regs_struct *registers)
{
    int status;
    for (;;) {
        if (ptrace((enum __ptrace_request)request, inject->thread, NULL, NULL) != 0) break;
        if (!call_await(inject, &status)) return false;
        if (event_of(status) != 0) continue; /* an interrupt, or a group stop */
        if (!registers_get(inject->thread, registers)) break;
        if (WSTOPSIG(status) == signal && registers_code(registers) == address) return true;
        if (WSTOPSIG(status) == SYSCALL_STOP) continue;
        /* A fault of the thread itself, which would recur forever. */
        if (WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGBUS ||
            WSTOPSIG(status) == SIGILL || WSTOPSIG(status) == SIGFPE ||
            WSTOPSIG(status) == SIGTRAP) {
            ptrace(PTRACE_DETACH, inject->thread, NULL, (void *)(long)WSTOPSIG(status));
            break;
        }
        inject->held |= UINT64_C(1) << (WSTOPSIG(status) - 1);
    }
    inject->is_gone = true;
    return false;
}

/* Writes a frame into the process that ends at or below this address. */
static bool frame_put(struct inject *inject, uint64_t end)
{
    frame_make(&inject->frame, &inject->state, end, inject->restorer);
    return memory_write(inject, inject->frame.start, inject->frame.bytes, inject->frame.bytes_used);
}

/* Has the thread make a system call on its own stack, as a signal handler would. If this process
 * dies meanwhile, the C library's function that contains the instruction returns into the frame.
 *
 * The thread is stopped on entry to the kernel and on exit, not by single steps: if this process
 * died during one, the thread would get SIGTRAP, which ends the program. */
static bool system_call(struct inject *inject, long number, const uint64_t arguments[6],
                        uint64_t *result)
{
    struct user_regs_struct registers = inject->state.registers;
    if (!frame_put(inject, registers_stack(&registers) - REGISTERS_RED_ZONE)) return false;
    registers_to_system_call(&registers, inject->instruction, inject->frame.start, inject->restorer,
                             number, arguments);
    if (!registers_put(inject->thread, &registers)) return false;
    signals_set(inject, signals_of_calls());
    const uint64_t behind = inject->instruction + sizeof registers_system_call;
    if (!run_until(inject, PTRACE_SYSCALL, SYSCALL_STOP, behind, &registers) ||
        !run_until(inject, PTRACE_SYSCALL, SYSCALL_STOP, behind, &registers))
        return false;
    *result = registers_result(&registers);
    return true;
}

/* The address of a system call instruction in a function of the C library; 0: not found. */
static uint64_t system_call_find(const struct inject *inject, size_t libc)
{
    unsigned char code[64];
    const uint64_t function = target_function(inject->target, libc, REGISTERS_SYSTEM_CALL_IN);
    if (function == 0) return 0;
    const size_t bytes = memory_read(inject, function, code, sizeof code);
    const unsigned char *at =
        memmem(code, bytes, registers_system_call, sizeof registers_system_call);
    return at != NULL ? function + (uint64_t)(at - code) : 0;
}

static bool memory_map(struct inject *inject, uint64_t bytes, uint64_t rights, uint64_t *mapped)
{
    const uint64_t arguments[6] = {0, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    if (system_call(inject, SYS_mmap, arguments, mapped) && *mapped < UINT64_MAX - 4096)
        return true;
    *mapped = 0;
    return false;
}

static void memory_unmap(struct inject *inject, uint64_t address, uint64_t bytes)
{
    const uint64_t arguments[6] = {address, bytes, 0, 0, 0, 0};
    uint64_t unused;
    if (address != 0) system_call(inject, SYS_munmap, arguments, &unused);
}

/* Uses ptrace(), because the process itself cannot write this memory. */
static bool code_write(const struct inject *inject)
{
    for (size_t i = 0; i < sizeof registers_calling; i += sizeof(long)) {
        long word = 0;
        const size_t left = sizeof registers_calling - i;
        memcpy(&word, (const unsigned char *)registers_calling + i,
               left < sizeof word ? left : sizeof word);
        if (ptrace(PTRACE_POKEDATA, inject->thread, (void *)(uintptr_t)(inject->code + i),
                   (void *)word) != 0)
            return false;
    }
    return true;
}

/* The stack holds, from the top down: a text, the result, the frame, and the frames of calls. */
static uint64_t text_place(const struct inject *inject)
{
    return inject->stack + STACK_BYTES - PATH_MAX;
}

static bool text_put(const struct inject *inject, const char *text)
{
    return text == NULL ||
           memory_write(inject, text_place(inject), text, strnlen(text, PATH_MAX - 1) + 1);
}

static bool call_failed(const struct inject *inject, char *why, size_t why_bytes)
{
    return error_explain(why, why_bytes, "%s",
                         inject->is_stuck  ? "its allocator or its dynamic linker is busy "
                                             "(perhaps another thread is loading a library): try "
                                             "again"
                         : inject->is_gone ? "it has ended"
                                           : "its memory cannot be written");
}

bool inject_call(struct inject *inject, uint64_t function, const char *text, uint64_t number,
                 uint64_t *result, char *why, size_t why_bytes)
{
    struct user_regs_struct registers = inject->state.registers;
    const uint64_t place = text_place(inject) - sizeof *result;
    if (!text_put(inject, text) || !frame_put(inject, place))
        return call_failed(inject, why, why_bytes);
    registers_to_call(&registers, inject->code, inject->frame.start, function,
                      text != NULL ? text_place(inject) : 0, number, place);
    if (!registers_put(inject->thread, &registers)) inject->is_gone = true;
    if (inject->is_gone ||
        !run_until(inject, PTRACE_CONT, SIGURG, inject->code + REGISTERS_CALLED, &registers))
        return call_failed(inject, why, why_bytes);
    return memory_read(inject, place, result, sizeof *result) == sizeof *result ||
           call_failed(inject, why, why_bytes);
}

bool inject_system_call(struct inject *inject, long number, const char *text,
                        const uint64_t arguments[6], uint64_t *result, char *why, size_t why_bytes)
{
    uint64_t words[6];
    memcpy(words, arguments, sizeof words);
    if (text != NULL) words[0] = text_place(inject);
    return (text_put(inject, text) && system_call(inject, number, words, result)) ||
           call_failed(inject, why, why_bytes);
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
    inject->instruction = system_call_find(inject, places.libc);
    inject->restorer = places.restorer;
    if (inject->instruction == 0 || inject->restorer == 0) {
        safe_places_free(&places);
        return error_explain(why, why_bytes, "its memory cannot be read");
    }
    while (!(found = threads_try(inject, &places, &error)) && error == 0 && now_ns() < end)
        rest(ROUND_NS);
    safe_places_free(&places);
    if (!found && error == ESRCH) return error_explain(why, why_bytes, "it has ended");
    if (!found && error != 0) {
        inject->is_denied = error == EPERM;
        return error_explain(why, why_bytes, "%s", strerror(error));
    }
    if (!found)
        return error_explain(why, why_bytes,
                             "all its threads stayed in the allocator or the dynamic linker for "
                             "%u s: try again",
                             (unsigned)(patience_ns / 1000000000));
    if (memory_map(inject, STACK_BYTES, PROT_READ | PROT_WRITE, &inject->stack) &&
        memory_map(inject, CODE_BYTES, PROT_READ | PROT_EXEC, &inject->code) && code_write(inject))
        return true;
    inject_end(inject);
    return error_explain(why, why_bytes,
                         inject->is_gone ? "it has ended"
                                         : "no memory for a stack can be mapped in it");
}

/* If the thread is stuck, the stack stays mapped, because other threads may use data on it. */
void inject_end(struct inject *inject)
{
    struct iovec vectors = {inject->state.vectors, inject->state.vectors_bytes};
    if (!inject->is_stuck) memory_unmap(inject, inject->stack, STACK_BYTES);
    if (!inject->is_stuck) memory_unmap(inject, inject->code, CODE_BYTES);
    if (inject->is_gone) return;
    registers_vectors_put(inject->thread, &vectors, inject->state.vectors_kind);
    signals_set(inject, inject->state.blocked);
    registers_put(inject->thread, &inject->state.registers);
    for (int signal = 1; signal <= 64; signal++)
        if (inject->held >> (signal - 1) & 1)
            syscall(SYS_tgkill, inject->target->process, inject->thread, signal);
    thread_release(inject->thread);
    inject->stopped_ns = now_ns() - inject->stopped_at_ns;
}
