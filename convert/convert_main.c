/* malloctape-convert - `malloctape import` and `export` (cli/programs.c). */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

int main(int count, char **words)
{
    static const struct cli_command *const commands[] = {&cli_import, &cli_export};
    for (size_t i = 0; count > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i]->name, words[1]) == 0)
            return program_end("malloctape", cli_run(commands[i], count - 1, words + 1));
    fputs("malloctape-convert: see malloctape help import, malloctape help export\n", stderr);
    return PROGRAM_USAGE;
}
