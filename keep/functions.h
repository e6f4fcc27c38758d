/* functions - which functions have what is alive, and of which it grows, for who monitors (metrics.h).
 *
 * They are looked at when somebody asks, but seldom enough that looking takes a twentieth of the time
 * of one processor at most; in between, the latest look is the answer.
 *
 * Threads   any. */
#ifndef MALLOCTAPE_KEEP_FUNCTIONS_H
#define MALLOCTAPE_KEEP_FUNCTIONS_H

#include <stdio.h>

#include "keep/function_table.h"
#include "keep/keeper.h"

enum { FUNCTIONS_SHOWN = 10, FUNCTIONS_EVERY_S = 10, FUNCTIONS_REST = 20 };

struct functions {
    pthread_mutex_t lock, looking;
    struct function_table now, first; /* `first`: what growth is compared with */
    double first_s, looked_s, took_s; /* when; 0: not yet */
};

void functions_open(struct functions *functions);
void functions_close(struct functions *functions);

/* Looks, if it is time to. */
void functions_look(struct functions *functions, struct keeper *keeper);

/* Puts the FUNCTIONS_SHOWN that have grown most since the first look, as OpenMetrics. */
void functions_put(struct functions *functions, FILE *to);

#endif
