#include "keep/keeper.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "common/output.h"
#include "common/printable.h"
#include "common/program.h"

enum { COPIED_AT_ONCE = 1 << 20 };

static const char *keeper_report_file; /* NULL: lines go to the standard error */

void keeper_report_to(const char *path)
{
    keeper_report_file = path;
}

/* With one write, so that lines of several do not mix. False: `record` is gone. */
static bool keeper_report_list(const char *format, va_list arguments)
{
    char text[PATH_MAX + 600];
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    if (length < 0 || keeper_report_file == NULL) return false;
    if ((size_t)length > sizeof text - 2) length = sizeof text - 2;
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = '\0';
    text[length] = '\n';
    const int file =
        open(keeper_report_file, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool is_written = file >= 0 && write(file, text, (size_t)length + 1) == length + 1;
    if (file >= 0) close(file);
    return is_written;
}

bool keeper_report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const bool is_written = keeper_report_list(format, arguments);
    va_end(arguments);
    return is_written;
}

void keeper_say(const struct keeper *keeper, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (keeper->options->quiet) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (keeper_report_file != NULL)
        keeper_report(KEEPER_NAME ": %s", text);
    else
        printable_say(stderr, KEEPER_NAME ": %s", text);
}

int keeper_fail(const char *what, const struct error *error)
{
    char text[512];
    if (!keeper_report(KEEPER_NAME ": %s%s%s", what != NULL ? what : "", what != NULL ? ": " : "",
                       error_text(error, text, sizeof text)))
        error_print(stderr, KEEPER_NAME, what, error);
    return PROGRAM_FAILED;
}

bool keeper_write_joined(struct joined *joined, const char *path, struct error *error)
{
    char *part;
    if (asprintf(&part, "%s.part%s", path, output_is_lz4(path) ? ".lz4" : "") < 0)
        return error_set_system(error, "no memory for a name");
    bool good = joined_write(joined, part);
    if (!good) *error = joined->error;
    if (good && rename(part, path) != 0) {
        good = error_set_system(error, "cannot rename it to its name");
        unlink(part);
    }
    free(part);
    return good;
}

/* With the lock: why there is nothing to be written, or NULL. */
static const char *keeper_state(const struct keeper *keeper)
{
    if (keeper->has_ended) return "the recording has ended";
    return keeper->has_begun ? NULL : "nothing has been recorded yet";
}

bool keeper_write(struct keeper *keeper, const char *path, struct instruction_totals *totals,
                  struct error *error)
{
    struct segments *segments = &keeper->segments;
    struct joined *joined = malloc(sizeof *joined);
    if (joined == NULL) return error_set_system(error, "no memory");
    pthread_mutex_lock(&keeper->writing);
    pthread_mutex_lock(&keeper->lock);
    const char *state = keeper_state(keeper);
    bool good = state == NULL && segments_turn_for(segments) &&
                joined_open(joined, segments, segments->count - 1);
    if (state != NULL)
        error_set(error, &error_system, ERROR_NO_OFFSET, "%s", state);
    else if (!good)
        *error = error_is_set(&segments->error) ? segments->error : joined->error;
    pthread_mutex_unlock(&keeper->lock);
    good = good && keeper_write_joined(joined, path, error);
    if (good) *totals = joined->totals;
    pthread_mutex_unlock(&keeper->writing);
    free(joined);
    return good;
}

bool keeper_write_live(struct keeper *keeper, const char *path, struct error *error)
{
    struct instruction_writer writer = {.count = 0};
    struct output output;
    struct instruction_header header = keeper->segments.header;
    header.features |= INSTRUCTION_FEATURE_BASE;
    if (!output_open(&output, path)) {
        *error = output.error;
        return false;
    }
    pthread_mutex_lock(&keeper->lock);
    const char *state = keeper_state(keeper);
    if (state != NULL) error_set(error, &error_system, ERROR_NO_OFFSET, "%s", state);
    bool good = state == NULL && instruction_writer_open(&writer, &output, &header) &&
                base_write_live(&keeper->follow.base, &writer);
    pthread_mutex_unlock(&keeper->lock);
    good = good && instruction_writer_finish(&writer, INSTRUCTION_STATUS_COMPLETE);
    if (!good && error_is_set(&writer.error)) *error = writer.error;
    if (!good) error_set_system(error, "no memory");
    instruction_writer_close(&writer);
    output.discards = !good;
    if (!output_close(&output) && good) {
        *error = output.error;
        good = false;
    }
    return good;
}

/* The segment as it is. */
static bool keeper_copy_file(int from, const char *path, struct error *error)
{
    const int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t some = -1;
    if (to < 0) return error_set_system(error, "cannot open for writing");
    while ((some = sendfile(to, from, NULL, COPIED_AT_ONCE)) > 0)
        ;
    const bool good = close(to) == 0 && some == 0;
    return good || error_set_system(error, "cannot write");
}

bool keeper_write_recent(struct keeper *keeper, const char *path, struct error *error)
{
    struct segments *segments = &keeper->segments;
    int from = -1;
    pthread_mutex_lock(&keeper->lock);
    const char *state = keeper_state(keeper);
    if (state == NULL && segments_turn_for(segments))
        from = segments_open_file(segments, &segments->list[segments->count - 2], false);
    if (state != NULL)
        error_set(error, &error_system, ERROR_NO_OFFSET, "%s", state);
    else if (from < 0)
        error_set_system(error, "cannot open a segment");
    pthread_mutex_unlock(&keeper->lock);
    const bool good = from >= 0 && keeper_copy_file(from, path, error);
    if (from >= 0) close(from);
    return good;
}
