/* malloctape - one front end over recording, looking at and checking of traces. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/complete.h"
#include "common/printable.h"

static const struct cli_command *const commands[] = {
    &cli_record, &cli_info,   &cli_dump,   &cli_verify, &cli_compare, &cli_change,
    &cli_advise, &cli_cut,    &cli_report, &cli_sweep,  &cli_ctl,     &cli_top,
    &cli_import, &cli_export, &cli_order,  &cli_replay,
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
    "order and replay are also programs of their own: malloctape-postprocess and malloctape-replay,\n"
    "postprocess and replay in a build directory. ";

/* Not the directory of an installation if this program runs where it was built. */
static void help_documents(void)
{
    static const char where[] = MALLOCTAPE_DOCUMENT_DIRECTORY;
    fputs("The documents that messages name, such as\n", stdout);
    if (access(where, F_OK) == 0)
        printf("FORMAT.md 4.1, are in %s.\n", printable_text(where));
    else
        fputs("FORMAT.md 4.1, are in the directories stream, replay and docs of the source.\n",
              stdout);
}

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
    help_documents();
    return PROGRAM_OK;
}

static int unknown_command(const char *name)
{
    return program_usage_error("malloctape", "there is no command '%s'", name);
}

static bool is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int help(int count, char **words)
{
    if (count > 2) return program_usage_error("malloctape", "help takes one command");
    if (count < 2 || is_help(words[1])) return help_general();
    const struct cli_command *command = command_find(words[1]);
    if (command == NULL) return unknown_command(words[1]);
    if (command->help != NULL) return program_help(command->help);
    return cli_run(command, 2, (char *[]){words[1], (char *)"--help", NULL});
}

/* Words behind COMPLETE_OPTION. */
static int complete(int count, char **words)
{
    if (count == 1 || (count == 2 && strcmp(words[0], "help") == 0)) {
        for (size_t i = 0; i < COMMANDS; i++)
            complete_word(words[count - 1], commands[i]->name, commands[i]->line);
        if (count == 1) complete_word(words[0], "help", "how to use a command");
        if (count == 1 && *words[0] == '-') complete_word(words[0], "--version", "the version");
        return PROGRAM_OK;
    }
    const struct cli_command *command = count > 0 ? command_find(words[0]) : NULL;
    if (command == NULL) return PROGRAM_OK;
    char **all = calloc((size_t)count + 2, sizeof *all);
    if (all == NULL) return PROGRAM_FAILED;
    all[1] = (char *)COMPLETE_OPTION;
    memcpy(all + 2, words + 1, (size_t)(count - 1) * sizeof *all);
    const int status = cli_run(command, count + 1, all);
    free(all);
    return status;
}

static int command_run(int count, char **words)
{
    if (count < 2) return program_usage_error("malloctape", "which command?");
    const char *name = words[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return program_version("malloctape");
    if (is_help(name)) return help(count - 1, words + 1);
    if (strcmp(name, COMPLETE_OPTION) == 0) return complete(count - 2, words + 2);
    const struct cli_command *command = command_find(name);
    if (command == NULL) return unknown_command(name);
    return cli_run(command, count - 1, words + 1);
}

int main(int count, char **words)
{
    int status = command_run(count, words);
    return program_end("malloctape", status);
}
