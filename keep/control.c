#include "keep/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "keep/keep_socket.h"

/* Whoever connects and says nothing does not keep others waiting for long. */
enum { CONTROL_PATIENCE_S = 5, CONTROL_QUEUE = 16, CONTROL_REST_US = 100000, CONTROL_TRIES = 20 };

struct control {
    struct keeper *keeper;
    int socket;
};

static bool control_is_allowed(int file)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static bool control_read_line(int file, char *line, size_t bytes)
{
    size_t used = 0;
    while (used < bytes - 1) {
        const ssize_t some = read(file, line + used, bytes - 1 - used);
        if (some <= 0) return false;
        used += (size_t)some;
        line[used] = '\0';
        if (line[used - 1] != '\n') continue;
        line[used - 1] = '\0';
        return true;
    }
    return false;
}

static void control_keep(struct keeper *keeper, const char *path, char *answer, size_t bytes)
{
    struct instruction_totals totals;
    struct error error = {0};
    char why[512];
    if (keeper_write(keeper, path, &totals, &error))
        snprintf(answer, bytes, "ok: %" PRIu64 " events, %" PRIu64 " objects alive\n", totals.calls,
                 totals.live);
    else
        snprintf(answer, bytes, "error: %s\n", error_text(&error, why, sizeof why));
}

static void control_recent(struct keeper *keeper, const char *path, char *answer, size_t bytes)
{
    struct error error = {0};
    char why[512];
    if (keeper_write_recent(keeper, path, &error))
        snprintf(answer, bytes, "ok: written\n");
    else
        snprintf(answer, bytes, "error: %s\n", error_text(&error, why, sizeof why));
}

static void control_answer(const struct control *control, int file)
{
    static const char keep[] = "keep ", recent[] = "recent ";
    const struct timeval patience = {.tv_sec = CONTROL_PATIENCE_S};
    char line[PATH_MAX + sizeof recent], answer[600] = "error: unknown request\n";
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!control_is_allowed(file) || !control_read_line(file, line, sizeof line)) return;
    if (strncmp(line, recent, strlen(recent)) == 0 && line[strlen(recent)] == '/')
        control_recent(control->keeper, line + strlen(recent), answer, sizeof answer);
    if (strncmp(line, keep, strlen(keep)) == 0 && line[strlen(keep)] == '/')
        control_keep(control->keeper, line + strlen(keep), answer, sizeof answer);
    send(file, answer, strlen(answer), MSG_NOSIGNAL);
}

static void *control_run(void *of)
{
    const struct control *control = of;
    for (;;) {
        const int file = accept4(control->socket, NULL, NULL, SOCK_CLOEXEC);
        if (file < 0) {
            usleep(CONTROL_REST_US); /* there are too many files */
            continue;
        }
        control_answer(control, file);
        close(file);
    }
    return NULL;
}

/* The keeper of what the same process did before an exec may be about to end. */
static bool control_bind(int file, pid_t process)
{
    struct sockaddr_un address;
    const socklen_t bytes = keep_socket_address(&address, process);
    for (unsigned i = 0; i < CONTROL_TRIES; i++) {
        if (bind(file, (struct sockaddr *)&address, bytes) == 0) return true;
        if (errno != EADDRINUSE) return false;
        usleep(CONTROL_REST_US);
    }
    return false;
}

bool control_begin(struct keeper *keeper, struct error *error)
{
    static struct control control;
    pthread_t thread;
    control.keeper = keeper;
    control.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (control.socket < 0 || !control_bind(control.socket, keeper->process) ||
        listen(control.socket, CONTROL_QUEUE) != 0)
        return error_set_system(error, "`malloctape ctl %d keep` will not work",
                                (int)keeper->process);
    if (pthread_create(&thread, NULL, control_run, &control) == 0)
        return pthread_detach(thread) == 0;
    return error_set_system(error, "cannot make a thread");
}
