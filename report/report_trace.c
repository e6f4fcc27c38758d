#include "report/report_trace.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/progress.h"
#include "launch/process.h"
#include "reading/ordered.h"
#include "report/by_code_make.h"
#include "report/call_sizes.h"
#include "stream/metadata.h"

/* False: no memory for it. */
static bool report_trace_take_header(struct report_trace *trace,
                                     const struct instruction_header *header)
{
    const char *metadata = header->metadata;
    const size_t bytes = header->metadata_bytes;
    trace->program = metadata_copy(metadata, bytes, "program");
    trace->allocator = metadata_copy(metadata, bytes, "allocator");
    trace->heap_unknown = metadata_copy(metadata, bytes, "heap.unknown");
    trace->foreign_malloc = metadata_copy(metadata, bytes, "malloc");
    trace->recording = metadata_copy(metadata, bytes, "run");
    trace->pid = metadata_copy(metadata, bytes, "pid");
    trace->what_if = metadata_copy(metadata, bytes, "what_if");
    trace->thin = metadata_thin(metadata, bytes);
    char *architecture = metadata_copy(metadata, bytes, "architecture");
    trace->arenas.is_aarch64 = architecture != NULL && strcmp(architecture, "aarch64") == 0;
    trace->arenas.page_bytes = metadata_page_bytes(metadata, bytes);
    free(architecture);
    statistics_take(&trace->tally.history.names, metadata, bytes);
    trace->start_s = metadata_start_s(metadata, bytes);
    trace->is_forked = metadata_is_forked(metadata, bytes);
    trace->tally.has_older = trace->is_forked || metadata_is_attached(metadata, bytes);
    return trace->program != NULL && trace->allocator != NULL && trace->recording != NULL &&
           trace->pid != NULL && trace->what_if != NULL &&
           recorded_settings_take(&trace->settings, metadata);
}

/* `sizes` may be NULL. */
static bool take_batches(struct report_trace *trace, struct instruction_reader *reader,
                         struct output *sizes)
{
    struct instruction_batch batch;
    struct progress progress;
    progress_open(&progress, "malloctape report", "calls", reader->input->fd, true);
    const struct statistics_names *names = &trace->tally.history.names;
    const bool is_glibc = strncmp(trace->allocator, "glibc ", 6) == 0;
    bool good = true;
    while (good && !process_interrupted() && instruction_reader_next(reader, &batch)) {
        trace->tally.recorder_bytes = 0;
        good = tally_add(&trace->tally, &batch, batch.count);
        owners_take_recorder(&trace->owners);
        if (trace->code.is_known && good)
            good = stack_tally_add(&trace->code.tally, &batch, batch.count);
        if (is_glibc && good) good = arenas_add(&trace->arenas, names, &batch);
        if (sizes != NULL && !batch.is_base) call_sizes_add(sizes, &batch);
        progress_show(&progress, reader->totals.calls, input_file_offset(reader->input));
    }
    progress_close(&progress);
    return good || error_set_system(&reader->error, "no memory for %llu objects",
                                    (unsigned long long)reader->totals.live);
}

/* Makes trace->code, once everything has been read. False: no memory. */
static bool make_code(struct report_trace *trace, const struct by_code_options *options)
{
    const struct code_places places = {options->directories, options->directories_count,
                                       trace->path,          strtoull(trace->pid, NULL, 10),
                                       trace->start_s,       options->skip,
                                       options->view,        options->is_compared};
    return by_code_make(&trace->code, options, &places);
}

/* The kernel counts RSS per processor, and ticks have that sum late and rounded, by up to 128 KiB and
 * more a processor; a look adds up pages. */
static void raise_peak(struct report_trace *trace)
{
    if (!trace->owners.is_known) return;
    for (int at_end = 0; at_end < 2; at_end++) {
        const uint64_t bytes = owners_resident(&trace->owners, at_end);
        if (bytes > trace->tally.peak_rss_bytes) trace->tally.peak_rss_bytes = bytes;
    }
}

static int report_trace_read_all(struct report_trace *trace, struct instruction_reader *reader,
                                 struct output *sizes, const struct by_code_options *code)
{
    if (reader->state != INSTRUCTIONS_MORE) return PROGRAM_FAILED; /* no header */
    if (!tally_open(&trace->tally) || !report_trace_take_header(trace, &reader->header)) {
        error_set_system(&reader->error, "no memory for tables");
        return PROGRAM_FAILED;
    }
    instruction_reader_use_indices(reader);
    trace->code.is_known = stack_tally_follow(&trace->code.stacks, reader);
    if (trace->code.is_known && !stack_tally_open(&trace->code.tally, &reader->header)) {
        error_set_system(&reader->error, "no memory for call stacks");
        return PROGRAM_FAILED;
    }
    if (code->has_range) stack_times_limit(&trace->code.tally.times, code->from_ns, code->to_ns);
    if (!owners_follow(&trace->owners, reader, &trace->tally, trace->allocator)) {
        error_set_system(&reader->error, "no memory for mappings");
        return PROGRAM_FAILED;
    }
    if (!take_batches(trace, reader, sizes) || reader->state == INSTRUCTIONS_FAILED ||
        process_interrupted())
        return PROGRAM_FAILED;
    tally_end(&trace->tally, &reader->totals);
    arenas_end(&trace->arenas);
    if (!rounding_count(trace->rounded, &trace->tally.sizes)) {
        error_set_system(&reader->error, "no memory for classes of sizes");
        return PROGRAM_FAILED;
    }
    owners_end(&trace->owners);
    if (trace->code.is_known &&
        !(owners_tell(&trace->owners, &trace->code.tally) && make_code(trace, code))) {
        error_set_system(&reader->error, "no memory for call stacks");
        return PROGRAM_FAILED;
    }
    if (trace->owners.no_memory ||
        !owners_make(&trace->owners, &trace->code, trace->rounded, trace->allocator)) {
        error_set_system(&reader->error, "no memory for mappings");
        return PROGRAM_FAILED;
    }
    raise_peak(trace);
    trace->ends_at_exec = reader->end_status == INSTRUCTION_STATUS_EXEC;
    if (reader->state == INSTRUCTIONS_CUT || reader->end_status == INSTRUCTION_STATUS_CUT)
        trace->status = "cut";
    else
        trace->status = reader->end_status == INSTRUCTION_STATUS_DAMAGED ? "damaged" : "complete";
    return strcmp(trace->status, "cut") == 0 ? PROGRAM_CUT : PROGRAM_OK;
}

/* Opens a reader and reads everything. If the trace is bad, *error says how. */
static int read_ordered(struct report_trace *trace, struct ordered *ordered, struct output *sizes,
                        const struct by_code_options *code, struct error *error)
{
    struct instruction_reader reader;
    instruction_reader_open(&reader, ordered->input);
    int status = report_trace_read_all(trace, &reader, sizes, code);
    /* A truncated stream has ended, too: postprocess may be about to print the reason. */
    const bool ended = reader.state == INSTRUCTIONS_END || reader.state == INSTRUCTIONS_CUT;
    *error = reader.error;
    instruction_reader_close(&reader);
    const int ordering = ordered_close(ordered, ended);
    if (ordering == PROGRAM_OK || ordering == PROGRAM_CUT) return status;
    /* If postprocess failed, it has printed the reason itself, unless the system refused this
     * process something. */
    if (error->kind != &error_system) *error = (struct error){.kind = NULL};
    return PROGRAM_FAILED;
}

int report_read(struct report_trace *trace, const char *path, const char *file,
                const char *call_sizes, const struct by_code_options *code)
{
    struct ordered ordered;
    struct output output = {.fd = -1};
    struct error error = {0};
    *trace = (struct report_trace){.path = path, .status = "damaged"};
    if (!ordered_open(&ordered, file, cli_report.name, &error))
        return cli_data_error(&cli_report, path, &error);
    if (call_sizes != NULL && !call_sizes_open(&output, call_sizes)) {
        ordered_close(&ordered, false);
        return cli_data_error(&cli_report, call_sizes, &output.error);
    }
    int status = read_ordered(trace, &ordered, call_sizes != NULL ? &output : NULL, code, &error);
    if (error_is_set(&error)) cli_data_error(&cli_report, path, &error);
    output.discards = status == PROGRAM_FAILED;
    if (call_sizes != NULL && !output_close(&output))
        status = cli_data_error(&cli_report, call_sizes, &output.error);
    return status;
}

void report_close(struct report_trace *trace)
{
    tally_close(&trace->tally);
    arenas_close(&trace->arenas);
    owners_close(&trace->owners);
    by_code_close(&trace->code);
    rounding_free(trace->rounded);
    recorded_settings_free(&trace->settings);
    free(trace->program);
    free(trace->allocator);
    free(trace->heap_unknown);
    free(trace->foreign_malloc);
    free(trace->recording);
    free(trace->pid);
    free(trace->what_if);
}

const char *report_name(const struct report_trace *trace)
{
    return basename(*trace->program != '\0' ? trace->program : trace->path);
}

bool report_tally_until(struct tally *tally, struct stack_tally *stacks, const char *path,
                        uint64_t calls, struct error *error)
{
    struct input input;
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct stacks unused = {.nodes = 0};
    if (!input_open(&input, path)) {
        *error = input.error;
        return false;
    }
    instruction_reader_open(&reader, &input);
    instruction_reader_use_indices(&reader);
    const bool has_stacks = stack_tally_follow(&unused, &reader);
    bool good = tally_open(tally) && stack_tally_open(stacks, &reader.header);
    while (good && tally->calls < calls && !process_interrupted() &&
           instruction_reader_next(&reader, &batch)) {
        const size_t count = instruction_batch_after_call(&batch, calls - tally->calls);
        good = tally_add(tally, &batch, count) &&
               (!has_stacks || stack_tally_add(stacks, &batch, count));
    }
    stacks_free(&unused);
    if (!good) error_set_system(error, "no memory for objects");
    if (process_interrupted()) error_set(error, &error_system, ERROR_NO_OFFSET, "interrupted");
    good = good && tally->calls == calls;
    if (!good) *error = error_is_set(error) ? *error : reader.error;
    instruction_reader_close(&reader);
    input_close(&input);
    return good;
}
