#include "report.h"

#include "os.h"
#include "settings.h"

#include <stdarg.h>

/* False: it was not written. */
static bool send(struct message *line)
{
    if (!settings.report[0]) return false;
    int file = os_file_open_append(settings.report);
    if (file < 0) return false;
    line->text[line->bytes] = '\n';
    bool sent = os_file_write(file, line->text, line->bytes + 1) == (long)line->bytes + 1;
    os_file_close(file);
    return sent;
}

void report(const char *format, ...)
{
    struct message line;
    va_list arguments;
    message_clear(&line);
    va_start(arguments, format);
    message_put_list(&line, format, arguments);
    va_end(arguments);
    send(&line);
}

void report_line(struct message *message)
{
    if (!settings.quiet && !send(message)) message_write(message);
}

void report_text(const char *format, ...)
{
    struct message message;
    va_list arguments;
    message_begin(&message);
    va_start(arguments, format);
    message_put_list(&message, format, arguments);
    va_end(arguments);
    report_line(&message);
}
