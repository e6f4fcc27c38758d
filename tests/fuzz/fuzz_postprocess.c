#include "tests/fuzz/fuzz_postprocess.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/output.h"
#include "postprocess/order_trace.h"
#include "stream/raw_reader.h"
#include "tests/fuzz/fuzz_input.h"

/* More than this is not waited for: an input is small. */
#define PATIENCE_BYTES (4u << 20)

static void write_file(const char *directory, const char *name, const uint8_t *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* For whoever wants to give a finding to the program itself. */
static void write_files(const uint8_t *raw, size_t raw_bytes, const uint8_t *spool,
                        size_t spool_bytes)
{
    const char *directory = getenv("FUZZ_DIRECTORY");
    if (directory == NULL) return;
    write_file(directory, "raw", raw, raw_bytes);
    if (spool != NULL) write_file(directory, "raw.spool", spool, spool_bytes);
}

void fuzz_postprocess(const uint8_t *raw, size_t raw_bytes, const uint8_t *spool,
                      size_t spool_bytes, unsigned choice)
{
    static int null = -1;
    if (null < 0) null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    write_files(raw, raw_bytes, spool, spool_bytes);
    struct order_trace_options options = {0};
    options.order.salvage = (choice & FUZZ_SALVAGE) != 0;
    options.order.patience_bytes = PATIENCE_BYTES;
    if (spool != NULL) {
        fuzz_file(1, spool, spool_bytes);
        options.spool_path = fuzz_file_name(1);
    }
    struct raw_reader reader;
    struct output output;
    struct order_trace_result result;
    raw_reader_open_fd(&reader, fuzz_file(0, raw, raw_bytes));
    if (!output_open_fd(&output, null)) abort();
    if (reader.state != RAW_STREAM_FAILED) order_trace(&reader, &options, &output, &result);
    output_close(&output);
    raw_reader_close(&reader);
}
