#include "cli/witness.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long to wait for its answer. It answers at once, unless somebody has stopped it alone. */
enum { ANSWER_SECONDS = 10 };

struct question {
    int signal;
    pid_t sender;
};

static bool stops(int signal)
{
    return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* ---- in the witness, where all signals are blocked and stay pending until they are asked for
 * ---- */

/* Whether the signal may have been dropped: a stop signal discards a pending SIGCONT, and SIGCONT
 * pending stop signals. */
static bool is_overtaken(int signal, const sigset_t *pending)
{
    if (stops(signal)) return sigismember(pending, SIGCONT) == 1;
    return signal == SIGCONT &&
           (sigismember(pending, SIGTSTP) == 1 || sigismember(pending, SIGTTIN) == 1 ||
            sigismember(pending, SIGTTOU) == 1);
}

static bool has(const struct question *question)
{
    const struct timespec no_time = {0};
    sigset_t pending, one;
    siginfo_t signal;
    sigpending(&pending);
    if (sigismember(&pending, question->signal) != 1)
        return is_overtaken(question->signal, &pending);
    sigemptyset(&one);
    sigaddset(&one, question->signal);
    return sigtimedwait(&one, &signal, &no_time) > 0 && signal.si_pid == question->sender;
}

/* Renames this process, so that searching for malloctape by name finds only one. */
static void hide(void)
{
    prctl(PR_SET_NAME, "signal-witness");
    memset(program_invocation_name, ' ', strlen(program_invocation_name));
}

static void answer(int channel)
{
    struct question question;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    dup2(channel, 0);
    close_range(1, ~0u, 0);
    hide();
    while (recv(0, &question, sizeof question, 0) == sizeof question) {
        const bool saw = has(&question);
        send(0, &saw, sizeof saw, MSG_NOSIGNAL);
    }
    _exit(0);
}

/* ---- in ours ---- */

void witness_begin(struct witness *witness)
{
    const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    int ends[2];
    *witness = (struct witness){.channel = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    witness->process = fork();
    if (witness->process == 0) answer(ends[1]);
    close(ends[1]);
    witness->channel = ends[0];
    setsockopt(witness->channel, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

bool witness_saw(struct witness *witness, const siginfo_t *signal)
{
    const struct question question = {signal->si_signo, signal->si_pid};
    bool saw;
    if (witness->channel >= 0 &&
        send(witness->channel, &question, sizeof question, MSG_NOSIGNAL) == sizeof question &&
        recv(witness->channel, &saw, sizeof saw, 0) == sizeof saw)
        return saw;
    if (witness->channel >= 0) close(witness->channel);
    witness->channel = -1;
    /* A guess: the kernel's signals come from the terminal, which sends to the group. */
    return signal->si_code > 0;
}

void witness_end(struct witness *witness)
{
    if (witness->channel >= 0) close(witness->channel);
    witness->channel = -1;
    if (witness->process > 0) kill(witness->process, SIGKILL);
    if (witness->process > 0) waitpid(witness->process, NULL, 0);
}
