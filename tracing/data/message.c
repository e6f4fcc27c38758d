#include "tracing/data/message.h"

#include "common/text.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <string.h>

void message_clear(struct message *message)
{
    message->text[message->bytes = 0] = 0;
}

void message_begin(struct message *message)
{
    message_clear(message);
    message_put(message, "malloctape: ");
}

void message_put(struct message *message, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message_put_list(message, format, arguments);
    va_end(arguments);
}

void message_put_list(struct message *message, const char *format, va_list arguments)
{
    /* One byte is kept for the end of the line. */
    struct text text = {message->text, message->bytes, sizeof message->text - 1};
    for (; *format; format++) {
        if (*format != '%') {
            text_character(&text, *format);
        } else if (*++format == 's') {
            text_string(&text, va_arg(arguments, const char *));
        } else { /* %lu */
            text_decimal(&text, va_arg(arguments, unsigned long));
            format++;
        }
    }
    message->bytes = text_end(&text) ? text.used : text.bytes - 1;
}

/* Errors for which libc's text would be wrong or tell too little. */
static const char *own_text(int error)
{
    switch (-error) {
    case ETXTBSY: return "another process is recording to it";
    case EBADF: return "not a descriptor that can be written to";
    case ENXIO: return "it has no reader";
    case EFAULT: return "this file was truncated, or its file system is full";
    case ETIMEDOUT: return "its reader did not read for too long";
    default: return NULL;
    }
}

void message_error(struct message *message, int error)
{
    /* Reads a table in libc: takes no lock and no memory, and ignores the locale. */
    const char *text = own_text(error), *of_libc = strerrordesc_np(-error);
    size_t at = message->bytes;
    if (text != NULL || of_libc != NULL)
        message_put(message, "%s", text != NULL ? text : of_libc);
    else
        message_put(message, "error %lu", (uint64_t)-error);
    if (text == NULL && of_libc != NULL && at < message->bytes) message->text[at] |= 'a' ^ 'A';
}

/* Replaces what a terminal would obey, and line breaks: names may have it. */
static void make_printable(struct message *message)
{
    for (size_t i = 0; i < message->bytes; i++) {
        uint8_t *at = (uint8_t *)message->text + i;
        if (*at < 0x20 || *at == 0x7f) *at = '?';
        if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) at[0] = at[1] = '?';
    }
}

void message_write(struct message *message)
{
    make_printable(message);
    message->text[message->bytes++] = '\n';
    os_message_write(message->text, message->bytes);
}
