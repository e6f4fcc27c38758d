#include "message.h"

#include "os.h"

#include <errno.h>
#include <string.h>

void message_clear(struct message *message)
{
    message->bytes = 0;
}

void message_begin(struct message *message)
{
    message_clear(message);
    message_text(message, "malloctape: ");
}

void message_text(struct message *message, const char *text)
{
    /* One byte is kept for the end of the line. */
    while (*text && message->bytes < sizeof message->text - 1)
        message->text[message->bytes++] = *text++;
}

void message_number(struct message *message, uint64_t number)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    message_text(message, digits + at);
}

void message_error(struct message *message, int error)
{
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {ENOSPC, "no space left on device"},
        {EDQUOT, "disk quota exceeded"},
        {EFBIG, "file too large"},
        {EIO, "input/output error"},
        {EPIPE, "broken pipe"},
        {EACCES, "permission denied"},
        {EPERM, "operation not permitted"},
        {ENOENT, "no such file or directory"},
        {ENOTDIR, "not a directory"},
        {EISDIR, "is a directory"},
        {EROFS, "read-only file system"},
        {EMFILE, "too many open files"},
        {ENFILE, "too many open files in the system"},
        {ENOMEM, "cannot allocate memory"},
        {EAGAIN, "resource temporarily unavailable"},
        {ENAMETOOLONG, "file name too long"},
        {ETXTBSY, "another process is recording to it"},
        {EBUSY, "busy"},
        {EINVAL, "invalid argument"},
        {EBADF, "no descriptor that can be written to"},
        {ENXIO, "nobody is there to read it"},
        {ETIMEDOUT, "waited for its reader too long"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].error == -error) {
            message_text(message, texts[i].text);
            return;
        }
    }
    /* A table of libc's: no lock, no memory, no locale. */
    const char *text = strerrordesc_np(-error);
    if (text) {
        message_text(message, text);
        return;
    }
    message_text(message, "error ");
    message_number(message, (uint64_t)-error);
}

void message_write(struct message *message)
{
    message->text[message->bytes++] = '\n';
    os_message_write(message->text, message->bytes);
}
