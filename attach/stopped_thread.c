#include "attach/stopped_thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "attach/registers.h"

/* How much of a thread's own stack is looked at. */
enum { STACK_WORDS = 16384 };
/* How long to wait for a thread to stop. One that sleeps uninterruptibly in the kernel stops only
 * when it wakes (in vfork(2), when its child has executed another program): then another is
 * tried. */
#define STOP_NS UINT64_C(20000000)
/* The system also says EPERM of a thread that is just ending. */
enum { DENIALS_MAX = 50 };
/* And they must have come for so long: on a busy machine an end takes its time. */
#define DENIED_NS UINT64_C(1000000000)

/* Since Linux 5.13; older headers do not have it. */
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* Waits for the thread's next stop, up to `patience_ns`. False: none, or it has ended. */
static bool stop_await(pid_t thread, uint64_t patience_ns, int *status)
{
    const uint64_t end = inject_now_ns() + patience_ns;
    for (;;) {
        const pid_t got = waitpid(thread, status, __WALL | WNOHANG);
        if (got == thread) return WIFSTOPPED(*status);
        if (got < 0 && errno != EINTR) return false;
        if (inject_now_ns() >= end) return false;
        inject_rest(50000);
    }
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
static bool stopped_thread_stop(struct inject *inject, pid_t thread)
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
    while (stops && stopped_thread_event(status) != PTRACE_EVENT_STOP) {
        ptrace(PTRACE_CONT, thread, NULL, (void *)(long)WSTOPSIG(status));
        stops = stop_await(thread, STOP_NS, &status);
    }
    if (stops) *late = 0;
    errno = 0;
    return stops;
}

bool stopped_thread_await(struct inject *inject, int *status)
{
    for (;;) {
        const pid_t got = waitpid(inject->thread, status, __WALL | WNOHANG);
        if (got < 0 && errno != EINTR) break;
        if (got == inject->thread && !WIFSTOPPED(*status)) break;
        if (got == inject->thread) return true;
        inject_rest(50000);
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
           stopped_thread_await(inject, &status)) {
        if (stopped_thread_event(status) != 0) continue;
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

/* While a thread is stopped, or about to be, this process comes before others on a busy machine, if
 * it may: the thread stands still for a shorter time. */
static void come_first(bool is_first)
{
    const struct sched_param priority = {.sched_priority = is_first};
    sched_setscheduler(0, is_first ? SCHED_FIFO : SCHED_OTHER, &priority);
}

void stopped_thread_release(struct inject *inject)
{
    if (inject->is_made_again) registers_put(inject->thread, &inject->state.registers);
    ptrace(PTRACE_DETACH, inject->thread, NULL, NULL);
    come_first(false);
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

static bool thread_take(struct inject *inject, const struct safe_places *places, pid_t thread,
                        const struct wait *wait, int *error)
{
    inject->thread = thread;
    inject->stopped_at_ns = inject_now_ns();
    inject->is_made_again = false;
    errno = 0;
    if (!stopped_thread_stop(inject, thread)) {
        if (errno == EPERM && inject->denials++ == 0)
            inject->denied_since_ns = inject->stopped_at_ns;
        if (errno == EPERM && inject->denials > DENIALS_MAX &&
            inject->stopped_at_ns - inject->denied_since_ns > DENIED_NS)
            *error = EPERM;
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
    if (!good) stopped_thread_release(inject);
    return good;
}

bool stopped_thread_take(struct inject *inject, const struct safe_places *places, pid_t thread,
                         const struct wait *wait, int *error)
{
    come_first(true);
    const bool is_taken = thread_take(inject, places, thread, wait, error);
    if (!is_taken) come_first(false);
    return is_taken;
}
