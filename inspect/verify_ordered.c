/* verify_ordered - checks an instruction stream that has no recording, as `malloctape import`
 * makes. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "common/printable.h"
#include "inspect/verify.h"
#include "stream/instruction_reader.h"

/* The reader follows every object and compares live bytes, peaks and totals (INSTRUCTIONS.md 8). */
int verify_ordered(struct stream *stream, const char *path)
{
    struct instruction_reader reader;
    struct instruction_batch batch;
    uint64_t blocks = 0;
    int status = PROGRAM_OK;
    const bool opened = instruction_reader_open(&reader, &stream->input);
    if (opened)
        while (instruction_reader_next(&reader, &batch))
            blocks++;
    const struct instruction_totals *totals = &reader.totals;
    if (reader.state == INSTRUCTIONS_FAILED || reader.state == INSTRUCTIONS_CUT)
        status = cli_data_error(&cli_verify, path, &reader.error);
    if (opened && reader.state == INSTRUCTIONS_CUT) status = PROGRAM_CUT;
    if (status != PROGRAM_FAILED) {
        printf("calls: %" PRIu64 " in %" PRIu64 " blocks; each on an object that is alive there\n",
               totals->calls, blocks);
        printf("live bytes, peaks and totals: as the stream says\n");
        printable_say(stdout, "%s: consistent%s; there is no recording to compare it with", path,
                      status == PROGRAM_CUT ? ", as far as it goes" : "");
    }
    instruction_reader_close(&reader);
    return status;
}
