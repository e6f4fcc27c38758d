#include "writer_own.h"

#include "../common/bytes.h"
#include "../common/checksum.h"
#include "probes.h"
#include "report.h"
#include "settings.h"

#include <errno.h>
#include <string.h>

/* How often the writer looks whether somebody reads a FIFO. */
#define READER_LOOK_NS UINT64_C(10000000)

static void put_header(struct writer *writer)
{
    uint8_t *header = sink_room(&writer->sink, RAW_HEADER_BYTES + settings.metadata_bytes);
    uint8_t *metadata = header + RAW_HEADER_BYTES;
    memset(header, 0, RAW_HEADER_BYTES);
    bytes_put64(header + RAW_HEADER_MAGIC, RAW_MAGIC);
    bytes_put16(header + RAW_HEADER_VERSION_MAJOR, RAW_VERSION_MAJOR);
    bytes_put16(header + RAW_HEADER_VERSION_MINOR, RAW_VERSION_MINOR);
    bytes_put32(header + RAW_HEADER_METADATA_BYTES, (uint32_t)settings.metadata_bytes);
    bytes_put64(header + RAW_HEADER_FEATURES, writer->features);
    memcpy(header + RAW_HEADER_RECORDING_ID, writer->recording_id, RAW_RECORDING_ID_BYTES);
    bytes_put64(header + RAW_HEADER_START_NS,
                os_wall_clock_ns() - (os_clock_ns() - writer->start_ns));
    bytes_put32(header + RAW_HEADER_PID, (uint32_t)writer->process_id);
    memcpy(metadata, settings.metadata, settings.metadata_bytes);
    bytes_put32(header + RAW_HEADER_CHECKSUM,
                checksum_of_two(header, RAW_HEADER_CHECKSUM, metadata, settings.metadata_bytes));
    sink_commit(&writer->sink, RAW_HEADER_BYTES + settings.metadata_bytes);
}

static int begin_stream(struct writer *writer)
{
    int result = sink_open(&writer->sink, writer->files.file);
    if (writer_check(writer, result, writer->output) < 0) return result;
    put_header(writer);
    return writer_check(writer, sink_flush(&writer->sink), writer->output);
}

static int open_output(struct writer *writer)
{
    struct output_files *files = &writer->files;
    *files = (struct output_files){.name = writer->output, .scratch = settings.scratch};
    memcpy(&files->id, writer->recording_id, sizeof files->id);
    int result = output_make(files);
    if (writer_check(writer, result, files->failed) < 0) return result;
    result = spool_open(&writer->spool, files->spool, writer->recording_id, writer->process_id,
                        writer->features);
    if (writer_check(writer, result, files->spool_path) < 0) return result;
    result = output_start(files);
    if (writer_check(writer, result, files->failed) < 0) return result;
    writer->sink.has_reader = files->has_reader;
    writer->sink.patience_ns = settings.patience_ns;
    writer->sink.meanwhile = writer_grow_meanwhile;
    writer->sink.meanwhile_argument = writer;
    if (files->kind == OUTPUT_FIFO) return 0;
    result = begin_stream(writer);
    if (result < 0) return result;
    result = output_settle(files);
    return writer_check(writer, result, files->failed);
}

/* Until then, an older recording of the same name is what it was. */
static int open_all(struct writer *writer)
{
    writer->start_ns = os_clock_ns();
    writer->start_cycles = __builtin_ia32_rdtsc();
    writer->next_tick_ns = writer->start_ns + WRITER_TICK_NS;
    packer_init(&writer->packer,
                &(struct pack_source){malloctape_front_end.class_of_size, shadow_block_class(0),
                                      os_memory_reserve, os_memory_release,
                                      (writer->features & RAW_FEATURE_OPAQUE) != 0});
    writer->sink.is_opaque = writer->features & RAW_FEATURE_OPAQUE;
    int result = sink_prepare(&writer->sink);
    if (writer_check(writer, result, "memory") < 0) return result;
    result = open_output(writer);
    if (result < 0) output_discard(&writer->files);
    return result;
}

/* Said first: a program that goes on may end at once. */
int writer_open(struct writer *writer)
{
    int result = open_all(writer);
    if (result < 0) {
        writer_report_failure(writer, "not recording: ");
    } else {
        report("begin %lu %s", (uint64_t)writer->process_id, writer->output);
        PROBE(recording_begin, writer->output, writer->process_id);
    }
    return result;
}

int writer_take_up(struct writer *writer)
{
    int result = output_take_up(&writer->files);
    writer->sink.file = writer->files.file;
    writer->spool.file = writer->files.spool;
    return writer_check(writer, result, writer->files.failed);
}

int writer_await_reader(struct writer *writer)
{
    int result;
    while ((result = output_connect(&writer->files)) == -ENXIO) {
        if (settings.patience_ns && os_clock_ns() - writer->start_ns >= settings.patience_ns)
            return writer_check(writer, -ETIMEDOUT, writer->output);
        writer_grow_if_starved(writer);
        if (writer->error) return writer->error;
        atomic_store_seq_cst(&writer->asleep, 1);
        if (!atomic_load_seq_cst(&writer->starved)) os_wait(&writer->asleep, 1, READER_LOOK_NS);
    }
    if (writer_check(writer, result, writer->output) < 0) return result;
    result = begin_stream(writer);
    if (result < 0) os_file_close(writer->files.file);
    return result;
}
