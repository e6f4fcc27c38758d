/* import and export - are a program of their own, beside this one: what the libraries of other
 * formats cost when a program begins (10 ms), the other commands need not pay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/installed.h"

#define CONVERT "malloctape-convert"

static int run(const struct cli_command *command, int count, char **words)
{
    struct installed program;
    char **all = calloc((size_t)count + 2, sizeof *all);
    if (all == NULL) return cli_fail(command, "no memory");
    all[0] = (char *)CONVERT;
    all[1] = (char *)command->name;
    memcpy(all + 2, words + 1, (size_t)(count - 1) * sizeof *all);
    const bool found = installed_find_program(&program, CONVERT);
    if (found) execv(program.path, all);
    const char *why = found ? strerror(errno) : "not found";
    free(all);
    return cli_fail(command, "cannot run %s: %s", program.path, why);
}

static int run_import(int count, char **words)
{
    return run(&cli_import, count, words);
}

static int run_export(int count, char **words)
{
    return run(&cli_export, count, words);
}

const struct cli_command cli_import = {
    "import", "makes an instruction stream of another tool's file", run_import, NULL};
const struct cli_command cli_export = {"export", "writes a trace in another tool's format",
                                       run_export, NULL};
