#include "common/program.h"

#include <stdarg.h>
#include <stdio.h>

#include "malloctape_config.h"

int program_version(const char *name)
{
    printf("%s (malloctape) %s\n", name, PACKAGE_VERSION);
    return PROGRAM_OK;
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
