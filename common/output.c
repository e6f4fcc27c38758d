#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4frame.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/pages.h"

bool output_open_fd(struct output *output, int fd)
{
    *output = (struct output){.fd = fd};
    output->buffer = pages_map(OUTPUT_BUFFER_BYTES);
    if (output->buffer == NULL) return error_set_system(&output->error, "no memory for a buffer");
    return true;
}

bool output_open(struct output *output, const char *path)
{
    if (strcmp(path, "-") == 0) return output_open_fd(output, STDOUT_FILENO);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        *output = (struct output){.fd = -1};
        return error_set_system(&output->error, "cannot open for writing");
    }
    bool opened = output_open_fd(output, fd);
    output->owned = true;
    output->path = path;
    return opened;
}

/* Gets the status of a file; "-" is the descriptor. */
static bool output_look(const char *path, int fd, struct stat *file)
{
    return (strcmp(path, "-") == 0 ? fstat(fd, file) : stat(path, file)) == 0 &&
           S_ISREG(file->st_mode);
}

bool output_would_replace(const char *path, const char *input)
{
    struct stat to, from;
    return output_look(path, STDOUT_FILENO, &to) && output_look(input, STDIN_FILENO, &from) &&
           to.st_dev == from.st_dev && to.st_ino == from.st_ino;
}

void output_remove(const char *path)
{
    struct stat there;
    if (lstat(path, &there) == 0 && S_ISREG(there.st_mode)) unlink(path);
}

/* An existing file is not opened: if it is a named pipe, its reader would see the end. */
bool output_can_open(const char *path, struct error *error)
{
    struct stat there;
    if (strcmp(path, "-") == 0) return true;
    if (stat(path, &there) == 0) {
        if (!S_ISDIR(there.st_mode) && access(path, W_OK) == 0) return true;
        if (S_ISDIR(there.st_mode)) errno = EISDIR;
        return error_set_system(error, "cannot open for writing");
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return error_set_system(error, "cannot open for writing");
    close(fd);
    unlink(path);
    return true;
}

/* Waits until the descriptor is writable: it may be non-blocking because it is shared with another
 * process. */
static bool output_wait(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    return poll(&one, 1, -1) >= 0 || errno == EINTR;
}

static bool output_send(struct output *output, const uint8_t *data, size_t bytes)
{
    while (bytes > 0 && !error_is_set(&output->error)) {
        ssize_t sent = write(output->fd, data, bytes);
        if (sent >= 0) {
            data += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!output_wait(output->fd)) error_set_system(&output->error, "cannot write");
        } else if (errno != EINTR) {
            output->unread = errno == EPIPE;
            error_set_system(&output->error, "cannot write");
        }
    }
    return !error_is_set(&output->error);
}

/* ---- an LZ4 frame ---- */

/* The defaults of `lz4`: independent blocks of 4 MiB, and a checksum of the content. */
static const LZ4F_preferences_t frame_preferences = {
    .frameInfo = {.blockSizeID = LZ4F_max4MB,
                  .blockMode = LZ4F_blockIndependent,
                  .contentChecksumFlag = LZ4F_contentChecksumEnabled},
};

/* Writes what a step of the compressor has made, or takes its error. */
static bool frame_send(struct output *output, size_t made)
{
    if (LZ4F_isError(made))
        return error_set(&output->error, &error_system, ERROR_NO_OFFSET, "cannot compress: %s",
                         LZ4F_getErrorName(made));
    return output_send(output, output->packed, made);
}

bool output_is_lz4(const char *path)
{
    const size_t bytes = strlen(path);
    return bytes > 4 && strcmp(path + bytes - 4, ".lz4") == 0;
}

bool output_compress(struct output *output)
{
    LZ4F_cctx *frame = NULL;
    if (error_is_set(&output->error)) return false;
    output->packed_bytes = LZ4F_compressBound(OUTPUT_BUFFER_BYTES, &frame_preferences);
    output->packed = pages_map(output->packed_bytes);
    if (output->packed == NULL || LZ4F_isError(LZ4F_createCompressionContext(&frame, LZ4F_VERSION)))
        return error_set_system(&output->error, "no memory for compressing");
    output->frame = frame;
    return frame_send(output, LZ4F_compressBegin(frame, output->packed, output->packed_bytes,
                                                 &frame_preferences));
}

static bool frame_write(struct output *output, const uint8_t *data, size_t bytes)
{
    while (bytes > 0 && !error_is_set(&output->error)) {
        size_t part = bytes < OUTPUT_BUFFER_BYTES ? bytes : OUTPUT_BUFFER_BYTES;
        frame_send(output, LZ4F_compressUpdate(output->frame, output->packed, output->packed_bytes,
                                               data, part, NULL));
        data += part;
        bytes -= part;
    }
    return !error_is_set(&output->error);
}

static void frame_close(struct output *output)
{
    if (output->frame != NULL && !error_is_set(&output->error))
        frame_send(output,
                   LZ4F_compressEnd(output->frame, output->packed, output->packed_bytes, NULL));
    LZ4F_freeCompressionContext(output->frame);
    pages_unmap(output->packed, output->packed_bytes);
    output->frame = output->packed = NULL;
}

/* ---- writing ---- */

static bool output_pass_on(struct output *output, const uint8_t *data, size_t bytes)
{
    return output->frame != NULL ? frame_write(output, data, bytes)
                                 : output_send(output, data, bytes);
}

bool output_flush(struct output *output)
{
    size_t used = output->used;
    output->used = 0;
    return output_pass_on(output, output->buffer, used);
}

bool output_write(struct output *output, const void *data, size_t bytes)
{
    if (error_is_set(&output->error)) return false;
    if (bytes == 0) return true;
    output->offset += bytes;
    if (bytes > OUTPUT_BUFFER_BYTES - output->used) {
        if (!output_flush(output)) return false;
        if (bytes >= OUTPUT_BUFFER_BYTES) return output_pass_on(output, data, bytes);
    }
    memcpy(output->buffer + output->used, data, bytes);
    output->used += bytes;
    return true;
}

bool output_close(struct output *output)
{
    if (output->buffer != NULL) output_flush(output);
    frame_close(output);
    pages_unmap(output->buffer, OUTPUT_BUFFER_BYTES);
    output->buffer = NULL;
    if (output->owned && close(output->fd) != 0) error_set_system(&output->error, "cannot close");
    if (output->owned && (output->discards || error_is_set(&output->error)))
        output_remove(output->path);
    output->owned = false;
    output->fd = -1;
    return !error_is_set(&output->error);
}
