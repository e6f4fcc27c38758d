#include "tracing/data/notice.h"

#include "tracing/data/settings.h"
#include "tracing/os/os.h"

#include <stdarg.h>

/* False: it was not written. */
static bool send(struct message *line)
{
    if (!settings.notices[0]) return false;
    int file = os_file_open_append(settings.notices);
    if (file < 0) return false;
    for (size_t i = 0; i < line->bytes; i++)
        if (line->text[i] == '\n') line->text[i] = 0;
    line->text[line->bytes] = '\n';
    bool sent = os_file_write(file, line->text, line->bytes + 1) == (long)line->bytes + 1;
    os_file_close(file);
    return sent;
}

void notice_for_record(const char *format, ...)
{
    struct message line;
    va_list arguments;
    message_clear(&line);
    va_start(arguments, format);
    message_put_list(&line, format, arguments);
    va_end(arguments);
    send(&line);
}

void notice_line(struct message *message)
{
    if (!send(message) && !settings.quiet) message_write(message);
}

void notice_text(const char *format, ...)
{
    struct message message;
    va_list arguments;
    message_begin(&message);
    va_start(arguments, format);
    message_put_list(&message, format, arguments);
    va_end(arguments);
    notice_line(&message);
}
