/* control - requests from outside, for a process that was started with TCMALLOC_TRACE_CONTROL=1.
 *
 *   malloctape ctl PID REQUEST --abstract socket "malloctape-PID"--> the control thread
 *
 * A request is one line: "start", "start OUTPUT", "record NAME", "reset", "reset OUTPUT", "stop",
 * "pause", "resume", "sync", "status" or "watch". With "record" come descriptors of a stream and of
 * its spool (SCM_RIGHTS), which the asker has made: the process needs no right to open them, nor
 * see their directory. The answer is lines of text for people; to "watch",
 * numbers (watch.h). request.h says what precedes request and answer. There is one request for each
 * connection.
 *
 * The thread keeps the rights that the process had when it began, and uses them for whoever asks.
 * So it answers only root, and those who have the same rights, as long as the process has, and has
 * had, no others. It starts commands only for the latter. */
#include "tracing/process/control.h"

#include "tracing/core/recording_begin.h"
#include "tracing/data/message.h"
#include "tracing/data/settings.h"
#include "tracing/os/os.h"
#include "tracing/process/request.h"
#include "tracing/recording/recording.h"

#include <errno.h>
#include <string.h>

/* How often the thread checks whether the program still has a thread. */
#define LOOK_NS UINT64_C(200000000)

/* ---- answers ---- */

/* The request does not fit what the process is doing. */
static void put_state(struct message *answer, const char *request)
{
    struct recording_status status;
    recording_look(&status);
    if (!status.is_recording && !status.is_paused) {
        message_put(answer, "it is not recording");
        return;
    }
    message_put(answer, status.is_paused ? "it is paused already" : "it is recording already");
    if (strncmp(request, "start", 5) == 0 || strncmp(request, "record", 6) == 0)
        message_put(answer, ", to %s", status.output);
}

static void put_result(struct message *answer, int result, const char *request, const char *good)
{
    message_clear(answer);
    if (result == 0) {
        message_put(answer, CONTROL_OK "%s", good);
        return;
    }
    message_put(answer, CONTROL_ERROR);
    if (result == -EBUSY) return put_state(answer, request);
    message_put(answer, "see the standard error of the process: ");
    message_error(answer, result);
}

/* Adds what has been recorded so far. */
static void put_counts(struct message *answer, int result, const char *request, const char *good)
{
    struct recording_status status;
    put_result(answer, result, request, good);
    if (result != 0) return;
    recording_sync();
    recording_look(&status);
    message_put(answer, ": ");
    writer_put_totals(answer, &status.totals);
}

static void put_status(struct message *answer)
{
    struct recording_status status;
    recording_look(&status);
    message_clear(answer);
    message_put(answer, CONTROL_OK "%s",
                status.is_paused      ? "paused"
                : status.is_recording ? "recording"
                                      : "not recording");
    if (status.could_not_begin) message_put(answer, "; the latest one could not be started");
    if (!status.output[0]) return;
    message_put(answer, "%s%s: ",
                status.is_paused      ? "; recorded to "
                : status.is_recording ? " to "
                                      : "; the latest: ",
                status.output);
    writer_put_totals(answer, &status.totals);
}

/* "start" or "start OUTPUT"; "reset" is as long. */
static void put_begin(struct message *answer, const char *request)
{
    const char *output = request[5] ? request + 6 : NULL;
    int result = request[0] == 'r' ? recording_reset(output) : recording_begin(output);
    put_result(answer, result, request, result == 0 ? recording.writer.output : "");
}

/* "record NAME" */
static void put_begin_given(struct message *answer, const char *request,
                            const struct os_files *given)
{
    int result = given->spool < 0 ? -EBADF : recording_begin_given(request + 7, given);
    put_result(answer, result, request, result == 0 ? recording.writer.output : "");
}

static void answer_request(const char *request, const struct os_files *given,
                           struct message *answer)
{
    if (strcmp(request, "status") == 0)
        put_status(answer);
    else if (strcmp(request, "start") == 0 || strncmp(request, "start ", 6) == 0 ||
             strcmp(request, "reset") == 0 || strncmp(request, "reset ", 6) == 0)
        put_begin(answer, request);
    else if (strncmp(request, "record ", 7) == 0)
        put_begin_given(answer, request, given);
    else if (strcmp(request, "stop") == 0)
        put_counts(answer, recording_end(), request, "stopped");
    else if (strcmp(request, "pause") == 0)
        put_counts(answer, recording_pause(), request, "paused");
    else if (strcmp(request, "resume") == 0)
        put_result(answer, recording_resume(), request, "resumed");
    else if (strcmp(request, "sync") == 0)
        put_counts(answer, recording_sync(), request, "written");
    else
        put_result(answer, strcmp(request, "watch") == 0 ? -EBUSY : -EINVAL, request, "");
}

/* Not a text: watch.h. False: nothing is recorded. */
static bool answer_watch(int file)
{
    enum { HEAD_BYTES = sizeof CONTROL_OK - 1 };
    static struct watch_counts counts;
    static char answer[HEAD_BYTES + sizeof counts];
    struct recording_status status;
    recording_look(&status);
    if (!status.is_recording && !status.is_paused) return false;
    writer_watch(&recording.writer, &counts);
    memcpy(answer, CONTROL_OK, HEAD_BYTES);
    memcpy(answer + HEAD_BYTES, &counts, sizeof counts);
    os_control_answer(file, answer, sizeof answer);
    return true;
}

static bool names_command(const char *request)
{
    return (strncmp(request, "start ", 6) == 0 || strncmp(request, "reset ", 6) == 0) &&
           request[6] == '|';
}

/* NULL, or why a request is not carried out. */
static const char *refusal(const char *line, enum os_asker asker)
{
    const size_t head_bytes = sizeof CONTROL_HEAD - 1;
    if (asker == OS_ASKER_OTHER)
        return "only root may control it, or its own user and group as long as it has the rights "
               "that it started with";
    if (strncmp(line, CONTROL_HEAD, head_bytes) != 0)
        return "its control protocol has version " CONTROL_VERSION
               ", that of the asking program another";
    if (asker == OS_ASKER_ROOT && names_command(line + head_bytes))
        return "it starts a command only for a user who has all rights that it has or had";
    return NULL;
}

static void answer_line(int file, const char *line, const struct os_files *given,
                        enum os_asker asker)
{
    struct message answer;
    const char *refused = refusal(line, asker), *request = line + sizeof CONTROL_HEAD - 1;
    if (refused == NULL && strcmp(request, "watch") == 0 && answer_watch(file)) return;
    message_clear(&answer);
    if (refused != NULL)
        message_put(&answer, CONTROL_ERROR "%s", refused);
    else
        answer_request(request, given, &answer);
    os_control_answer(file, answer.text, answer.bytes);
}

/* ---- the thread ---- */

static void say_why(const char *what, int error)
{
    struct message message;
    if (settings.quiet) return;
    message_begin(&message);
    if (error == -EADDRINUSE) {
        message_put(&message,
                    "no control: another process has taken its socket's name, malloctape-%lu",
                    (uint64_t)os_process_id());
    } else {
        message_put(&message, "no control: %s: ", what);
        message_error(&message, error);
    }
    message_write(&message);
}

static void control_main(void *unused)
{
    (void)unused;
    static char line[OS_REQUEST_BYTES_MAX];
    static const char late[] = CONTROL_ERROR "it is being detached from: try again";
    int listening = os_control_listen();
    if (listening < 0) {
        say_why("the socket", listening);
        return;
    }
    while (!atomic_load_relaxed(&control.finish) && !recording_is_abandoned()) {
        enum os_asker asker;
        struct os_files given;
        int file = os_control_next(listening, line, sizeof line, LOOK_NS, &asker, &given);
        if (file < 0) continue;
        /* What began now would have nobody left to end it. */
        if (atomic_load_relaxed(&control.finish))
            os_control_answer(file, late, sizeof late - 1);
        else
            answer_line(file, line, &given, asker);
        os_files_close(&given);
    }
}

static int begin_thread(void)
{
    atomic_store_relaxed(&control.finish, 0);
    int result = os_thread_start(&control.thread, control_main, NULL, &control.done, OS_NO_FILES);
    control.running = result == 0;
    return result;
}

__attribute__((constructor)) static void control_begins(void)
{
    recording_decide();
    if (!settings.controlled || os_is_confined()) return;
    int result = begin_thread();
    if (result < 0) say_why("the thread", result);
}

int control_attach(const char *given)
{
    int result = recording_attach(given);
    if (result == 0) result = begin_thread();
    os_threads_barrier();
    return result < 0 ? result : 0;
}

void control_detach(void)
{
    atomic_store_relaxed(&control.finish, 1);
}
