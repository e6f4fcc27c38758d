#include "common/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_line_width(FILE *to)
{
    const int fd = fileno(to);
    const char *variable = getenv("COLUMNS");
    struct winsize size;
    long columns = variable != NULL ? strtol(variable, NULL, 10) : 0;
    if (fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    if (columns <= 0 || columns > LINE_WIDTH_MOST) return LINE_WIDTH_MOST;
    return columns < LINE_WIDTH_LEAST ? LINE_WIDTH_LEAST : (int)columns;
}
