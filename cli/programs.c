/* Commands that are separate programs in the directory of this one. import, export and sweep are
 * separate because loading the libraries for other formats takes 10 ms, which the other commands
 * should not pay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/installed.h"

#define CONVERT "malloctape-convert"

/* Becomes the program, with `first`, unless NULL, before the words. Messages are in the name of
 * `command`. */
static int programs_become(const struct cli_command *command, const char *name, const char *first,
                           int count, char **words)
{
    struct installed program;
    char **all = calloc((size_t)count + 2, sizeof *all), **next = all;
    if (all == NULL) return cli_fail(command, "no memory");
    *next++ = words[0];
    if (first != NULL) *next++ = (char *)first;
    memcpy(next, words + 1, (size_t)(count - 1) * sizeof *all);
    const bool found = installed_find_program(&program, name);
    if (found) execv(program.path, all);
    const char *why = found ? strerror(errno) : "not found";
    free(all);
    return cli_fail(command, "cannot run %s: %s", program.path, why);
}

static int run_import(int count, char **words)
{
    return programs_become(&cli_import, CONVERT, "import", count, words);
}

static int run_export(int count, char **words)
{
    return programs_become(&cli_export, CONVERT, "export", count, words);
}

static int run_order(int count, char **words)
{
    return programs_become(&cli_order, "postprocess", NULL, count, words);
}

static int run_replay(int count, char **words)
{
    return programs_become(&cli_replay, "replay", NULL, count, words);
}

static int programs_run_sweep(int count, char **words)
{
    return programs_become(&cli_sweep, "malloctape-sweep", NULL, count, words);
}

const struct cli_command cli_import = {
    "import", "makes an instruction stream of another tool's file", run_import, NULL};
const struct cli_command cli_export = {"export", "writes a trace in another tool's format",
                                       run_export, NULL};
const struct cli_command cli_order = {
    "order", "puts a recording in order: an instruction stream comes out", run_order, NULL};
const struct cli_command cli_replay = {
    "replay", "replays a stream on the allocator that is preloaded", run_replay, NULL};
const struct cli_command cli_sweep = {"sweep",
                                      "compares many traces and settings, here or on many machines",
                                      programs_run_sweep, NULL};
