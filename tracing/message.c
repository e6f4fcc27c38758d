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

/* What libc would say of another file, or cannot say of this one. */
static const char *own_text(int error)
{
    switch (-error) {
    case ETXTBSY: return "another process is recording to it";
    case EBADF: return "no descriptor that can be written to";
    case ENXIO: return "nobody is there to read it";
    case ETIMEDOUT: return "waited for its reader too long";
    default: return NULL;
    }
}

void message_error(struct message *message, int error)
{
    /* A table of libc's: no lock, no memory, no locale. */
    const char *text = own_text(error), *of_libc = strerrordesc_np(-error);
    if (text) {
        message_text(message, text);
    } else if (of_libc) {
        size_t at = message->bytes;
        message_text(message, of_libc);
        if (at < message->bytes) message->text[at] |= 'a' ^ 'A';
    } else {
        message_text(message, "error ");
        message_number(message, (uint64_t)-error);
    }
}

void message_write(struct message *message)
{
    message->text[message->bytes++] = '\n';
    os_message_write(message->text, message->bytes);
}
