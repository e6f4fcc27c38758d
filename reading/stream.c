#include "reading/stream.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/output.h"
#include "stream/instruction.h"
#include "stream/magic.h"
#include "stream/raw_format.h"

const struct error_kind stream_errors[] = {STREAM_ERROR_LIST(ERROR_LIST_KIND)};

static bool format_find(struct stream *stream, struct error *error)
{
    const uint64_t raw_magic = RAW_MAGIC;
    size_t there = input_peek(&stream->input, MAGIC_TEXT_BYTES);
    size_t compared = there < MAGIC_OF_STREAM_BYTES ? there : MAGIC_OF_STREAM_BYTES;
    if (stream->input.state == INPUT_FAILED) {
        *error = stream->input.error;
        return false;
    }
    stream->lz4 = stream->input.lz4;
    if (memcmp(stream->input.next, &raw_magic, compared) == 0)
        stream->format = STREAM_RAW;
    else if (memcmp(stream->input.next, INSTRUCTION_MAGIC, compared) == 0)
        stream->format = STREAM_INSTRUCTIONS;
    else
        return error_set(error, &stream_errors[STREAM_UNKNOWN], 0, "%s",
                         magic_text(stream->input.next, there));
    return true;
}

enum { RELAY_FAILED = 1 };

/* What the child does. If the input fails, the pipe ends early, and the exit status tells the
 * parent that this was not the end. */
static void relay_run(struct input *input, int to)
{
    struct output output;
    size_t there;
    if (!output_open_fd(&output, to)) _exit(RELAY_FAILED);
    while ((there = input_peek(input, 1)) > 0) {
        if (!output_write(&output, input->next, there) || !output_flush(&output)) _exit(0);
        input_skip(input, there);
    }
    if (input->state != INPUT_FAILED) _exit(0);
    error_print(stderr, "malloctape", "standard input", &input->error);
    _exit(RELAY_FAILED);
}

static bool relay_start(struct stream *stream, struct error *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return error_set_system(error, "cannot make a pipe");
    stream->relay = fork();
    if (stream->relay == 0) {
        close(ends[0]);
        relay_run(&stream->input, ends[1]);
    }
    close(ends[1]);
    close(stream->fd);
    stream->fd = ends[0];
    return stream->relay > 0 || error_set_system(error, "cannot start a process");
}

/* Leaves stream->fd at the first byte for a raw_reader, which has an input of its own. */
static bool raw_begin(struct stream *stream, struct error *error)
{
    bool done = lseek(stream->fd, 0, SEEK_SET) == 0 || relay_start(stream, error);
    input_close(&stream->input);
    return done;
}

bool stream_open(struct stream *stream, const char *path, struct error *error)
{
    struct stat status;
    *stream = (struct stream){.fd = -1};
    stream->fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (stream->fd < 0) return error_set_system(error, "cannot open");
    if (fstat(stream->fd, &status) == 0 && S_ISREG(status.st_mode)) {
        stream->is_file = strcmp(path, "-") != 0;
        stream->file_bytes = (uint64_t)status.st_size;
    }
    input_open_fd(&stream->input, stream->fd);
    bool known = format_find(stream, error);
    if (!known) input_close(&stream->input);
    if (known && (stream->format == STREAM_INSTRUCTIONS || raw_begin(stream, error))) return true;
    stream_close(stream);
    return false;
}

bool stream_close(struct stream *stream)
{
    int status = 0;
    if (stream->format == STREAM_INSTRUCTIONS) input_close(&stream->input);
    if (stream->fd >= 0) close(stream->fd);
    if (stream->relay > 0) waitpid(stream->relay, &status, 0);
    *stream = (struct stream){.fd = -1};
    return !WIFEXITED(status) || WEXITSTATUS(status) != RELAY_FAILED;
}
