#include "tests/fuzz/fuzz_postprocess.h"

#include <fcntl.h>
#include <stdlib.h>

#include "common/output.h"
#include "postprocess/run.h"
#include "tests/fuzz/fuzz_input.h"
#include "tracing/raw_reader.h"

/* More than this is not waited for: an input is small. */
#define PATIENCE_BYTES (4u << 20)

void fuzz_postprocess(const uint8_t *raw, size_t raw_bytes, const uint8_t *spool,
                      size_t spool_bytes, unsigned choice)
{
    static int null = -1;
    if (null < 0) null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct run_options options = {0};
    options.order.salvage = (choice & FUZZ_SALVAGE) != 0;
    options.order.patience_bytes = PATIENCE_BYTES;
    if (spool != NULL) {
        fuzz_file(1, spool, spool_bytes);
        options.spool_path = fuzz_file_name(1);
    }
    struct raw_reader reader;
    struct output output;
    struct run_result result;
    raw_reader_open_fd(&reader, fuzz_file(0, raw, raw_bytes));
    if (!output_open_fd(&output, null)) abort();
    if (reader.state != RAW_STREAM_FAILED) run_order(&reader, &options, &output, &result);
    output_close(&output);
    raw_reader_close(&reader);
}
