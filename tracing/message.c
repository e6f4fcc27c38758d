#include "message.h"

#include "../common/text.h"
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

/* Where the next words go. One byte is kept for the end of the line. */
static struct text text_of(struct message *message)
{
    return (struct text){message->text, message->bytes, sizeof message->text - 1};
}

static void take(struct message *message, const struct text *text)
{
    message->bytes = text->used < text->bytes ? text->used : text->bytes;
}

void message_text(struct message *message, const char *words)
{
    struct text text = text_of(message);
    text_string(&text, words);
    take(message, &text);
}

void message_add(struct message *message, const struct message *more)
{
    for (size_t i = 0; i < more->bytes && message->bytes < sizeof message->text - 1; i++)
        message->text[message->bytes++] = more->text[i];
}

void message_number(struct message *message, uint64_t number)
{
    struct text text = text_of(message);
    text_decimal(&text, number);
    take(message, &text);
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
