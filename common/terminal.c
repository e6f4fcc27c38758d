#include "common/terminal.h"

#include "common/printable.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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

void terminal_print_wrapped(const char *text, int at, int indent, FILE *to)
{
    const int width = terminal_line_width(to);
    bool first = true;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (strncmp(text + length, " %", 2) == 0) /* "95 %" stays together */
            length += 1 + (int)strcspn(text + length + 1, " ");
        if (!first && at + 1 + length > width) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
            first = true;
        }
        if (!first) fputc(' ', to);
        printable_print(to, text, (size_t)length);
        at += length + !first;
        first = false;
        text += length + (text[length] == ' ');
    }
    fputc('\n', to);
}
