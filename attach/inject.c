#include "attach/inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/registers.h"
#include "attach/safe_place.h"
#include "attach/wait.h"
#include "common/error.h"

enum {
    STACK_BYTES = 1 << 20, /* of the mapped stack: constructors of libraries run on it */
    STACK_WORDS = 16384,   /* how much of a thread's own stack is looked at */
    CODE_BYTES = 4096,
    ERRAND_OFFSET = 256, /* of its code in there, behind registers_calling */
    TEXTS = 3,           /* PATH_MAX each, at the top of the stack; below them the errand */
    /* A stop at a system call (ptrace(2), PTRACE_O_TRACESYSGOOD). */
    SYSCALL_STOP = SIGTRAP | 0x80
};
/* The pause between two rounds over all threads. */
#define ROUND_NS UINT64_C(1000000)
/* How long to wait for a thread to stop. One that sleeps uninterruptibly in the kernel stops only
 * when it wakes (in vfork(2), when its child has executed another program): then another is
 * tried. */
#define STOP_NS  UINT64_C(20000000)
/* A wait began at most this long ago if the thread was last seen this long ago, before it began. */
#define FRESH_NS (5 * ROUND_NS)
/* After this time without another one, a thread is taken whose wait will begin anew. */
#define RENEW_NS UINT64_C(2000000000)
/* A thread that runs has been looked at this often before. */
enum { LOOKS = 5 };
/* The system also says EPERM of a thread that is just ending. */
enum { DENIALS_MAX = 50 };
/* A waiting thread that was at no safe place is not stopped again in the same wait before. */
#define AGAIN_NS UINT64_C(100000000)

/* Since Linux 5.13; older headers do not have it. */
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

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
    while (used + 1 < bytes && target_read(inject->target, address + used, text + used, 1) == 1 &&
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

static int inject_event_of(int status)
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
static bool inject_thread_stop(struct inject *inject, pid_t thread)
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
    while (stops && inject_event_of(status) != PTRACE_EVENT_STOP) {
        ptrace(PTRACE_CONT, thread, NULL, (void *)(long)WSTOPSIG(status));
        stops = stop_await(thread, STOP_NS, &status);
    }
    if (stops) *late = 0;
    errno = 0;
    return stops;
}

/* Waits for the thread's next stop. False: it has ended. */
static bool call_await(struct inject *inject, int *status)
{
    for (;;) {
        const pid_t got = waitpid(inject->thread, status, __WALL | WNOHANG);
        if (got < 0 && errno != EINTR) break;
        if (got == inject->thread && !WIFSTOPPED(*status)) break;
        if (got == inject->thread) return true;
        rest(50000);
    }
    inject->is_gone = true;
    return false;
}

/* Whether the stop may have cut the system call short that the thread was in: a write, for example,
 * that had already put something into a pipe. *done: how much. */
static bool call_was_cut(const struct user_regs_struct *registers, long number, uint64_t *done)
{
    uint64_t arguments[6];
    registers_arguments(registers, arguments);
    *done = registers_result(registers);
    return REGISTERS_KEEP_ARGUMENTS && *done > 0 && *done < arguments[2] &&
           (number == SYS_write || number == SYS_sendto ||
            (number == SYS_recvfrom && (arguments[3] & MSG_WAITALL) != 0));
}

/* Has the thread do the rest of such a call, then adds the results, and leaves it stopped. False: a
 * signal of the program's came first. *signal: that, or 0. */
static bool call_complete(struct inject *inject, long number, uint64_t done, int *signal)
{
    struct user_regs_struct registers = inject->state.registers;
    uint64_t arguments[6];
    unsigned stops = 0;
    int status = 0;
    registers_arguments(&registers, arguments);
    arguments[1] += done;
    arguments[2] -= done;
    registers_to_system_call(&registers, registers_code(&registers) - sizeof registers_system_call,
                             registers_stack(&registers), 0, number, arguments);
    *signal = 0;
    if (!registers_put(inject->thread, &registers)) return false;
    while (stops < 2 && *signal == 0 && ptrace(PTRACE_SYSCALL, inject->thread, NULL, NULL) == 0 &&
           call_await(inject, &status)) {
        if (inject_event_of(status) != 0) continue;
        if (WSTOPSIG(status) == SYSCALL_STOP)
            stops++;
        else
            *signal = WSTOPSIG(status);
    }
    int64_t rest = 0;
    if (stops == 2 && registers_get(inject->thread, &registers))
        rest = (int64_t)registers_result(&registers);
    registers_return(&inject->state.registers, done + (rest > 0 ? (uint64_t)rest : 0));
    registers_put(inject->thread, &inject->state.registers);
    return *signal == 0;
}

static void thread_release(struct inject *inject)
{
    if (inject->is_made_again) registers_put(inject->thread, &inject->state.registers);
    ptrace(PTRACE_DETACH, inject->thread, NULL, NULL);
}

/* Whether the thread is inside a restartable sequence (rseq(2)): the kernel would not abort it if
 * the thread did something else and then went on there. */
static bool is_in_sequence(const struct inject *inject, uint64_t code)
{
    struct {
        uint64_t area;
        uint32_t bytes, signature, flags, unused;
    } of = {0};
    struct {
        uint32_t version, flags;
        uint64_t start, length, abort;
    } sequence;
    uint64_t address = 0;
    if (ptrace((enum __ptrace_request)PTRACE_GET_RSEQ_CONFIGURATION, inject->thread,
               (void *)sizeof of, &of) <= 0 ||
        of.area == 0)
        return false;
    if (target_read(inject->target, of.area + sizeof(uint64_t), &address, sizeof address) !=
            sizeof address ||
        address == 0)
        return false;
    return target_read(inject->target, address, &sequence, sizeof sequence) != sizeof sequence ||
           code - sequence.start < sequence.length;
}

/* `registers`: as the thread was stopped. */
static bool thread_is_safe(struct inject *inject, const struct safe_places *places,
                           const struct user_regs_struct *registers)
{
    static uint64_t stack[STACK_WORDS];
    size_t bytes = 0, more;
    if (is_in_sequence(inject, registers_code(registers))) return false;
    /* The stack may end before: read it in pieces. */
    do {
        more =
            target_read(inject->target, registers_stack(registers) + bytes, (char *)stack + bytes,
                        sizeof stack - bytes < 4096 ? sizeof stack - bytes : 4096);
        bytes += more;
    } while (more == 4096 && bytes < sizeof stack);
    return safe_place_is(places, inject->thread, registers, stack, bytes / sizeof *stack);
}

/* The stop has ended the system call that the thread was in: it is made again. The thread has that in
 * its registers at once: if this process died first, the call would return EINTR. */
static void call_make_again(struct inject *inject, const struct wait *wait)
{
    struct user_regs_struct *registers = &inject->state.registers;
    const long number = registers_waits_in(inject->thread, registers);
    uint64_t arguments[6];
    inject->is_made_again = false;
    if (number < 0 || !registers_was_interrupted(registers)) return;
    if (number == wait->number)
        memcpy(arguments, wait->arguments, sizeof arguments);
    else if (REGISTERS_KEEP_ARGUMENTS)
        registers_arguments(registers, arguments);
    else
        return;
    if (wait_kind_of(inject->target->process, number, arguments) == WAIT_FRAGILE) return;
    registers_make_again(registers, arguments);
    inject->is_made_again = true;
    registers_put(inject->thread, registers);
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

/* False: the thread had to be let go, with a signal. */
static bool call_is_whole(struct inject *inject)
{
    const long number = registers_waits_in(inject->thread, &inject->state.registers);
    uint64_t done;
    int signal;
    if (number < 0 || !call_was_cut(&inject->state.registers, number, &done) ||
        call_complete(inject, number, done, &signal))
        return true;
    ptrace(PTRACE_DETACH, inject->thread, NULL, (void *)(long)signal);
    return false;
}

/* Stops a thread. True: it is at a safe place, and stays there. */
static bool inject_thread_take(struct inject *inject, const struct safe_places *places,
                               pid_t thread, const struct wait *wait, int *error)
{
    inject->thread = thread;
    inject->stopped_at_ns = now_ns();
    inject->is_made_again = false;
    errno = 0;
    if (!inject_thread_stop(inject, thread)) {
        if (errno == EPERM && ++inject->denials > DENIALS_MAX) *error = EPERM;
        return false;
    }
    inject->denials = 0;
    *error = 0;
    bool good = registers_get(thread, &inject->state.registers);
    if (good && !call_is_whole(inject)) return false;
    if (good) {
        const struct user_regs_struct stopped = inject->state.registers;
        call_make_again(inject, wait);
        good = thread_is_safe(inject, places, &stopped);
    }
    good = good && state_get(inject);
    if (!good) thread_release(inject);
    return good;
}

/* ---- which thread ---- */

/* The best first. */
enum rank { RANK_KEPT, RANK_RUNS, RANK_RESTARTED, RANK_RENEWED, RANK_NONE };

struct candidate {
    pid_t thread;
    enum rank rank;
    struct wait wait;
};

/* What is remembered of a thread from round to round. */
struct seen {
    pid_t thread;
    unsigned looks;                    /* so often */
    bool is_fragile;                   /* it was in a call that must not be stopped */
    uint64_t count, counted_ns;        /* how often it had begun to wait, and when */
    uint64_t stack, code, rejected_ns; /* where it was no good; 0: never */
};

enum { CANDIDATES_MAX = 4096, SEEN_MAX = 4096 };
static struct candidate candidates[CANDIDATES_MAX];
static struct seen seen_threads[SEEN_MAX];

static struct seen *seen_of(pid_t thread)
{
    struct seen *seen = &seen_threads[thread % SEEN_MAX];
    if (seen->thread != thread) *seen = (struct seen){.thread = thread};
    return seen;
}

/* Whether the thread's wait has only just begun: then it hardly matters that its time begins
 * anew. */
static bool is_fresh(const struct inject *inject, pid_t thread, struct seen *seen)
{
    uint64_t count = 0;
    if (!wait_count(inject->target->process, thread, &count)) return false;
    const uint64_t now = now_ns(), before_ns = seen->counted_ns;
    const bool has_begun = before_ns != 0 && count != seen->count;
    seen->count = count;
    seen->counted_ns = now;
    return has_begun && now - before_ns < FRESH_NS;
}

static enum rank rank_of(const struct inject *inject, pid_t thread, const struct wait *wait)
{
    struct seen *seen = seen_of(thread);
    const uint64_t now = now_ns();
    seen->looks++;
    seen->is_fragile = seen->is_fragile || wait->kind == WAIT_FRAGILE;
    /* It may be about to wait in such a call. */
    if (wait->kind == WAIT_NONE)
        return seen->looks <= LOOKS                                     ? RANK_NONE
               : seen->is_fragile && now - inject->began_ns <= RENEW_NS ? RANK_NONE
                                                                        : RANK_RUNS;
    if (seen->rejected_ns != 0 && now - seen->rejected_ns < AGAIN_NS &&
        seen->stack == wait->stack && seen->code == wait->code)
        return RANK_NONE;
    switch (wait->kind) {
    case WAIT_KEPT: return wait->number == SYS_restart_syscall ? RANK_RESTARTED : RANK_KEPT;
    case WAIT_RENEWED:
        return is_fresh(inject, thread, seen) || now - inject->began_ns > RENEW_NS ? RANK_RENEWED
                                                                                   : RANK_NONE;
    default: return RANK_NONE;
    }
}

static bool candidate_take(struct inject *inject, const struct safe_places *places,
                           const struct candidate *candidate, int *error)
{
    if (inject_thread_take(inject, places, candidate->thread, &candidate->wait, error)) return true;
    struct seen *seen = seen_of(candidate->thread);
    seen->stack = candidate->wait.stack;
    seen->code = candidate->wait.code;
    seen->rejected_ns = now_ns();
    return false;
}

/* Looks at each thread once, and takes the best that is at a safe place. False: there is none. */
static bool threads_try(struct inject *inject, const struct safe_places *places, int *error)
{
    char path[64];
    struct dirent *entry;
    size_t count = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)inject->target->process);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        *error = ESRCH;
        return false;
    }
    while (!found && count < CANDIDATES_MAX && (entry = readdir(directory)) != NULL) {
        struct candidate *candidate = &candidates[count];
        candidate->thread = (pid_t)atoi(entry->d_name);
        if (candidate->thread <= 0) continue;
        wait_look(&candidate->wait, inject->target->process, candidate->thread);
        candidate->rank = rank_of(inject, candidate->thread, &candidate->wait);
        if (candidate->rank == RANK_KEPT)
            found = candidate_take(inject, places, candidate, error);
        else if (candidate->rank != RANK_NONE)
            count++;
    }
    closedir(directory);
    for (enum rank rank = RANK_RUNS; !found && rank < RANK_NONE; rank++)
        for (size_t i = 0; !found && i < count; i++)
            found =
                candidates[i].rank == rank && candidate_take(inject, places, &candidates[i], error);
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

/* Lets the thread run until it stops for `signal` at `address`. Other signals are held
 * for later. False: as above. */
static bool run_until(struct inject *inject, int request, int signal, uint64_t address,
                      struct user_regs_struct *registers)
{
    int status;
    for (;;) {
        if (ptrace((enum __ptrace_request)request, inject->thread, NULL, NULL) != 0) break;
        if (!call_await(inject, &status)) return false;
        if (inject_event_of(status) != 0) continue; /* an interrupt, or a group stop */
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

/* Has the thread make a system call. If this process dies meanwhile, the C library's function that
 * contains the instruction returns into the frame.
 *
 * The thread is stopped on entry to the kernel and on exit, not by single steps: if this process
 * died during one, the thread would get SIGTRAP, which ends the program. */
static bool system_call(struct inject *inject, long number, const uint64_t arguments[6],
                        uint64_t *result)
{
    struct user_regs_struct registers = inject->state.registers;
    registers_to_system_call(&registers, inject->instruction, inject->spare_frame, inject->restorer,
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
    const size_t bytes = target_read(inject->target, function, code, sizeof code);
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

/* Writes also where the process itself cannot. */
static bool memory_force(const struct inject *inject, uint64_t address, const void *from,
                         size_t bytes)
{
    return pwrite(inject->memory, from, bytes, (off_t)address) == (ssize_t)bytes;
}

static bool code_write(const struct inject *inject)
{
    size_t bytes;
    const void *errand = errand_code(&bytes);
    return sizeof registers_calling <= ERRAND_OFFSET && bytes <= CODE_BYTES - ERRAND_OFFSET &&
           memory_force(inject, inject->code, registers_calling, sizeof registers_calling) &&
           memory_force(inject, inject->code + ERRAND_OFFSET, errand, bytes);
}

/* ---- memory that nothing uses ---- */

/* Puts a frame there. False: there is no such memory. */
static bool spare_begin(struct inject *inject)
{
    enum { ALIGNMENT = 128 }; /* may be lost by it */
    frame_make(&inject->frame, &inject->state, 0, inject->restorer);
    const size_t bytes = inject->frame.bytes_used + ALIGNMENT;
    const uint64_t spare = target_spare(inject->target, bytes);
    if (spare == 0 || bytes > sizeof inject->spare_kept ||
        target_read(inject->target, spare, inject->spare_kept, bytes) != bytes)
        return false;
    frame_make(&inject->frame, &inject->state, spare + bytes, inject->restorer);
    if (!memory_force(inject, inject->frame.start, inject->frame.bytes, inject->frame.bytes_used))
        return false;
    inject->spare = spare;
    inject->spare_bytes = bytes;
    inject->spare_frame = inject->frame.start;
    return true;
}

/* ---- the errand ---- */

static uint64_t text_place(const struct inject *inject, unsigned number)
{
    return inject->stack + STACK_BYTES - (uint64_t)(number + 1) * PATH_MAX;
}

/* *place: where it is then; 0 for NULL. */
static bool text_put(const struct inject *inject, unsigned number, const char *text,
                     uint64_t *place)
{
    *place = text != NULL ? text_place(inject, number) : 0;
    return text == NULL || memory_write(inject, *place, text, strnlen(text, PATH_MAX - 1) + 1);
}

static bool call_failed(const struct inject *inject, char *why, size_t why_bytes)
{
    return error_explain(why, why_bytes, "%s",
                         inject->is_gone ? "it has ended" : "its memory cannot be written");
}

bool inject_run(struct inject *inject, struct errand *errand, const char *path, const char *name,
                const char *argument, char *why, size_t why_bytes)
{
    struct user_regs_struct registers = inject->state.registers;
    const uint64_t place = (text_place(inject, TEXTS - 1) - sizeof *errand) & -UINT64_C(16);
    const uint64_t result = place - sizeof result;
    if (!text_put(inject, 0, path, &errand->path) || !text_put(inject, 1, name, &errand->name) ||
        !text_put(inject, 2, argument, &errand->argument) ||
        !memory_write(inject, place, errand, sizeof *errand) || !frame_put(inject, result))
        return call_failed(inject, why, why_bytes);
    registers_to_call(&registers, inject->code, inject->frame.start, inject->code + ERRAND_OFFSET,
                      place, 0, result);
    if (!registers_put(inject->thread, &registers)) inject->is_gone = true;
    if (inject->is_gone ||
        !run_until(inject, PTRACE_CONT, SIGURG, inject->code + REGISTERS_CALLED, &registers))
        return call_failed(inject, why, why_bytes);
    return target_read(inject->target, place, errand, sizeof *errand) == sizeof *errand ||
           call_failed(inject, why, why_bytes);
}

bool inject_system_call(struct inject *inject, long number, const char *text,
                        const uint64_t arguments[6], uint64_t *result, char *why, size_t why_bytes)
{
    uint64_t words[6], place;
    memcpy(words, arguments, sizeof words);
    const bool good = text_put(inject, 0, text, &place);
    if (text != NULL) words[0] = place;
    return (good && system_call(inject, number, words, result)) ||
           call_failed(inject, why, why_bytes);
}

/* ---- the whole ---- */

/* One process at a time: two would put frames into the same memory. */
static bool lock_take(struct inject *inject, uint64_t end_ns)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)inject->target->process);
    inject->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (inject->lock >= 0 && flock(inject->lock, LOCK_EX | LOCK_NB) != 0) {
        if (now_ns() >= end_ns) return false;
        rest(ROUND_NS);
    }
    return inject->lock >= 0;
}

static void files_close(struct inject *inject)
{
    if (inject->memory >= 0) close(inject->memory);
    if (inject->lock >= 0) close(inject->lock);
    inject->memory = inject->lock = -1;
}

static bool memory_open(struct inject *inject)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)inject->target->process);
    inject->memory = open(path, O_RDWR | O_CLOEXEC);
    return inject->memory >= 0;
}

/* Stops a thread. False: see `why`. */
static bool thread_find(struct inject *inject, const struct safe_places *places, uint64_t end_ns,
                        char *why, size_t why_bytes)
{
    int error = 0;
    bool found;
    while (!(found = threads_try(inject, places, &error)) && error == 0 && now_ns() < end_ns)
        rest(ROUND_NS);
    if (found) return true;
    inject->is_denied = error == EPERM;
    if (error != 0)
        return error_explain(why, why_bytes, "%s",
                             error == ESRCH ? "it has ended" : strerror(error));
    return error_explain(why, why_bytes,
                         "no thread of it could be stopped without harm for %u s: all are in its "
                         "allocator or its dynamic linker, or in calls that would end early: try "
                         "again",
                         (unsigned)((end_ns - inject->began_ns) / 1000000000));
}

/* What is needed before a thread is stopped. */
static bool inject_prepare(struct inject *inject, struct safe_places *places, uint64_t end_ns,
                           char *why, size_t why_bytes)
{
    if (!safe_places_find(places, inject->target))
        return error_explain(why, why_bytes, "%s",
                             errno == ENOMEM ? strerror(errno)
                                             : "its C library is not glibc, or it has none");
    inject->instruction = system_call_find(inject, places->libc);
    inject->restorer = places->restorer;
    if (inject->instruction == 0 || inject->restorer == 0) {
        safe_places_free(places);
        return error_explain(why, why_bytes, "its memory cannot be read");
    }
    if (lock_take(inject, end_ns)) return true;
    safe_places_free(places);
    return error_explain(why, why_bytes,
                         inject->lock < 0 ? "it has ended" : "somebody else is attaching to it");
}

bool inject_begin(struct inject *inject, struct target *target, uint64_t patience_ns, char *why,
                  size_t why_bytes)
{
    struct safe_places places;
    memset(inject, 0, sizeof *inject);
    inject->target = target;
    inject->memory = inject->lock = -1;
    inject->began_ns = now_ns();
    const uint64_t end_ns = inject->began_ns + patience_ns;
    bool good = inject_prepare(inject, &places, end_ns, why, why_bytes);
    if (good) {
        good = thread_find(inject, &places, end_ns, why, why_bytes);
        safe_places_free(&places);
    }
    if (!good) {
        files_close(inject);
        return false;
    }
    if (memory_open(inject) && spare_begin(inject) &&
        memory_map(inject, STACK_BYTES, PROT_READ | PROT_WRITE, &inject->stack) &&
        memory_map(inject, CODE_BYTES, PROT_READ | PROT_EXEC, &inject->code) && code_write(inject))
        return true;
    inject_end(inject);
    return error_explain(why, why_bytes,
                         inject->is_gone ? "it has ended"
                                         : "no memory for a stack can be mapped in it");
}

void inject_end(struct inject *inject)
{
    struct iovec vectors = {inject->state.vectors, inject->state.vectors_bytes};
    memory_unmap(inject, inject->stack, STACK_BYTES);
    memory_unmap(inject, inject->code, CODE_BYTES);
    if (!inject->is_gone) {
        registers_vectors_put(inject->thread, &vectors, inject->state.vectors_kind);
        signals_set(inject, inject->state.blocked);
        registers_put(inject->thread, &inject->state.registers);
        if (inject->spare != 0)
            memory_force(inject, inject->spare, inject->spare_kept, inject->spare_bytes);
        for (int signal = 1; signal <= 64; signal++)
            if (inject->held >> (signal - 1) & 1)
                syscall(SYS_tgkill, inject->target->process, inject->thread, signal);
        thread_release(inject);
        inject->stopped_ns = now_ns() - inject->stopped_at_ns;
    }
    files_close(inject);
}
