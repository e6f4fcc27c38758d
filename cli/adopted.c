#include "cli/adopted.h"

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static bool adopted_is_ours(const pid_t *ours, size_t count, pid_t process)
{
    for (size_t i = 0; i < count; i++)
        if (ours[i] == process) return true;
    return false;
}

void adopted_take(const pid_t *ours, size_t count)
{
    siginfo_t ended = {0};
    if (getpid() != 1) return;
    while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) {
        /* Those behind it are taken once somebody has waited for it. */
        if (adopted_is_ours(ours, count, ended.si_pid)) return;
        waitpid(ended.si_pid, NULL, WNOHANG);
        ended.si_pid = 0;
    }
}
