/* count_signals LOG [stop] - writes each signal that it gets to LOG, a line each, after "ready
 * PROCESS". SIGUSR2 ends it. With `stop`, SIGTSTP stops it as usual. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    FILE *log = count > 1 ? fopen(words[1], "w") : NULL;
    sigset_t all;
    int number;
    if (log == NULL) return 2;
    free(malloc(100));
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    if (count > 2) sigdelset(&all, SIGTSTP);
    sigprocmask(SIG_SETMASK, &all, NULL);
    fprintf(log, "ready %d\n", getpid());
    fflush(log);
    while ((number = sigwaitinfo(&all, NULL)) != SIGUSR2) {
        if (number < 0) continue;
        fprintf(log, "%s\n", sigabbrev_np(number));
        fflush(log);
    }
    return 0;
}
