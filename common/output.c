#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
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
    return opened;
}

/* A descriptor inherited from a shell may be non-blocking because somebody else made it so. */
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
            error_set_system(&output->error, "cannot write");
        }
    }
    return !error_is_set(&output->error);
}

bool output_flush(struct output *output)
{
    size_t used = output->used;
    output->used = 0;
    return output_send(output, output->buffer, used);
}

bool output_write(struct output *output, const void *data, size_t bytes)
{
    if (error_is_set(&output->error)) return false;
    if (bytes == 0) return true;
    output->offset += bytes;
    if (bytes > OUTPUT_BUFFER_BYTES - output->used) {
        if (!output_flush(output)) return false;
        if (bytes >= OUTPUT_BUFFER_BYTES) return output_send(output, data, bytes);
    }
    memcpy(output->buffer + output->used, data, bytes);
    output->used += bytes;
    return true;
}

bool output_close(struct output *output)
{
    if (output->buffer != NULL) output_flush(output);
    pages_unmap(output->buffer, OUTPUT_BUFFER_BYTES);
    output->buffer = NULL;
    if (output->owned && close(output->fd) != 0) error_set_system(&output->error, "cannot close");
    output->owned = false;
    output->fd = -1;
    return !error_is_set(&output->error);
}
