#include "sweep/collect.h"

#include "cli/cli.h"

int sweep_collect(const char *directory, const struct sweep_collect_options *options)
{
    (void)directory, (void)options;
    return cli_fail(&cli_sweep, "--collect: not built yet");
}
