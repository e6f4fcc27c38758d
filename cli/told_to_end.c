#include "cli/told_to_end.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "common/progress.h"

/* Whoever ends the program ends us with it, one after the other. */
#define SAME_WISH_S 1.0

enum { WAIT_NS = 10000000 };

void told_to_end_begin(struct told_to_end *told)
{
    *told = (struct told_to_end){.since_s = seconds_now()};
}

bool told_to_end_wait(struct told_to_end *told)
{
    static const int known[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
    const struct timespec patience = {.tv_nsec = WAIT_NS};
    sigset_t set;
    if (told->signal != 0) return true;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        sigaddset(&set, known[i]);
    const int number = sigtimedwait(&set, NULL, &patience);
    if (number > 0 && number != SIGCHLD && getpid() != 1 &&
        seconds_now() - told->since_s >= SAME_WISH_S)
        told->signal = number;
    return told->signal != 0;
}
