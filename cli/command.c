#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

/* The name for words[0], which messages use. */
static char *full_name(const struct cli_command *command)
{
    static char name[64];
    snprintf(name, sizeof name, "malloctape %s", command->name);
    return name;
}

int cli_fail(const struct cli_command *command, const char *message, ...)
{
    va_list arguments;
    va_start(arguments, message);
    program_say(full_name(command), message, arguments);
    va_end(arguments);
    return PROGRAM_FAILED;
}

int cli_usage_error(const struct cli_command *command, const char *message, ...)
{
    va_list arguments;
    va_start(arguments, message);
    program_say(full_name(command), message, arguments);
    va_end(arguments);
    return program_usage_error(full_name(command), NULL);
}

int cli_data_error(const struct cli_command *command, const char *file, const struct error *error)
{
    if (error_is_set(error)) error_print(stderr, full_name(command), file, error);
    return PROGRAM_FAILED;
}

int cli_run(const struct cli_command *command, int count, char **words)
{
    words[0] = full_name(command);
    return command->run(count, words);
}
