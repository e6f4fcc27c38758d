/* malloctape export - writes a trace in another tool's format. */
#include "convert/export_writer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/call_table.h"
#include "common/json_file.h"
#include "common/numbers.h"
#include "convert/avro_mappings.h"
#include "convert/convert_files.h"
#include "reading/mapped_peak.h"
#include "reading/ordered.h"
#include "stream/metadata.h"

#define EXPORT_ERROR_LIST(X)                \
    X(EXPORT_NO_STACKS, "export_no_stacks", \
      "the trace has no call stacks (malloctape record --stacks)")
enum export_error { EXPORT_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind export_errors[] = {EXPORT_ERROR_LIST(ERROR_LIST_KIND)};

static const char export_help_text[] =
    "usage: malloctape export --to FORMAT [--quiet] [--json FILE] TRACE -o OUT\n"
    "\n"
    "Writes the calls of TRACE, a recording or an instruction stream, in another tool's format.\n"
    "TRACE and OUT may be -, the standard input and output. The summary on standard error says\n"
    "what the format cannot hold, and how many calls that concerns.\n"
    "\n"
    "      --to FORMAT   avro (a row for each object), c (a program), memory_replay, mtrace, ops, rep,\n"
    "                    wl; of call stacks: folded, heaptrack, pprof\n"
    "  -o, --output OUT  where it goes; compressed if the name ends in .lz4, which is\n"
    "                    refused for avro and pprof: they are compressed already; other endings\n"
    "                    that mean compression (.gz) are refused for the others\n"
    "      --measure WHAT\n"
    "                    the numbers of folded, and those that pprof shows first: calls, bytes (the\n"
    "                    default), peak or end (bytes alive then), mapped (bytes resident of what\n"
    "                    was mapped)\n"
    "      --by WHAT     in folded, what is a function of its own: function (the default), line\n"
    "      --stacks FILE with avro: writes the call stacks, whose numbers the objects have, too\n"
    "      --mappings FILE\n"
    "                    with avro: writes what the program mapped, too, a row for each call\n"
    "      --symbols DIR where files of programs and libraries are looked for, by build id or\n"
    "                    name, to name functions; may be given several times; none: nowhere\n"
    "      --frames WHICH\n"
    "                    in folded and pprof, of call stacks with functions that an interpreter\n"
    "                    runs (Python, Ruby): all (without those of the interpreter between),\n"
    "                    interpreted, or native\n"
    "  -j, --json FILE   writes the summary as JSON\n"
    "  -q, --quiet       no summary\n"
    "\n"
    "formats.md says what each format keeps of a trace. The exit status is 0, 3 when the\n"
    "trace was cut short, 1 when it is damaged or OUT cannot be written.\n";

static const struct export_writer *const writers[] = {
    &export_avro,   &export_c,   &export_folded, &export_heaptrack, &export_memory_replay,
    &export_mtrace, &export_ops, &export_pprof,  &export_rep,       &export_wl};
enum { WRITERS = sizeof writers / sizeof *writers };

enum { WIDTH = 36 }; /* of the words in the summary */
enum { DIRECTORIES_MAX = 16 };

/* The values of --measure. */
static const struct measure {
    const char *name;
    enum stack_measure measure;
    bool is_bytes;
} measures[] = {{"bytes", STACK_MADE, true},
                {"calls", STACK_MADE, false},
                {"peak", STACK_AT_PEAK, true},
                {"end", STACK_AT_END, true},
                {"mapped", STACK_MAPPED, true}};
enum { MEASURES = sizeof measures / sizeof *measures };

struct options {
    const struct export_writer *writer;
    const char *trace, *output, *json, *stacks, *mappings;
    const struct measure *measure;
    const char *symbols[DIRECTORIES_MAX];
    size_t symbols_count;
    enum code_view view;
    bool quiet, by_line;
};

/* ---- options ---- */

static int writer_take(void *of, const char *name)
{
    struct options *options = of;
    for (size_t i = 0; i < WRITERS; i++) {
        options->writer = writers[i];
        if (strcmp(writers[i]->name, name) == 0) return PROGRAM_GO_ON;
    }
    return cli_usage_error(&cli_export, "there is no format '%s'", name);
}

static void writers_offer(program_add *add)
{
    for (size_t i = 0; i < WRITERS; i++)
        add(writers[i]->name, NULL);
}

static int measure_take(void *of, const char *name)
{
    struct options *options = of;
    for (size_t i = 0; i < MEASURES; i++) {
        options->measure = &measures[i];
        if (strcmp(measures[i].name, name) == 0) return PROGRAM_GO_ON;
    }
    return cli_usage_error(&cli_export,
                           "--measure takes calls, bytes, peak, end or mapped, not '%s'", name);
}

static void measures_offer(program_add *add)
{
    for (size_t i = 0; i < MEASURES; i++)
        add(measures[i].name, NULL);
}

static int export_by_take(void *of, const char *what)
{
    struct options *options = of;
    options->by_line = strcmp(what, "line") == 0;
    if (options->by_line || strcmp(what, "function") == 0) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_export, "--by takes function or line, not '%s'", what);
}

static void export_by_offer(program_add *add)
{
    add("function", NULL);
    add("line", NULL);
}

static int export_symbols_take(void *of, const char *directory)
{
    struct options *options = of;
    if (options->symbols_count == DIRECTORIES_MAX)
        return cli_usage_error(&cli_export, "--symbols: too many directories");
    options->symbols[options->symbols_count++] = directory;
    return PROGRAM_GO_ON;
}

static int export_frames_take(void *of, const char *which)
{
    struct options *options = of;
    if (code_view_parse(which, &options->view)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_export, "--frames takes all, interpreted or native, not '%s'",
                           which);
}

static void export_frames_offer(program_add *add)
{
    for (enum code_view view = CODE_VIEW_ALL; view <= CODE_VIEW_NATIVE; view++)
        add(code_view_words[view], NULL);
}

/* The command that makes what the ending of the name promises, and export does not; or NULL. */
static const char *compressor_of(const char *path)
{
    static const char *const endings[][2] = {
        {".gz", "gzip"}, {".zst", "zstd"}, {".xz", "xz"}, {".bz2", "bzip2"}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i][0]) == 0) return endings[i][1];
    return NULL;
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int export_words_parse(struct options *options, int count, char **words)
{
    const struct program_option known[] = {
        {"to", .take = writer_take, .values = writers_offer},
        {"measure", .take = measure_take, .values = measures_offer},
        {"by", .take = export_by_take, .values = export_by_offer},
        {"stacks", .word = &options->stacks},
        {"mappings", .word = &options->mappings},
        {"symbols", .take = export_symbols_take},
        {"frames", .take = export_frames_take, .values = export_frames_offer},
        {"output", 'o', .word = &options->output},
        {"json", 'j', .word = &options->json},
        {"quiet", 'q', .flag = &options->quiet},
        {.name = NULL}};
    const int status =
        program_options(count, words, known, export_help_text, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    if (options->writer == NULL) return cli_usage_error(&cli_export, "--to FORMAT is needed");
    if (options->output == NULL) return cli_usage_error(&cli_export, "-o OUT is needed");
    if (optind + 1 != count) return cli_usage_error(&cli_export, "export takes one trace");
    options->trace = words[optind];
    const char *const outputs[] = {options->output, options->json, options->stacks,
                                   options->mappings};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (outputs[i] != NULL && output_would_replace(outputs[i], options->trace))
            return cli_usage_error(&cli_export, "%s would be both read and written", outputs[i]);
    if (options->by_line && options->writer != &export_folded)
        return cli_usage_error(&cli_export, "--by line needs --to folded");
    if ((options->stacks != NULL || options->mappings != NULL) && options->writer != &export_avro)
        return cli_usage_error(&cli_export, "--stacks and --mappings need --to avro");
    if (options->writer->packed && output_is_lz4(options->output))
        return cli_usage_error(&cli_export, "%s: %s is compressed already; leave out .lz4",
                               options->output, options->writer->name);
    const char *const command = options->writer->packed ? NULL : compressor_of(options->output);
    if (command != NULL)
        return cli_usage_error(&cli_export,
                               "%s: only names that end in .lz4 are compressed here; "
                               "-o - | %s -c > FILE makes this one",
                               options->output, command);
    return PROGRAM_GO_ON;
}

/* ---- the calls ---- */

struct exporting {
    struct export export;
    const struct export_writer *writer;
    const struct options *options;
    uint64_t *threads; /* ids, by lane */
    uint32_t lane;
    uint64_t tick_ns, ns; /* of the latest tick; of the latest call */
    uint64_t peak_rss_bytes;
    double thin;     /* of a thinned trace: for how many an object stands; or 0 */
    bool has_mapped; /* something that the program has mapped was resident */
};

/* A call gets the time of the latest tick, but at least a nanosecond more than the previous
 * call. */
static struct export_call call_here(struct exporting *state)
{
    state->ns = state->ns >= state->tick_ns ? state->ns + 1 : state->tick_ns;
    return (struct export_call){
        .lane = state->lane,
        .thread = state->threads[state->lane],
        .object = INSTRUCTION_NO_REGISTER,
        .ns = state->ns,
    };
}

static bool export_one_call(struct exporting *state, const struct instruction *one,
                            const uint64_t *operands, uint32_t stack)
{
    struct export_losses *losses = &state->export.losses;
    struct export_call call = call_here(state);
    call.kind = instruction_number(one);
    call.shape = call_shapes[call.kind];
    call.failed = (one->opcode & INSTRUCTION_FAILED) != 0;
    call.unknown = (one->opcode & INSTRUCTION_UNKNOWN) != 0;
    call.object = one->object;
    call.size = one->size;
    call.stack = stack;
    if (call.shape == SHAPE_HEAP) {
        losses->heap++;
        return true;
    }
    if (call.failed || (call.unknown && call.shape != SHAPE_REALLOC)) {
        losses->failed += call.failed;
        losses->unknown += !call.failed;
        return true;
    }
    losses->unknown_reallocs += call.unknown;
    if (shape_has_alignment(call.shape)) call.alignment = operands[one->operand_at];
    state->export.calls++;
    return state->writer->call(&state->export, &call);
}

static bool export_instruction(struct exporting *state, const struct instruction *one,
                               const uint64_t *operands, uint32_t stack)
{
    unsigned number = instruction_number(one);
    if (number < CALL_KINDS) return export_one_call(state, one, operands, stack);
    switch (number) {
    case INSTRUCTION_LANE: state->lane = (uint32_t)operands[one->operand_at]; break;
    case INSTRUCTION_THREAD_BEGIN: state->threads[state->lane] = operands[one->operand_at]; break;
    case INSTRUCTION_TICK:
        state->tick_ns += operands[one->operand_at];
        if (operands[one->operand_at + 1] > state->peak_rss_bytes)
            state->peak_rss_bytes = operands[one->operand_at + 1];
        break;
    case INSTRUCTION_THREAD_END: {
        struct export_call where = call_here(state);
        if (state->writer->thread_end != NULL)
            return state->writer->thread_end(&state->export, &where);
        break;
    }
    default: break;
    }
    return true;
}

static void ticks_take(struct exporting *state, const struct instruction_batch *batch)
{
    for (size_t i = 0; i < batch->ticks_count; i++) {
        const uint64_t *operands = batch->operands + batch->ticks[i].operand_at;
        state->tick_ns += operands[0];
        if (operands[1] > state->peak_rss_bytes) state->peak_rss_bytes = operands[1];
    }
}

static bool export_put_object(void *of, const struct object *object)
{
    struct exporting *state = of;
    return state->writer->object(&state->export, object);
}

static bool export_objects(struct exporting *state, struct instruction_reader *reader)
{
    struct instruction_batch batch;
    struct objects objects;
    bool good = objects_open(&objects, export_put_object, state);
    instruction_reader_use_indices(reader);
    while (good && instruction_reader_next(reader, &batch)) {
        good = objects_add(&objects, &batch);
        ticks_take(state, &batch);
    }
    good = good && objects_end(&objects);
    objects_close(&objects);
    if (!good) error_set_system(&state->export.error, "cannot continue");
    return good;
}

static bool export_calls(struct exporting *state, struct instruction_reader *reader)
{
    struct instruction_batch batch;
    struct instruction one;
    bool good = true;
    while (good && instruction_reader_next(reader, &batch)) {
        struct instruction_walk walk = instruction_walk_over(&batch, batch.count);
        while (good && instruction_walk_next(&walk, &one))
            good = export_instruction(state, &one, batch.operands, instruction_walk_stack(&walk));
    }
    return good;
}

/* ---- the call stacks ---- */

static bool count_stacks(struct exporting *state, struct instruction_reader *reader,
                         struct stack_tally *tally)
{
    struct instruction_batch batch;
    struct mapped_peak mapped;
    bool good = stack_tally_open(tally, &reader->header);
    instruction_reader_use_indices(reader);
    mapped_peak_follow(&mapped, reader);
    while (good && instruction_reader_next(reader, &batch)) {
        good = stack_tally_add(tally, &batch, batch.count);
        ticks_take(state, &batch);
    }
    for (size_t i = 0; good && i < mapped.count; i++)
        good = stack_tally_add_mapped(tally, mapped.parts[i].stack, 1, mapped.parts[i].bytes);
    good = good && !mapped.no_memory && stack_tally_end(tally);
    state->has_mapped = mapped.count > 0;
    mapped_peak_free(&mapped);
    return good || error_set_system(&state->export.error, "no memory for call stacks");
}

/* Call when all of the trace has been read. */
static bool write_code(struct exporting *state, const struct instruction_reader *reader,
                       const struct stacks *stacks, struct stack_tally *tally)
{
    const struct options *options = state->options;
    const char *metadata = reader->header.metadata;
    const size_t bytes = reader->header.metadata_bytes;
    char *pid = metadata_copy(metadata, bytes, "pid");
    char *program = metadata_copy(metadata, bytes, "program");
    struct code_places places = {
        options->symbols, options->symbols_count, options->trace, 0, 0, NULL, options->view, false};
    struct code_names names = {.count = 0};
    bool good = pid != NULL && program != NULL;
    if (good) {
        places.pid = strtoull(pid, NULL, 10);
        places.start_s = metadata_start_s(metadata, bytes);
        good = code_names_open(&names, stacks, &places);
    }
    if (!good) error_set_system(&state->export.error, "no memory for call stacks");
    good = good && state->writer->code(
                       &state->export,
                       &(struct export_code){.stacks = stacks,
                                             .names = &names,
                                             .tally = tally,
                                             .program = program,
                                             .stacks_path = options->stacks,
                                             .measure = options->measure->measure,
                                             .is_bytes = options->measure->is_bytes,
                                             .by_line = options->by_line,
                                             .sample_bytes =
                                                 tally->chance.bytes > 0 ? tally->chance.bytes : 1,
                                             .start_ns = (uint64_t)(places.start_s * 1e9),
                                             .duration_ns = state->tick_ns,
                                             .peak_rss_bytes = state->peak_rss_bytes,
                                             .has_mapped = state->has_mapped});
    if (good && !options->quiet) code_names_print_missing(&names, "! ", stderr);
    code_names_close(&names);
    free(pid);
    free(program);
    return good;
}

/* By a writer with code(). */
static bool export_code(struct exporting *state, struct instruction_reader *reader)
{
    const struct export_writer *writer = state->writer;
    struct stack_tally tally = {.stacks = NULL};
    struct stacks stacks = {.nodes = 0};
    const bool wants = writer->object == NULL || state->options->stacks != NULL;
    if (!stack_tally_follow(&stacks, reader) && wants)
        return error_set(&state->export.error, &export_errors[EXPORT_NO_STACKS], ERROR_NO_OFFSET,
                         NULL);
    bool good = writer->object != NULL ? export_objects(state, reader)
                : writer->call != NULL ? export_calls(state, reader)
                                       : count_stacks(state, reader, &tally);
    good = good && (!wants || write_code(state, reader, &stacks, &tally));
    stack_tally_close(&tally);
    stacks_free(&stacks);
    return good;
}

static bool export_all(struct exporting *state, struct instruction_reader *reader)
{
    const struct export_writer *writer = state->writer;
    const char *path = state->options->mappings;
    struct avro_mappings mappings;
    bool good = writer->open == NULL || writer->open(&state->export);
    good = good && (path == NULL ||
                    avro_mappings_open(&mappings, &state->export, path, reader, &state->tick_ns));
    const bool has_mappings = good && path != NULL;
    good = good && (writer->code != NULL     ? export_code
                    : writer->object != NULL ? export_objects
                                             : export_calls)(state, reader);
    if (has_mappings) good = avro_mappings_end(&mappings) && good;
    if (!good && path != NULL) output_remove(path);
    good = good && (writer->finish == NULL || writer->finish(&state->export));
    if (writer->close != NULL) writer->close(&state->export);
    return good;
}

/* ---- the summary ---- */

static void export_figures(const struct exporting *state, numbers_use *use, void *of)
{
    const struct export_losses *losses = &state->export.losses;
    const struct number numbers[] = {
        NUMBER_COUNT_IF_ANY("failed", "failed calls left out", losses->failed),
        NUMBER_COUNT_IF_ANY("unknown", "of unknown objects: frees left out", losses->unknown),
        NUMBER_COUNT_IF_ANY("unknown_reallocs", "of unknown objects: reallocs changed",
                            losses->unknown_reallocs),
        NUMBER_COUNT_IF_ANY("heap_calls", "calls about the heap left out", losses->heap),
        NUMBER_COUNT_IF_ANY("kinds_changed", "calls of other kinds", losses->kinds),
        NUMBER_COUNT_IF_ANY("alignments", "alignments left out", losses->alignments),
        NUMBER_COUNT_IF_ANY("threads_joined", "threads that continue as one that had ended",
                            losses->threads),
        NUMBER_COUNT_IF_ANY("thread_switches", "thread switches left out", losses->switches),
    };
    use(of, numbers, sizeof numbers / sizeof *numbers);
}

static void export_print_summary(const struct exporting *state)
{
    struct numbers_text text = {.to = stderr, .width = WIDTH};
    fprintf(stderr, "%-*s %s\n", WIDTH, "format", state->writer->title);
    fprintf(stderr, "%-*s %" PRIu64 "\n", WIDTH,
            state->writer->unit != NULL ? state->writer->unit : "calls", state->export.calls);
    if (*state->writer->loses != '\0')
        fprintf(stderr, "%-*s %s\n", WIDTH, "it cannot hold", state->writer->loses);
    if (state->thin > 0) {
        char thin[METADATA_THIN_TEXT];
        metadata_thin_text(state->thin, thin);
        fprintf(stderr, "%-*s %s\n", WIDTH, "it is not of the whole", thin);
    }
    export_figures(state, numbers_print, &text);
}

static bool export_write_json(const struct exporting *state, const char *path)
{
    struct error error = {0};
    json_t *object = json_object();
    json_put_text(object, "format", state->writer->name);
    json_put_text(object, "cannot_hold", state->writer->loses);
    json_put_number(object, "calls", state->export.calls);
    json_put_real(object, "thin", state->thin > 0 ? state->thin : NAN);
    export_figures(state, numbers_put, object);
    bool written = json_file_write(object, path, &error);
    if (!written) cli_data_error(&cli_export, path, &error);
    json_decref(object);
    return written;
}

/* ---- all of it ---- */

static bool export_open_output(struct exporting *state, const char *path)
{
    if (!output_open(&state->export.output, path)) {
        cli_data_error(&cli_export, path, &state->export.output.error);
        return false;
    }
    if (output_is_lz4(path)) output_compress(&state->export.output);
    return true;
}

/* Writes the export, when the header of the trace has been read. */
static int export_to(struct exporting *state, struct instruction_reader *reader, const char *path)
{
    if (!export_open_output(state, path)) return PROGRAM_FAILED;
    bool good = export_all(state, reader);
    state->export.output.discards = !good;
    bool closed = output_close(&state->export.output);
    struct error *error = &state->export.output.error;
    if (error_is_set(&state->export.error)) error = &state->export.error;
    if (good && closed) return PROGRAM_OK;
    return cli_data_error(&cli_export, path, error);
}

/* If the trace is bad, *error says how. */
static int export_trace(struct exporting *state, struct ordered *ordered, const char *path,
                        struct error *error)
{
    struct instruction_reader reader;
    int status = PROGRAM_FAILED;
    const bool opened = instruction_reader_open(&reader, ordered->input);
    if (opened) {
        state->thin = metadata_thin(reader.header.metadata, reader.header.metadata_bytes);
        status = export_to(state, &reader, path);
    }
    if (!opened || reader.state == INSTRUCTIONS_FAILED) {
        *error = reader.error;
        status = PROGRAM_FAILED;
    }
    if (status == PROGRAM_OK &&
        (reader.state == INSTRUCTIONS_CUT || reader.end_status == INSTRUCTION_STATUS_CUT))
        status = PROGRAM_CUT;
    instruction_reader_close(&reader);
    return status;
}

static int export_run(int count, char **words)
{
    struct options options = {.measure = &measures[0]};
    struct exporting state = {.options = &options};
    struct ordered ordered;
    struct error error = {0};
    int status = export_words_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    signal(SIGPIPE, SIG_IGN);
    state.writer = options.writer;
    state.threads = calloc(INSTRUCTION_LANES_MAX, sizeof *state.threads);
    if (state.threads == NULL) return cli_fail(&cli_export, "no memory");
    for (uint64_t lane = 0; lane < INSTRUCTION_LANES_MAX; lane++)
        state.threads[lane] = lane;
    if (ordered_open(&ordered, options.trace, cli_export.name, &error)) {
        status = export_trace(&state, &ordered, options.output, &error);
        int ordering = ordered_close(&ordered, status != PROGRAM_FAILED);
        if (status != PROGRAM_FAILED && ordering != PROGRAM_OK) status = ordering;
    } else {
        status = PROGRAM_FAILED;
    }
    if (error_is_set(&error)) status = cli_data_error(&cli_export, options.trace, &error);
    if (status != PROGRAM_FAILED && !options.quiet) export_print_summary(&state);
    if (status != PROGRAM_FAILED && options.json != NULL &&
        !export_write_json(&state, options.json))
        status = PROGRAM_FAILED;
    free(state.threads);
    return status;
}

const struct cli_command cli_export = {"export", "", export_run, export_help_text};
