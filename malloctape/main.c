/* malloctape - one front end over recording, looking at and checking of traces. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_command *const commands[] = {
    &cli_record, &cli_info, &cli_dump,   &cli_verify, &cli_compare, &cli_report,
    &cli_ctl,    &cli_top,  &cli_import, &cli_export, &cli_order,   &cli_replay,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char help_head[] =
    "usage: malloctape COMMAND ...\n"
    "\n"
    "Records every allocator call of a program and looks at the recording.\n"
    "\n";

static const char help_tail[] =
    "  help       how to use a command: malloctape help COMMAND\n"
    "\n"
    "  -h, --help     this text\n"
    "  -V, --version  the version\n"
    "\n"
    "order and replay are `postprocess` and `replay`, which stand beside it. The documents that messages name, as FORMAT.md 4.1, are\n"
    "installed in " MALLOCTAPE_DOCUMENT_DIRECTORY ".\n";

static const struct cli_command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int help_general(void)
{
    fputs(help_head, stdout);
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s  %s\n", commands[i]->name, commands[i]->line);
    fputs(help_tail, stdout);
    return PROGRAM_OK;
}

static int unknown_command(const char *name)
{
    return program_usage_error("malloctape", "there is no command '%s'", name);
}

static int help(int count, char **words)
{
    if (count > 2) return program_usage_error("malloctape", "help takes one command");
    if (count < 2) return help_general();
    const struct cli_command *command = command_find(words[1]);
    if (command == NULL) return unknown_command(words[1]);
    if (command->help != NULL) return program_help(command->help);
    return cli_run(command, 2, (char *[]){words[1], (char *)"--help", NULL});
}

static int command_run(int count, char **words)
{
    if (count < 2) return program_usage_error("malloctape", "which command?");
    const char *name = words[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help_general();
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return program_version("malloctape");
    if (strcmp(name, "help") == 0) return help(count - 1, words + 1);
    const struct cli_command *command = command_find(name);
    if (command == NULL) return unknown_command(name);
    return cli_run(command, count - 1, words + 1);
}

int main(int count, char **words)
{
    int status = command_run(count, words);
    return program_end("malloctape", status);
}
