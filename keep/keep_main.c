/* malloctape-keep - keeps the last minutes of a recording; `malloctape record --keep` starts it. */
#include "common/program.h"
#include "keep/keep_options.h"
#include "keep/keep_run.h"

int main(int count, char **words)
{
    static struct keep_options options;
    const int status = keep_options_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return program_end("malloctape-keep", status);
    return keep_run(&options);
}
