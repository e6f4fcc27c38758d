/* judge - whether a trace shows what somebody wants to show: for --minimize; small*.c only.
 *
 *   a command with %s      its exit status is 0
 *   rss A B F              peak RSS under allocator A is more than F times that under B, both less
 *                          what the allocator takes before the first call, and 256 KiB, or 4 MiB if
 *                          the whole trace shows as much: a small part shows other things by less;
 *                          without huge pages if the whole shows it so, else by 2 MiB
 *   time A B F             the same of the time
 *   crash A                a replay under A crashes, is refused by --check, or hangs
 *
 * An allocator may have a setting: jemalloc:MALLOC_CONF=narenas:1.
 *
 * Candidates are judged by processes of their own, as many at a time as there are processors. */
#ifndef MALLOCTAPE_CUT_JUDGE_H
#define MALLOCTAPE_CUT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/allocators.h"
#include "launch/installed.h"
#include "launch/process.h"

#define JUDGE_RSS_LEAST 262144.0
#define JUDGE_RSS_MOST  4194304.0
#define JUDGE_RSS_HUGE  2097152.0 /* with huge pages: more than one of them */

enum judge_of { JUDGE_COMMAND, JUDGE_RSS, JUDGE_TIME, JUDGE_CRASH };

struct judge_allocator {
    struct allocator_found found;
    char variable[128], value[1024]; /* the setting; empty: none */
};

struct judge {
    enum judge_of of;
    const char *command;
    struct judge_allocator allocators[2];
    double factor;
    double least_bytes; /* of RSS: more than FACTOR times by so much; less is no difference */
    bool huge_pages;    /* of RSS: as the system has them, else none */
    double limit_s;     /* of one replay, or of the command */
    struct installed replay;
};

/* What the text says. False: `why`. */
bool judge_parse(struct judge *judge, const char *text, char *why, size_t why_bytes);

/* In a process of its own: judges the file, and ends with status 0 (it shows it) or 1. */
_Noreturn void judge_run(const struct judge *judge, const char *path);

#endif
