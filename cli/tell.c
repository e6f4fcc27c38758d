#include "cli/tell.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/printable.h"

void cli_tell(const char *format, ...)
{
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    va_list arguments;
    if (poll(&error, 1, 0) != 1 || error.revents != POLLOUT) return;
    va_start(arguments, format);
    printable_say_list(stderr, format, arguments);
    va_end(arguments);
}
