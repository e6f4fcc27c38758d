/* replay - carries out an instruction stream on the allocator that this process runs with. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/program.h"
#include "replay/report.h"

#define PROGRAM "replay"

struct options {
    const struct engine *engine;
    const char *file; /* NULL: the standard input */
    const char *json; /* NULL: none */
    bool quiet;
};

#define REPLAY_ERROR_LIST(X)                        \
    X(REPLAY_ERROR_ALLOCATION, "replay_allocation", \
      "an allocation failed that had not failed when it was recorded")
enum replay_error { REPLAY_ERROR_LIST(ERROR_LIST_ENUM) };
static const struct error_kind replay_errors[] = {REPLAY_ERROR_LIST(ERROR_LIST_KIND)};

static int help(void)
{
    program_help(
        "Usage: replay [OPTION]... [FILE]\n"
        "Carry out the allocator calls of an instruction stream, plain or lz4, on the allocator\n"
        "that this program runs with. Without FILE, or when it is -, read the standard input.\n"
        "\n"
        "  LD_PRELOAD=.../libtcmalloc_minimal.so replay p.lz4\n"
        "\n"
        "  -e, --engine=NAME   how to replay:\n");
    for (const struct engine *engine = engines; engine->name != NULL; engine++)
        printf("                        %-8s %s%s\n", engine->name, engine->help,
               engine == engines ? " (default)" : "");
    return program_help(
        "  -j, --json=FILE     write the report as JSON; - is the standard output, without the table\n"
        "  -q, --quiet         do not print the table\n"
        "  -h, --help          this text\n"
        "  -V, --version       the version\n"
        "\n"
        "Environment:\n"
        "  NO_THREAD_CACHE_SWITCH   when not empty, thread caches are not switched\n"
        "\n"
        "Exit status: 0 everything was carried out; 1 the stream is damaged or an instruction could\n"
        "not be carried out; 2 wrong options; 3 the stream was cut, what there was was carried out.\n");
}

/* Returns -1 to go on, or an exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"engine", required_argument, NULL, 'e'}, {"json", required_argument, NULL, 'j'},
        {"quiet", no_argument, NULL, 'q'},        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0}};
    int option;
    *options = (struct options){.engine = engines};
    while ((option = getopt_long(argc, argv, "e:j:qhV", names, NULL)) != -1) {
        switch (option) {
        case 'e':
            options->engine = engine_find(optarg);
            if (options->engine == NULL)
                return program_usage_error(PROGRAM, "there is no engine '%s'", optarg);
            break;
        case 'j': options->json = optarg; break;
        case 'q': options->quiet = true; break;
        case 'h': return help();
        case 'V': return program_version(PROGRAM);
        default: return program_usage_error(PROGRAM, NULL);
        }
    }
    if (optind < argc) options->file = argv[optind++];
    if (optind < argc) return program_usage_error(PROGRAM, "more than one file");
    return -1;
}

/* ---- replaying ---- */

/* Takes the instructions of a batch from `from` on out of the totals: the reader counts whole blocks. */
static void totals_take_back(struct instruction_totals *totals,
                             const struct instruction_batch *batch, size_t from)
{
    for (size_t i = from; i < batch->count; i++) {
        const struct instruction *one = &batch->at[i];
        unsigned number = instruction_number(one), shape = call_shapes[number];
        bool failed = one->opcode & INSTRUCTION_FAILED, unknown = one->opcode & INSTRUCTION_UNKNOWN;
        bool birth = shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED;
        totals->instructions--;
        if (number < CALL_KINDS) {
            totals->calls--;
            totals->by_kind[number]--;
        }
        if (!failed && (birth || (shape == SHAPE_REALLOC && unknown)))
            totals->live--;
        else if (!birth && shape != SHAPE_REALLOC && shape != SHAPE_HEAP && !unknown &&
                 number < CALL_KINDS)
            totals->live++;
        totals->lane_changes -= number == INSTRUCTION_LANE;
        totals->threads -= number == INSTRUCTION_THREAD_BEGIN;
        totals->ticks -= number == INSTRUCTION_TICK;
    }
}

static void set_allocation_error(struct error *error, const struct instruction_batch *batch,
                                 size_t at)
{
    const struct instruction *one = &batch->at[at];
    error_set(error, &replay_errors[REPLAY_ERROR_ALLOCATION], batch->offset,
              "instruction %" PRIu64 ": %s of %" PRIu64 " bytes", batch->number + at,
              call_names[instruction_number(one)], one->size);
}

/* Reads and carries out everything there is. False: see *error. */
static bool replay_batches(const struct engine *engine, struct engine_state *state,
                           struct instruction_reader *reader, struct report *report)
{
    struct instruction_batch batch;
    while (instruction_reader_next(reader, &batch)) {
        report->totals = reader->totals;
        if (!engine->prepare(state, &batch)) {
            totals_take_back(&report->totals, &batch, 0);
            return false;
        }
        uint64_t begin = measure_now_ns();
        size_t done = engine->run(state, &batch);
        report->measurement.wall_ns += measure_now_ns() - begin;
        if (done < batch.count) {
            set_allocation_error(&state->error, &batch, done);
            totals_take_back(&report->totals, &batch, done);
            return false;
        }
    }
    return true;
}

static void say_no_switching(const struct report *report, bool forbidden)
{
    if (!report->engine->calls_allocator || report->cache_switching) return;
    if (forbidden)
        fprintf(stderr,
                PROGRAM ": thread caches are not switched: NO_THREAD_CACHE_SWITCH is set\n");
    else
        fprintf(stderr,
                PROGRAM ": thread caches are not switched: %s has no set_malloc_thread_cache()\n",
                report->allocator->name);
}

static void replay(const struct options *options, struct instruction_reader *reader,
                   struct report *report, struct error *error)
{
    struct engine_state state = {0};
    const char *no_switch = getenv("NO_THREAD_CACHE_SWITCH");
    bool forbidden = no_switch != NULL && no_switch[0] != '\0';

    bool good = options->engine->open(&state, report->allocator, !forbidden);
    report->cache_switching = state.cache_switching;
    if (good) {
        good = replay_batches(options->engine, &state, reader, report);
        options->engine->finish(&state);
        say_no_switching(report, forbidden);
    }
    if (!good) {
        report->status = REPORT_FAILED;
        *error = state.error;
    } else if (reader->state != INSTRUCTIONS_END) {
        report->status = reader->state == INSTRUCTIONS_CUT ? REPORT_CUT : REPORT_FAILED;
        *error = reader->error;
    }
}

static int status_of(enum report_status status)
{
    switch (status) {
    case REPORT_COMPLETE: return PROGRAM_OK;
    case REPORT_CUT: return PROGRAM_CUT;
    default: return PROGRAM_FAILED;
    }
}

/* Prints what was asked for. Returns the exit status. */
static int finish(const struct options *options, const struct report *report)
{
    int status = status_of(report->status);
    const char *name =
        options->file != NULL && strcmp(options->file, "-") != 0 ? options->file : "standard input";
    struct error error = {0};
    if (report->status == REPORT_CUT)
        fprintf(stderr, PROGRAM ": %s: the stream was cut; what there was has been replayed\n",
                name);
    if (report->status != REPORT_COMPLETE) error_print(stderr, PROGRAM, name, report->error);
    bool table = !options->quiet && (options->json == NULL || strcmp(options->json, "-") != 0);
    if (table) report_print(report, stdout);
    if (options->json != NULL && !report_write_json(report, options->json, &error)) {
        error_print(stderr, PROGRAM, NULL, &error);
        status = PROGRAM_FAILED;
    }
    if (fflush(stdout) != 0 && status == PROGRAM_OK) status = PROGRAM_FAILED;
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct allocator allocator;
    struct input input;
    struct instruction_reader reader;
    struct error error = {0};
    int status = parse_options(argc, argv, &options);
    if (status >= 0) return status;

    allocator_find(&allocator);
    struct report report = {.engine = options.engine, .allocator = &allocator, .error = &error};
    measure_begin(&report.measurement);
    if (!input_open(&input, options.file)) {
        error_print(stderr, PROGRAM, options.file, &input.error);
        return PROGRAM_FAILED;
    }
    bool opened = instruction_reader_open(&reader, &input);
    if (opened) {
        replay(&options, &reader, &report, &error);
    } else {
        report.status = reader.state == INSTRUCTIONS_CUT ? REPORT_CUT : REPORT_FAILED;
        error = reader.error;
    }
    measure_end(&report.measurement);
    report.header = &reader.header;
    report.recording = reader.end_status;
    report.peak_live_bytes = reader.objects.peak_bytes;
    status = finish(&options, &report);
    instruction_reader_close(&reader);
    input_close(&input);
    return status;
}
