/* malloctape-sweep - `malloctape sweep` (cli/programs.c). */
#include "cli/cli.h"

int main(int count, char **words)
{
    if (count == 0) return PROGRAM_USAGE;
    return program_end("malloctape", cli_run(&cli_sweep, count, words));
}
