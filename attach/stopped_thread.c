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
    const uint64_t end = stopped_thread_now_ns() + patience_ns;
    for (;;) {
        const pid_t got = waitpid(thread, status, __WALL | WNOHANG);
        if (got == thread) return WIFSTOPPED(*status);
        if (got < 0 && errno != EINTR) return false;
        if (stopped_thread_now_ns() >= end) return false;
        stopped_thread_rest(50000);
    }
}

/* The entry of a thread that has been asked to stop and has not yet (0: a free entry); NULL:
 * none. */
static pid_t *late_find(struct stopped_thread *stopped, pid_t thread)
{
    for (unsigned i = 0; i < STOPPED_THREAD_LATE_MAX; i++)
        if (stopped->late[i] == thread) return &stopped->late[i];
    return NULL;
}

/* Stops a thread and leaves it stopped. False: it has not stopped yet, or cannot be traced (errno).
 * When this process ends, it goes on. */
static bool stopped_thread_stop(struct stopped_thread *stopped, pid_t thread)
{
    int status;
    pid_t *late = late_find(stopped, thread);
    if (late == NULL) {
        if ((late = late_find(stopped, 0)) == NULL) return false;
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

bool stopped_thread_await(struct stopped_thread *stopped, int *status)
{
    for (;;) {
        const pid_t got = waitpid(stopped->id, status, __WALL | WNOHANG);
        if (got < 0 && errno != EINTR) break;
        if (got == stopped->id && !WIFSTOPPED(*status)) break;
        if (got == stopped->id) return true;
        stopped_thread_rest(50000);
    }
    stopped->is_gone = true;
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
static bool call_complete(struct stopped_thread *stopped, long number, uint64_t done, int *signal)
{
    struct user_regs_struct registers = stopped->state.registers;
    uint64_t arguments[6];
    unsigned stops = 0;
    int status = 0;
    registers_arguments(&registers, arguments);
    arguments[1] += done;
    arguments[2] -= done;
    registers_to_system_call(&registers, registers_code(&registers) - sizeof registers_system_call,
                             registers_stack(&registers), 0, number, arguments);
    *signal = 0;
    if (!registers_put(stopped->id, &registers)) return false;
    while (stops < 2 && *signal == 0 && ptrace(PTRACE_SYSCALL, stopped->id, NULL, NULL) == 0 &&
           stopped_thread_await(stopped, &status)) {
        if (stopped_thread_event(status) != 0) continue;
        if (WSTOPSIG(status) == SYSCALL_STOP)
            stops++;
        else
            *signal = WSTOPSIG(status);
    }
    int64_t rest = 0;
    if (stops == 2 && registers_get(stopped->id, &registers))
        rest = (int64_t)registers_result(&registers);
    registers_return(&stopped->state.registers, done + (rest > 0 ? (uint64_t)rest : 0));
    registers_put(stopped->id, &stopped->state.registers);
    return *signal == 0;
}

/* While a thread is stopped, or about to be, this process comes before others on a busy machine, if
 * it may: the thread stands still for a shorter time. */
static void come_first(bool is_first)
{
    const struct sched_param priority = {.sched_priority = is_first};
    sched_setscheduler(0, is_first ? SCHED_FIFO : SCHED_OTHER, &priority);
}

void stopped_thread_release(struct stopped_thread *stopped)
{
    if (stopped->is_made_again) registers_put(stopped->id, &stopped->state.registers);
    ptrace(PTRACE_DETACH, stopped->id, NULL, NULL);
    come_first(false);
}

/* Whether the thread is inside a restartable sequence (rseq(2)): the kernel would not abort it if
 * the thread did something else and then went on there. */
static bool is_in_sequence(const struct stopped_thread *stopped, uint64_t code)
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
    if (ptrace((enum __ptrace_request)PTRACE_GET_RSEQ_CONFIGURATION, stopped->id, (void *)sizeof of,
               &of) <= 0 ||
        of.area == 0)
        return false;
    if (target_read(stopped->target, of.area + sizeof(uint64_t), &address, sizeof address) !=
            sizeof address ||
        address == 0)
        return false;
    return target_read(stopped->target, address, &sequence, sizeof sequence) != sizeof sequence ||
           code - sequence.start < sequence.length;
}

/* `registers`: as the thread was stopped. */
static bool thread_is_safe(struct stopped_thread *stopped, const struct safe_places *places,
                           const struct user_regs_struct *registers)
{
    static uint64_t stack[STACK_WORDS];
    size_t bytes = 0, more;
    if (is_in_sequence(stopped, registers_code(registers))) return false;
    /* The stack may end before: read it in pieces. */
    do {
        more =
            target_read(stopped->target, registers_stack(registers) + bytes, (char *)stack + bytes,
                        sizeof stack - bytes < 4096 ? sizeof stack - bytes : 4096);
        bytes += more;
    } while (more == 4096 && bytes < sizeof stack);
    return safe_place_is(places, stopped->id, registers, stack, bytes / sizeof *stack);
}

/* The stop has ended the system call that the thread was in: it is made again. The thread has that in
 * its registers at once: if this process died first, the call would return EINTR. */
static void call_make_again(struct stopped_thread *stopped, const struct wait *wait)
{
    struct user_regs_struct *registers = &stopped->state.registers;
    const long number = registers_waits_in(stopped->id, registers);
    uint64_t arguments[6];
    stopped->is_made_again = false;
    if (number < 0 || !registers_was_interrupted(registers)) return;
    if (number == wait->number)
        memcpy(arguments, wait->arguments, sizeof arguments);
    else if (REGISTERS_KEEP_ARGUMENTS)
        registers_arguments(registers, arguments);
    else
        return;
    if (wait_kind_of(stopped->target->process, number, arguments) == WAIT_FRAGILE) return;
    registers_make_again(registers, arguments);
    stopped->is_made_again = true;
    registers_put(stopped->id, registers);
}

static bool state_get(struct stopped_thread *stopped)
{
    struct iovec all = {stopped->state.vectors, sizeof stopped->state.vectors};
    if (ptrace(PTRACE_GETSIGMASK, stopped->id, (void *)sizeof stopped->state.blocked,
               &stopped->state.blocked) != 0 ||
        !registers_vectors_get(stopped->id, &all, &stopped->state.vectors_kind))
        return false;
    stopped->state.vectors_bytes = all.iov_len;
    return true;
}

/* False: the thread had to be let go, with a signal. */
static bool call_is_whole(struct stopped_thread *stopped)
{
    const long number = registers_waits_in(stopped->id, &stopped->state.registers);
    uint64_t done;
    int signal;
    if (number < 0 || !call_was_cut(&stopped->state.registers, number, &done) ||
        call_complete(stopped, number, done, &signal))
        return true;
    ptrace(PTRACE_DETACH, stopped->id, NULL, (void *)(long)signal);
    return false;
}

static bool thread_take(struct stopped_thread *stopped, const struct safe_places *places,
                        pid_t thread, const struct wait *wait, int *error)
{
    stopped->id = thread;
    stopped->since_ns = stopped_thread_now_ns();
    stopped->is_made_again = false;
    errno = 0;
    if (!stopped_thread_stop(stopped, thread)) {
        if (errno == EPERM && stopped->denials++ == 0) stopped->denied_since_ns = stopped->since_ns;
        if (errno == EPERM && stopped->denials > DENIALS_MAX &&
            stopped->since_ns - stopped->denied_since_ns > DENIED_NS)
            *error = EPERM;
        return false;
    }
    stopped->denials = 0;
    *error = 0;
    bool good = registers_get(thread, &stopped->state.registers);
    if (good && !call_is_whole(stopped)) return false;
    if (good) {
        const struct user_regs_struct registers = stopped->state.registers;
        call_make_again(stopped, wait);
        good = thread_is_safe(stopped, places, &registers);
    }
    good = good && state_get(stopped);
    if (!good) stopped_thread_release(stopped);
    return good;
}

bool stopped_thread_take(struct stopped_thread *stopped, const struct safe_places *places,
                         pid_t thread, const struct wait *wait, int *error)
{
    come_first(true);
    const bool is_taken = thread_take(stopped, places, thread, wait, error);
    if (!is_taken) come_first(false);
    return is_taken;
}
