#include "keep/guests.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/progress.h"

void guests_open(struct guests *guests)
{
    *guests = (struct guests){.count = 0};
    pthread_mutex_init(&guests->lock, NULL);
}

/* Its thread sees that nothing more comes, and closes it. */
static void guest_send_away(struct guest *guest)
{
    guest->is_leaving = true;
    shutdown(guest->file, SHUT_RDWR);
}

/* The one that came first, of those who fetch or of the others. NULL: there is none. */
static struct guest *guests_first(struct guests *guests, bool is_fetching)
{
    struct guest *first = NULL;
    for (unsigned i = 0; i < GUESTS_MAX; i++) {
        struct guest *one = &guests->all[i];
        if (one->is_there && !one->is_leaving && (one->fetching_s > 0) == is_fetching &&
            (first == NULL || one->came < first->came))
            first = one;
    }
    return first;
}

static void guests_let_in(struct guests *guests, int file, void **context)
{
    unsigned i = 0;
    while (i < GUESTS_MAX && guests->all[i].is_there)
        i++;
    if (i == GUESTS_MAX) return; /* the server has taken one too many: it looks after that one */
    struct guest *waits = guests->count >= GUESTS_MANY ? guests_first(guests, false) : NULL;
    if (waits != NULL) guest_send_away(waits);
    guests->all[i] = (struct guest){.file = file, .is_there = true, .came = ++guests->came};
    guests->count++;
    *context = &guests->all[i];
}

void guests_come_or_go(void *of, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode what)
{
    struct guests *guests = of;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    pthread_mutex_lock(&guests->lock);
    const bool is_crowd = what == MHD_CONNECTION_NOTIFY_STARTED && guests->count >= GUESTS_CROWD;
    if (what == MHD_CONNECTION_NOTIFY_STARTED && info != NULL) {
        guests_let_in(guests, info->connect_fd, context);
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED && *context != NULL) {
        *(struct guest *)*context = (struct guest){.is_there = false};
        guests->count--;
        *context = NULL;
    }
    pthread_mutex_unlock(&guests->lock);
    if (is_crowd) usleep(GUESTS_REST_US); /* those sent away take that long to leave */
}

static void guests_set_fetching(struct guests *guests, struct MHD_Connection *connection,
                                double since_s)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct guest *guest = info != NULL ? info->socket_context : NULL;
    if (guest == NULL) return;
    pthread_mutex_lock(&guests->lock);
    guest->fetching_s = since_s;
    pthread_mutex_unlock(&guests->lock);
}

void guests_are_answered(void *of, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)state, (void)why;
    guests_set_fetching(of, connection, 0);
}

void guests_begin_fetching(struct guests *guests, struct MHD_Connection *connection)
{
    guests_set_fetching(guests, connection, seconds_now());
}

void guests_hurry(struct guests *guests)
{
    pthread_mutex_lock(&guests->lock);
    struct guest *first = guests_first(guests, true);
    if (first != NULL && seconds_now() - first->fetching_s >= GUESTS_FETCHING_S)
        guest_send_away(first);
    pthread_mutex_unlock(&guests->lock);
}
