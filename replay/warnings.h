/* warnings - what spoils numbers of a report, in words.
 *
 * REPORT.md has the keys. Uses the environment, for settings of allocators. */
#ifndef MALLOCTAPE_REPLAY_WARNINGS_H
#define MALLOCTAPE_REPLAY_WARNINGS_H

#include "replay/report.h"

struct warning {
    const char *key;
    char text[240];
};

#define WARNINGS_MAX 24u

/* Returns how many there are. */
unsigned warnings_find(const struct report *report, struct warning warnings[WARNINGS_MAX]);

#endif
