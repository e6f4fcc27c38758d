/* fault - a SIGBUS that a file of ours causes does not end the program.
 *
 * Threads store into the spool's file. If somebody cuts that file, or the file system has no space
 * for a page after all, the kernel sends SIGBUS. From the first recording on the signal's action is
 * ours, and no thread of the program blocks it: the kernel ends a process that has a fault while
 * the signal is blocked. What the program has asked for is kept, and applies to every other SIGBUS.
 *
 * These functions replace those of libc. For any other signal they behave as those do.
 *
 *   sigaction, signal, ...         what the program wants is noted; the kernel is told its flags and
 *                                  its mask, with our function
 *   sigprocmask, pthread_sigmask   whether the thread wants SIGBUS blocked is noted
 *
 * A program that makes these system calls without libc takes the signal from us. A child that
 * shares the memory has an action of its own, which is not noted. */
#include "tracing/recording/fault.h"

#include "tracing/os/next_function.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"

#include <signal.h>
#include <ucontext.h>

#define EXPORT __attribute__((visibility("default")))

static bool (*takes_fault)(uintptr_t address); /* NULL: the signal is not ours yet */
static struct sigaction of_program;
static __thread bool is_blocked __attribute__((tls_model("initial-exec")));

/* ---- the signal ---- */

static bool is_handler(sighandler_t handler)
{
    return handler != SIG_DFL && handler != SIG_IGN;
}

static void on_sigbus(int number, siginfo_t *info, void *context);

static void tell_kernel(void)
{
    struct sigaction action = of_program;
    action.sa_sigaction = on_sigbus;
    if (is_handler(of_program.sa_handler)) {
        action.sa_flags = (action.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
    } else {
        memset(&action.sa_mask, 0, sizeof action.sa_mask);
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    }
    next_functions()->sigaction(SIGBUS, &action, NULL);
}

/* When the handler returns, a fault recurs, and ends the process where it occurred. */
static void end_by_default(siginfo_t *info, bool is_fault)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    next_functions()->sigaction(SIGBUS, &action, NULL);
    if (!is_fault) os_signal_send_again(info, true);
}

static void fault_pass_on(int number, siginfo_t *info, void *context, bool is_fault)
{
    const struct sigaction action = of_program;
    if (action.sa_handler == SIG_IGN && !is_fault) return;
    if (!is_handler(action.sa_handler) || (is_fault && is_blocked))
        return end_by_default(info, is_fault);
    if (action.sa_flags & (int)SA_RESETHAND) {
        of_program.sa_handler = SIG_DFL;
        tell_kernel();
    }
    action.sa_sigaction(number, info, context);
}

/* The thread has asked not to get SIGBUS now, or is one of ours: the kernel is to block it, too. */
static void put_off(siginfo_t *info, ucontext_t *context)
{
    sigaddset(&context->uc_sigmask, SIGBUS);
    os_signal_send_again(info, info->si_code == SI_TKILL && os_is_of_program());
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    /* BUS_MCEERR_AO reports memory that failed elsewhere: no fault of this thread. */
    bool is_fault = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
    if (is_fault && takes_fault((uintptr_t)info->si_addr)) return;
    if (!is_fault && (is_blocked || !os_is_of_program()))
        put_off(info, context);
    else
        fault_pass_on(number, info, context, is_fault);
}

void fault_take(bool (*takes)(uintptr_t address))
{
    struct sigaction now;
    if (next_functions()->sigaction(SIGBUS, NULL, &now) != 0) return;
    takes_fault = takes;
    if (now.sa_sigaction == on_sigbus) return;
    of_program = now;
    tell_kernel();
}

/* Noted before the signal is unblocked: a pending one is delivered at once. */
void fault_reach_thread(void)
{
    const uint64_t sigbus = UINT64_C(1) << (SIGBUS - 1);
    if (takes_fault == NULL || os_is_confined()) return;
    is_blocked = true;
    is_blocked = os_signals_unblock(sigbus) & sigbus;
}

/* ---- the functions ---- */

/* In a child the action is that of its parent until it sets one. */
static bool is_noted(int number)
{
    return number == SIGBUS && takes_fault != NULL && recording_is_own();
}

EXPORT int fault_sigaction(int number, const struct sigaction *action,
                           struct sigaction *before) __asm__("sigaction");

int fault_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    struct sigaction wanted, noted = of_program;
    if (!is_noted(number)) {
        int result = next_functions()->sigaction(number, action, before);
        if (result == 0 && before != NULL && before->sa_sigaction == on_sigbus) *before = noted;
        return result;
    }
    if (action != NULL) {
        wanted = *action;
        of_program = wanted;
        tell_kernel();
    }
    if (before != NULL) *before = noted;
    return 0;
}

static sighandler_t set_handler(int number, sighandler_t handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, before;
    if (!(flags & (int)SA_NODEFER)) sigaddset(&action.sa_mask, number);
    return fault_sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

EXPORT sighandler_t fault_signal(int number, sighandler_t handler) __asm__("signal");
EXPORT sighandler_t fault_sysv_signal(int number, sighandler_t handler) __asm__("sysv_signal");
EXPORT sighandler_t fault_sysv_signal_2(int number, sighandler_t handler) __asm__("__sysv_signal")
    __attribute__((alias("sysv_signal")));

sighandler_t fault_signal(int number, sighandler_t handler)
{
    if (number != SIGBUS || handler == SIG_ERR) return next_functions()->signal(number, handler);
    return set_handler(number, handler, SA_RESTART);
}

sighandler_t fault_sysv_signal(int number, sighandler_t handler)
{
    if (number != SIGBUS || handler == SIG_ERR)
        return next_functions()->sysv_signal(number, handler);
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}

typedef int mask_function(int how, const sigset_t *set, sigset_t *before);

/* What the thread wants is noted before the call, as in fault_reach_thread(). */
static int change_mask(mask_function *function, int how, const sigset_t *set, sigset_t *before)
{
    const bool was = is_blocked;
    sigset_t wanted;
    if (takes_fault == NULL) return function(how, set, before);
    if (set != NULL) {
        wanted = *set;
        const bool named = sigismember(&wanted, SIGBUS);
        if (how == SIG_SETMASK || named) is_blocked = named && how != SIG_UNBLOCK;
        if (how != SIG_UNBLOCK) sigdelset(&wanted, SIGBUS);
    }
    int result = function(how, set != NULL ? &wanted : NULL, before);
    if (result != 0)
        is_blocked = was;
    else if (before != NULL && was)
        sigaddset(before, SIGBUS);
    return result;
}

EXPORT int fault_sigprocmask(int how, const sigset_t *set, sigset_t *before) __asm__("sigprocmask");
EXPORT int fault_pthread_sigmask(int how, const sigset_t *set,
                                 sigset_t *before) __asm__("pthread_sigmask");

int fault_sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    return change_mask(next_functions()->sigprocmask, how, set, before);
}

int fault_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    return change_mask(next_functions()->pthread_sigmask, how, set, before);
}
