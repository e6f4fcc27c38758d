/* guests - the connections of those who ask: none keeps others out for long.
 *
 *   GUESTS_MANY are there        another one that comes ends the one that has waited longest without
 *                                being answered: who asks is answered at once, who only connects,
 *                                or sends a byte now and then, is not
 *   GUESTS_CROWD                 the next one comes a little later, so that GUESTS_MAX, from where on
 *                                the server refuses them, are hardly ever there
 *   an answer being fetched      may take its time, but when others wait for a turn, the longest ends
 *                                after GUESTS_FETCHING_S
 *
 * Threads   any. */
#ifndef MALLOCTAPE_KEEP_GUESTS_H
#define MALLOCTAPE_KEEP_GUESTS_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    GUESTS_MANY = 24,
    GUESTS_CROWD = 32,
    GUESTS_MAX = 64,
    GUESTS_REST_US = 1000,
    GUESTS_FETCHING_S = 60
};

struct guest {
    int file; /* the socket; meaningless in an entry that is free */
    bool is_there, is_leaving;
    uint64_t came;     /* its number */
    double fetching_s; /* since when it is given something large; 0: it is not */
};

struct guests {
    pthread_mutex_t lock;
    struct guest all[GUESTS_MAX];
    unsigned count;
    uint64_t came;
};

void guests_open(struct guests *guests);

/* For MHD_OPTION_NOTIFY_CONNECTION, and MHD_OPTION_NOTIFY_COMPLETED. */
void guests_come_or_go(void *of, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode what);
void guests_are_answered(void *of, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why);

/* The connection is given something large, from now on until that has been sent. */
void guests_begin_fetching(struct guests *guests, struct MHD_Connection *connection);

/* Somebody waits for others who fetch: ends the longest, if it has had its time. */
void guests_hurry(struct guests *guests);

#endif
