/* sessions - threads that serve sessions, as a server does.
 *
 *   sessions THREADS REQUESTS
 *
 * Each of THREADS threads makes REQUESTS requests. A request takes one of the 4000 sessions of its
 * thread at random and allocates a scratch buffer of up to 16 KiB; one in four ends the session and
 * begins another one, with a state of up to 2 KiB and a list of up to 16 items; the others make the
 * state larger by realloc, up to 8 KiB. Halfway through, every second session ends and items become
 * larger. One request in 16 leaves an item in the post box of the next thread, which frees it.
 *
 * All objects are written to. What is allocated depends only on the arguments; how the threads
 * interleave does not. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 4000, ITEMS_MAX = 16, BOXES = 64, THREADS_MAX = 64 };

struct session {
    char *state;
    size_t state_bytes;
    unsigned items_count;
    char *items[ITEMS_MAX];
};

struct server {
    pthread_t thread;
    unsigned number;
    uint64_t random_state;
    struct session *sessions;
};

static struct server servers[THREADS_MAX];
static char *boxes[THREADS_MAX][BOXES];
static unsigned sessions_threads;
static uint64_t requests;

static void sessions_fail(const char *what)
{
    fprintf(stderr, "sessions: %s\n", what);
    _Exit(1);
}

static uint32_t draw(struct server *server, uint32_t below)
{
    server->random_state = server->random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((server->random_state >> 33) % below);
}

static char *make(size_t bytes)
{
    char *object = malloc(bytes);
    if (object == NULL) sessions_fail("out of memory");
    memset(object, 1, bytes);
    return object;
}

static void sessions_end(struct session *session)
{
    for (unsigned i = 0; i < session->items_count; i++)
        free(session->items[i]);
    free(session->state);
    *session = (struct session){0};
}

static void sessions_begin(struct server *server, struct session *session, uint32_t item_bytes)
{
    session->state_bytes = 64 + draw(server, 2000);
    session->state = make(session->state_bytes);
    session->items_count = draw(server, ITEMS_MAX + 1);
    for (unsigned i = 0; i < session->items_count; i++)
        session->items[i] = make(16 + draw(server, item_bytes));
}

static void sessions_grow(struct server *server, struct session *session)
{
    size_t bytes = session->state_bytes + draw(server, 500);
    if (session->state == NULL || bytes > 8192) return;
    session->state = realloc(session->state, bytes);
    if (session->state == NULL) sessions_fail("out of memory");
    memset(session->state + session->state_bytes, 1, bytes - session->state_bytes);
    session->state_bytes = bytes;
}

static void post(struct server *server, unsigned to)
{
    char *item = make(16 + draw(server, 1000));
    free(__atomic_exchange_n(&boxes[to][draw(server, BOXES)], item, __ATOMIC_ACQ_REL));
}

static void *serve(void *argument)
{
    struct server *server = argument;
    uint32_t item_bytes = 200;
    server->sessions = calloc(SESSIONS, sizeof *server->sessions);
    if (server->sessions == NULL) sessions_fail("out of memory");
    for (uint64_t i = 0; i < requests; i++) {
        struct session *session = &server->sessions[draw(server, SESSIONS)];
        char *scratch = make(1 + draw(server, 16384));
        if (draw(server, 4) == 0) {
            sessions_end(session);
            sessions_begin(server, session, item_bytes);
        } else {
            sessions_grow(server, session);
        }
        if (draw(server, 16) == 0) post(server, (server->number + 1) % sessions_threads);
        free(scratch);
        if (i != requests / 2) continue;
        item_bytes = 600;
        for (unsigned s = 0; s < SESSIONS; s += 2)
            sessions_end(&server->sessions[s]);
    }
    return NULL;
}

int main(int count, char **words)
{
    if (count != 3 || (sessions_threads = (unsigned)atoi(words[1])) < 1 ||
        sessions_threads > THREADS_MAX) {
        fputs("usage: sessions THREADS REQUESTS (1 to 64 threads)\n", stderr);
        return 2;
    }
    requests = strtoull(words[2], NULL, 10);
    for (unsigned i = 0; i < sessions_threads; i++) {
        servers[i].number = i;
        servers[i].random_state = i + 1;
        if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]) != 0)
            sessions_fail("cannot set up");
    }
    for (unsigned i = 0; i < sessions_threads; i++)
        pthread_join(servers[i].thread, NULL);
    return 0;
}
