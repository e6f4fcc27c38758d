#include "keep/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/program.h"
#include "keep/functions.h"
#include "keep/guests.h"
#include "keep/listen_address.h"
#include "keep/metrics.h"
#include "keep/token.h"
#include "launch/installed.h"
#include "launch/process.h"

enum {
    LISTEN_MEMORY = 32 * 1024,
    LISTEN_STACK = 256 * 1024,
    LISTEN_PATIENCE_S = 15,
    LISTEN_SENDING = 4
};

struct listen {
    struct keeper *keeper;
    struct MHD_Daemon *daemon;
    bool is_path;
    char token[TOKEN_BYTES]; /* empty: none is asked for */
    pthread_mutex_t busy;    /* an answer needs a trace */
    struct guests guests;
    struct functions functions;
    unsigned answers;
    atomic_uint sending; /* files, each of which takes disk until it has been sent */
};

/* ---- answers ---- */

typedef struct MHD_Response *listen_make(struct listen *listener, const char **type,
                                         unsigned *status);

static struct MHD_Response *listen_text(const char *text)
{
    return MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
}

static struct MHD_Response *listen_problem(const struct error *error, unsigned *status)
{
    char text[512];
    *status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    error_text(error, text, sizeof text - 1);
    strcat(text, "\n");
    return listen_text(text);
}

static struct MHD_Response *listen_metrics(struct listen *listener, const char **type,
                                           unsigned *status)
{
    struct keeper *keeper = listener->keeper;
    size_t bytes;
    if (keeper->segments.header.features & INSTRUCTION_FEATURE_STACKS)
        functions_look(&listener->functions, keeper);
    char *text = metrics_text(keeper, &listener->functions, &bytes);
    (void)status;
    *type = METRICS_TYPE;
    if (text == NULL) return NULL;
    return MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
}

/* A file without a name that is being sent. */
struct listen_sent {
    struct listen *listener;
    int file;
};

static ssize_t listen_sent_read(void *of, uint64_t at, char *to, size_t bytes)
{
    const struct listen_sent *sent = of;
    const ssize_t some = pread(sent->file, to, bytes, (off_t)at);
    return some > 0 ? some : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void listen_sent_end(void *of)
{
    struct listen_sent *sent = of;
    close(sent->file);
    atomic_fetch_sub(&sent->listener->sending, 1);
    free(sent);
}

/* The file's content; its name goes. */
static struct MHD_Response *listen_file(struct listen *listener, const char *path)
{
    struct listen_sent *sent = malloc(sizeof *sent);
    struct stat status;
    if (sent == NULL) return NULL;
    *sent = (struct listen_sent){listener, open(path, O_RDONLY | O_CLOEXEC)};
    unlink(path);
    atomic_fetch_add(&listener->sending, 1);
    struct MHD_Response *response =
        sent->file >= 0 && fstat(sent->file, &status) == 0
            ? MHD_create_response_from_callback((uint64_t)status.st_size, LISTEN_MEMORY / 2,
                                                listen_sent_read, sent, listen_sent_end)
            : NULL;
    if (response == NULL) listen_sent_end(sent);
    return response;
}

/* A trace in a file of its own, and where something may be made of it. */
struct listen_work {
    char trace[PATH_MAX], made[PATH_MAX];
    struct error error;
};

static void listen_work_begin(struct listen *listener, struct listen_work *work)
{
    const char *directory = listener->keeper->options->directory;
    *work = (struct listen_work){.error = {0}};
    const unsigned number = listener->answers++;
    snprintf(work->trace, sizeof work->trace, "%s/" KEEPER_ANSWER "%u.lz4", directory, number);
    snprintf(work->made, sizeof work->made, "%s/" KEEPER_ANSWER "%u.made", directory, number);
}

/* Runs a program to its end. False: it has failed, and says why on the standard error. */
static bool listen_run(const char *name, const char *const *words, struct listen_work *work)
{
    struct installed program;
    pid_t process;
    int status;
    if (!installed_find_program(&program, name))
        return error_set(&work->error, &error_system, ERROR_NO_OFFSET, "%s not found", name);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct child child = {.path = program.path,
                                .words = (char *const *)words,
                                .input = -1,
                                .output = nowhere,
                                .error = -1};
    const int failed = child_start(&child, &process);
    if (nowhere >= 0) close(nowhere);
    errno = failed;
    if (failed != 0) return error_set_system(&work->error, "cannot start %s", name);
    /* A trace that is cut is to be expected: it goes on. */
    if (waitpid(process, &status, 0) == process && WIFEXITED(status) &&
        (WEXITSTATUS(status) == PROGRAM_OK || WEXITSTATUS(status) == PROGRAM_CUT))
        return true;
    return error_set(&work->error, &error_system, ERROR_NO_OFFSET,
                     "%s %s failed; are there call stacks? (record --stacks)", words[0], words[1]);
}

static struct MHD_Response *listen_work_end(struct listen *listener, struct listen_work *work,
                                            bool good, const char *path, unsigned *status)
{
    struct MHD_Response *response =
        good ? listen_file(listener, path) : listen_problem(&work->error, status);
    unlink(work->trace);
    unlink(work->made);
    return response;
}

static bool listen_write_trace(struct listen *listener, struct listen_work *work)
{
    struct instruction_totals totals;
    listen_work_begin(listener, work);
    return keeper_write(listener->keeper, work->trace, &totals, &work->error);
}

static struct MHD_Response *listen_trace(struct listen *listener, const char **type,
                                         unsigned *status)
{
    struct listen_work work;
    *type = "application/x-lz4";
    const bool good = listen_write_trace(listener, &work);
    return listen_work_end(listener, &work, good, work.trace, status);
}

static struct MHD_Response *listen_page(struct listen *listener, const char **type,
                                        unsigned *status)
{
    struct listen_work work;
    bool good = listen_write_trace(listener, &work);
    const char *const words[] = {"malloctape", "report",   "--html", work.made,
                                 "--",         work.trace, NULL};
    good = good && listen_run("malloctape", words, &work);
    if (good) *type = "text/html; charset=utf-8";
    return listen_work_end(listener, &work, good, work.made, status);
}

static struct MHD_Response *listen_profile(struct listen *listener, const char **type,
                                           unsigned *status, bool is_live)
{
    struct listen_work work;
    listen_work_begin(listener, &work);
    struct instruction_totals totals;
    bool good = is_live ? keeper_write_live(listener->keeper, work.trace, &work.error)
                        : keeper_write(listener->keeper, work.trace, &totals, &work.error);
    const char *const words[] = {"malloctape",
                                 "export",
                                 "--quiet",
                                 "--to",
                                 "pprof",
                                 "--measure",
                                 is_live ? "end" : "bytes",
                                 "-o",
                                 work.made,
                                 "--",
                                 work.trace,
                                 NULL};
    good = good && listen_run("malloctape", words, &work);
    if (good) *type = "application/octet-stream";
    return listen_work_end(listener, &work, good, work.made, status);
}

static struct MHD_Response *listen_heap(struct listen *listener, const char **type,
                                        unsigned *status)
{
    return listen_profile(listener, type, status, true);
}

static struct MHD_Response *listen_allocs(struct listen *listener, const char **type,
                                          unsigned *status)
{
    return listen_profile(listener, type, status, false);
}

static const struct {
    const char *path;
    listen_make *make;
    bool needs_trace;
} listen_pages[] = {{"/", listen_page, true},
                    {"/metrics", listen_metrics, false},
                    {"/trace", listen_trace, true},
                    {"/debug/pprof/heap", listen_heap, true},
                    {"/debug/pprof/allocs", listen_allocs, true}};
enum { LISTEN_PAGES = sizeof listen_pages / sizeof *listen_pages };

/* ---- who may ask ---- */

/* A page of another site could have its name lead here, and read the answer: this server's name is
 * none of a site. */
static bool host_is_local(const char *host)
{
    static const char *const names[] = {"localhost", "[::1]"};
    static const char digits[] = "0123456789";
    size_t bytes = strncmp(host, "127.", 4) == 0 ? strspn(host, "0123456789.") : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && bytes == 0; i++)
        if (strncasecmp(host, names[i], strlen(names[i])) == 0) bytes = strlen(names[i]);
    if (bytes == 0) return false;
    return host[bytes] == '\0' ||
           (host[bytes] == ':' && host[bytes + 1 + strspn(host + bytes + 1, digits)] == '\0');
}

static unsigned listen_refuses(const struct listen *listener, struct MHD_Connection *connection,
                               const char *method)
{
    static const char bearer[] = "Bearer ";
    const char *given =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (*listener->token != '\0' && (given == NULL || strncmp(given, bearer, strlen(bearer)) != 0 ||
                                     !token_is(given + strlen(bearer), listener->token)))
        return MHD_HTTP_UNAUTHORIZED;
    if (*listener->token == '\0' && !listener->is_path && host != NULL && !host_is_local(host))
        return MHD_HTTP_FORBIDDEN;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    return 0;
}

/* ---- requests ---- */

static enum MHD_Result listen_send(struct MHD_Connection *connection, unsigned status,
                                   const char *type, struct MHD_Response *response)
{
    if (response == NULL) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    const enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result listen_answer(struct listen *listener, struct MHD_Connection *connection,
                                     unsigned page)
{
    const char *type = "text/plain; charset=utf-8";
    unsigned status = MHD_HTTP_OK;
    const bool waits = listen_pages[page].needs_trace;
    if (waits && atomic_load(&listener->sending) >= LISTEN_SENDING) {
        guests_hurry(&listener->guests);
        return listen_send(connection, MHD_HTTP_SERVICE_UNAVAILABLE, type,
                           listen_text("other answers are still being fetched\n"));
    }
    if (waits && pthread_mutex_trylock(&listener->busy) != 0)
        return listen_send(connection, MHD_HTTP_SERVICE_UNAVAILABLE, type,
                           listen_text("another answer is being made\n"));
    if (waits) guests_begin_fetching(&listener->guests, connection);
    struct MHD_Response *response = listen_pages[page].make(listener, &type, &status);
    if (waits) pthread_mutex_unlock(&listener->busy);
    return listen_send(connection, status, type, response);
}

static enum MHD_Result listen_request(void *of, struct MHD_Connection *connection, const char *path,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_bytes, void **state)
{
    struct listen *listener = of;
    const char *const plain = "text/plain; charset=utf-8";
    static int seen;
    (void)version, (void)data, (void)data_bytes;
    const unsigned refused = listen_refuses(listener, connection, method);
    if (refused != 0) return listen_send(connection, refused, plain, listen_text("refused\n"));
    if (*state == NULL) { /* only its header has come */
        *state = &seen;
        return MHD_YES;
    }
    for (unsigned i = 0; i < LISTEN_PAGES; i++)
        if (strcmp(path, listen_pages[i].path) == 0) return listen_answer(listener, connection, i);
    return listen_send(connection, MHD_HTTP_NOT_FOUND, plain,
                       listen_text("/, /metrics, /trace, /debug/pprof/heap, "
                                   "/debug/pprof/allocs\n"));
}

/* ---- beginning and end ---- */

static bool listen_open(struct listen *listener, struct error *error)
{
    const struct keep_options *options = listener->keeper->options;
    if (options->token != NULL && !token_read(listener->token, options->token, error)) return false;
    const int file =
        listen_address_open(options->listen, *listener->token != '\0', &listener->is_path, error);
    if (file < 0) return false;
    listener->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0, NULL,
        NULL, listen_request, listener, MHD_OPTION_LISTEN_SOCKET, file, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)GUESTS_MAX, MHD_OPTION_NOTIFY_CONNECTION, guests_come_or_go, &listener->guests,
        MHD_OPTION_NOTIFY_COMPLETED, guests_are_answered, &listener->guests,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LISTEN_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)LISTEN_PATIENCE_S, MHD_OPTION_THREAD_STACK_SIZE, (size_t)LISTEN_STACK,
        MHD_OPTION_END);
    if (listener->daemon != NULL) return true;
    close(file);
    return error_set(error, &error_system, ERROR_NO_OFFSET, "the HTTP server does not start");
}

bool listen_begin(struct listen **listener, struct keeper *keeper, struct error *error)
{
    *listener = calloc(1, sizeof **listener);
    if (*listener == NULL) return error_set_system(error, "no memory");
    (*listener)->keeper = keeper;
    pthread_mutex_init(&(*listener)->busy, NULL);
    guests_open(&(*listener)->guests);
    functions_open(&(*listener)->functions);
    if (listen_open(*listener, error)) return true;
    free(*listener);
    *listener = NULL;
    return false;
}

void listen_end(struct listen *listener)
{
    if (listener == NULL) return;
    MHD_stop_daemon(listener->daemon);
    functions_close(&listener->functions);
    if (listener->is_path) unlink(listener->keeper->options->listen);
    free(listener);
}
