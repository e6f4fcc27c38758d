/* fuzz_import - one reader of another tool's format, FUZZ_FORMAT in the environment; and whatever
 * it makes of a file is a stream that its reader accepts. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "convert/formats.h"
#include "stream/instruction_reader.h"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct format *format;

int LLVMFuzzerInitialize(int *count, char ***words)
{
    const char *name = getenv("FUZZ_FORMAT");
    const struct format_entry *entry = name != NULL ? format_find(name) : NULL;
    (void)count;
    (void)words;
    if (entry == NULL) {
        fprintf(stderr, "FUZZ_FORMAT is to be the name of a format\n");
        exit(1);
    }
    format = entry->format;
    return 0;
}

/* Every block of what was written, and the end if there must be one. */
static void read_back(int fd, bool complete)
{
    struct input input;
    struct instruction_reader reader;
    struct instruction_batch batch;
    if (lseek(fd, 0, SEEK_SET) != 0) abort();
    input_open_fd(&input, fd);
    if (instruction_reader_open(&reader, &input))
        while (instruction_reader_next(&reader, &batch)) {}
    if (reader.state != (complete ? INSTRUCTIONS_END : INSTRUCTIONS_CUT)) {
        error_print(stderr, "fuzz_import", NULL, &reader.error);
        abort();
    }
    instruction_reader_close(&reader);
    input_close(&input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    struct source source;
    struct output output;
    struct call_writer writer;
    source_open_memory(&source, data, bytes);
    format_recognize(&source);
    if (fd < 0) fd = memfd_create("stream", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0) abort();
    if (!output_open_fd(&output, fd) || !call_writer_open(&writer, &output, "source=x\n", true)) abort();
    writer.has_threads = format->threads;
    bool good = format->read(&source, &writer);
    /* What is wrong is said. */
    if (!good && !error_is_set(&source.error) && !error_is_set(&writer.error)) abort();
    if (good)
        call_writer_finish(&writer);
    else
        call_writer_cut(&writer);
    good = good && !error_is_set(&writer.error);
    call_writer_close(&writer);
    if (!output_close(&output)) abort();
    source_close(&source);
    read_back(fd, good);
    return 0;
}
