#include "reading/ordered_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/output.h"
#include "launch/installed.h"
#include "reading/ordered.h"

static bool order(struct stream *stream, const char *path, const char *ordered, char *why,
                  size_t why_bytes)
{
    struct installed program;
    if (!installed_find_program(&program, ORDERING_PROGRAM))
        return error_explain(why, why_bytes, "%s not found", program.path);
    /* By name if it has one, so that the spool of a killed program is found beside it. */
    const bool by_name = stream->is_file;
    const char *const words[] = {ORDERING_PROGRAM,     "--quiet", "--",
                                 by_name ? path : "-", ordered,   NULL};
    const struct process process = {.path = program.path,
                                    .words = (char *const *)words,
                                    .input = by_name ? -1 : stream->fd,
                                    .file = path};
    return process_run(&process, true, why, why_bytes);
}

static bool ordered_file_copy(struct input *input, const char *to, struct error *error)
{
    struct output output;
    size_t there;
    bool good = output_open(&output, to);
    while (good && !process_interrupted() && (there = input_peek(input, 1)) > 0) {
        good = output_write(&output, input->next, there);
        input_skip(input, there);
    }
    good = output_close(&output) && good;
    if (!good) *error = output.error;
    if (good && input->state == INPUT_FAILED) *error = input->error;
    return good && input->state != INPUT_FAILED;
}

/* An instruction stream. */
static bool place_ordered(struct stream *stream, const char *path, const char *copied,
                          char *ordered, size_t ordered_bytes, struct error *error)
{
    if (stream->is_file) {
        char *real = realpath(path, NULL);
        if (real == NULL) return error_set_system(error, "cannot find");
        snprintf(ordered, ordered_bytes, "%s", real);
        free(real);
        return true;
    }
    snprintf(ordered, ordered_bytes, "%s", copied);
    return ordered_file_copy(&stream->input, copied, error);
}

bool ordered_file_prepare(const struct process_directory *directory, const char *path,
                          char *ordered, size_t ordered_bytes, char *why, size_t why_bytes)
{
    struct stream stream;
    struct error error = {0};
    char copied[PROCESS_PATH_BYTES];
    bool good;
    if (!stream_open(&stream, path, &error)) {
        error_text(&error, why, why_bytes);
        return false;
    }
    process_directory_path(directory, "ordered", copied, sizeof copied);
    if (stream.format == STREAM_RAW) {
        snprintf(ordered, ordered_bytes, "%s", copied);
        good = order(&stream, path, ordered, why, why_bytes);
    } else {
        good = place_ordered(&stream, path, copied, ordered, ordered_bytes, &error);
        if (!good) error_text(&error, why, why_bytes);
    }
    if (!stream_close(&stream) && good) return error_explain(why, why_bytes, "it is damaged");
    return good;
}
