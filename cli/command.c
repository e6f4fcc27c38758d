#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

static void message_print(const struct cli_command *command, const char *message, va_list arguments)
{
    fprintf(stderr, "malloctape %s: ", command->name);
    vfprintf(stderr, message, arguments);
    fputc('\n', stderr);
}

int cli_fail(const struct cli_command *command, const char *message, ...)
{
    va_list arguments;
    va_start(arguments, message);
    message_print(command, message, arguments);
    va_end(arguments);
    return PROGRAM_FAILED;
}

int cli_usage_error(const struct cli_command *command, const char *message, ...)
{
    if (message != NULL) {
        va_list arguments;
        va_start(arguments, message);
        message_print(command, message, arguments);
        va_end(arguments);
    }
    fprintf(stderr, "malloctape %s: see malloctape help %s\n", command->name, command->name);
    return PROGRAM_USAGE;
}

int cli_data_error(const struct cli_command *command, const char *file, const struct error *error)
{
    char program[64];
    snprintf(program, sizeof program, "malloctape %s", command->name);
    error_print(stderr, program, file, error);
    return PROGRAM_FAILED;
}

int cli_run(const struct cli_command *command, int count, char **words)
{
    static char program[64];
    snprintf(program, sizeof program, "malloctape %s", command->name);
    words[0] = program; /* for the messages of getopt_long() */
    return command->run(count, words);
}
