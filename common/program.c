#include "common/program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "malloctape_config.h"

int program_version(const char *name)
{
    printf("%s (malloctape) %s\n", name, PACKAGE_VERSION);
    return PROGRAM_OK;
}

int program_end(const char *name, int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    /* It failed long ago: once more, for the reason. */
    if (errno == 0 && write(STDOUT_FILENO, "\n", 1) == 1) errno = 0;
    fprintf(stderr, "%s: cannot write to the standard output%s%s\n", name, errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    return status == PROGRAM_OK || status == PROGRAM_CUT ? PROGRAM_FAILED : status;
}

int program_help(const char *text)
{
    fputs(text, stdout);
    return PROGRAM_OK;
}

int program_usage_error(const char *name, const char *message, ...)
{
    if (message != NULL) {
        va_list arguments;
        va_start(arguments, message);
        fprintf(stderr, "%s: ", name);
        vfprintf(stderr, message, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
    fprintf(stderr, "%s: see %s --help\n", name, name);
    return PROGRAM_USAGE;
}
