/* fuzz_instructions - instruction streams, as replay reads and carries them out with its engine `null`. */
#include <stdio.h>
#include <stdlib.h>

#include "common/input.h"
#include "postprocess/instruction_reader.h"
#include "replay/run.h"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct options options;

int LLVMFuzzerInitialize(int *count, char ***words)
{
    char program[] = "replay", engine[] = "--engine=null", quiet[] = "--quiet";
    char *arguments[] = {program, engine, quiet, NULL};
    (void)count;
    (void)words;
    if (options_parse(3, arguments, &options) >= 0) abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct report report;
    static struct allocator allocator;
    if (bytes == 0) return 0;
    unsigned choice = data[bytes - 1];
    uint8_t *stream = fuzz_copy(data, --bytes);
    if ((choice & FUZZ_KEEP) == 0) fuzz_seal_instructions(stream, bytes);
    struct input input;
    struct instruction_reader reader;
    report =
        (struct report){.options = &options, .engine = options.engine, .allocator = &allocator};
    if (!input_open_fd(&input, fuzz_file(0, stream, bytes))) abort();
    if (instruction_reader_open(&reader, &input)) run_stream(&options, &reader, &report);
    series_close(&report.series);
    instruction_reader_close(&reader);
    input_close(&input);
    return 0;
}
