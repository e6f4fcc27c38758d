/* fuzz_instructions - instruction streams: as replay reads and carries them out with its engine
 * `null`, which has indices, and as everybody else reads them, with registers. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "common/input.h"
#include "common/pages.h"
#include "replay/run.h"
#include "stream/instruction_reader.h"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct options options;

/* In place of the C library's: no process reads ahead, whose steps the fuzzer would not see. */
pid_t _Fork(void);
pid_t _Fork(void)
{
    return -1;
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
    char program[] = "replay", engine[] = "--engine=null", quiet[] = "--quiet";
    char *arguments[] = {program, engine, quiet, NULL};
    (void)count;
    (void)words;
    if (options_parse(3, arguments, &options) >= 0) abort();
    return 0;
}

/* With registers, and one instruction after another. What is right so is right with indices, too;
 * only wrong live bytes go unnoticed there. */
static void read_registers(const uint8_t *stream, size_t bytes, enum report_status status)
{
    struct input input;
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct instruction one;
    input_open_fd(&input, fuzz_file(0, stream, bytes));
    if (instruction_reader_open(&reader, &input)) {
        while (instruction_reader_next(&reader, &batch)) {
            struct instruction_walk walk = instruction_walk_over(&batch, batch.count);
            while (instruction_walk_next(&walk, &one))
                if (one.object != INSTRUCTION_NO_REGISTER && one.object >= batch.registers) abort();
        }
    }
    if (reader.state == INSTRUCTIONS_END && status != REPORT_COMPLETE) abort();
    if (reader.state == INSTRUCTIONS_CUT && status != REPORT_CUT) abort();
    instruction_reader_close(&reader);
    input_close(&input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct report report;
    static struct allocator allocator;
    if (bytes == 0) return 0;
    unsigned choice = data[bytes - 1];
    uint8_t *stream = fuzz_copy(data, --bytes);
    if ((choice & FUZZ_KEEP) == 0) fuzz_seal_instructions(stream, bytes);
    struct ahead ahead;
    char path[32];
    report =
        (struct report){.options = &options, .engine = options.engine, .allocator = &allocator};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fuzz_file(0, stream, bytes));
    bool opened = ahead_open(&ahead, path, options.engine->indices);
    if (opened) run_stream(&options, &ahead, &report);
    pages_unmap(report.series.rows, SERIES_ROWS_MAX * sizeof *report.series.rows);
    ahead_end(&ahead);
    ahead_close(&ahead);
    if (opened) read_registers(stream, bytes, report.status);
    return 0;
}
