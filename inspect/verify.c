/* malloctape verify - orders a recording with postprocess and checks the result against the
 * recording.
 *
 *   RAW ---------------------------------------------------> checker (verify.h)
 *    `--> postprocess RAW - --pipe--> instruction_reader --> '
 *
 * The ordering runs in another program, so that the checker is independent of it. */
#include "inspect/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/printable.h"
#include "common/progress.h"
#include "reading/ordered.h"
#include "stream/metadata.h"

static const char verify_help_text[] =
    "usage: malloctape verify RAW [ORDERED]\n"
    "       malloctape verify ORDERED\n"
    "\n"
    "Puts the recording RAW in order, as `malloctape order`, and checks the result, call by call,\n"
    "against the recording; or checks the instruction stream ORDERED instead. Says what was\n"
    "checked.\n"
    "\n"
    "  rule 1  every lane's calls are there, once, in order, with the same operands\n"
    "  rule 2  allocations come before their frees, and each free is of the recorded object\n"
    "  rule 3  calls entered the allocator's shared structures in the recorded order\n"
    "  rule 4  no call is more than one tick window from its own, unless the other rules force it\n"
    "  rule 5  mapping calls get pages that are not mapped; others are counted. Objects of the\n"
    "          allocator lie in memory that is mapped, as far as its own calls are recorded, and\n"
    "          touched pages of large ones in these objects\n"
    "\n"
    "An instruction stream alone, as `malloctape import` makes it, is checked by itself: every\n"
    "call on an object that is alive, live bytes, totals.\n"
    "\n"
    "malloctape(1) says exactly what is checked. The exit status is 0 when all of it holds, 3\n"
    "when it holds for a recording that was cut short, else 1.\n";

struct options {
    const char *raw, *ordered; /* ordered: or NULL */
};

/* Returns PROGRAM_GO_ON or an exit status. */
static int verify_words_parse(struct options *options, int count, char **words)
{
    static const struct program_option none = {.name = NULL};
    const int status =
        program_options(count, words, &none, verify_help_text, PROGRAM_ANYWHERE, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (optind == count || optind + 2 < count)
        return cli_usage_error(&cli_verify, "verify takes one or two files");
    options->raw = words[optind];
    options->ordered = words[optind + 1];
    if (strcmp(options->raw, "-") != 0) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_verify, "a recording is read twice, so it must be a file");
}

/* ---- what was found ---- */

static void print_counts(const struct verify_counts *counts)
{
    printf("rule 1  calls: %" PRIu64 ", lanes: %" PRIu64 "; each once, in order, as recorded\n",
           counts->calls, counts->lanes);
    printf("rule 2  allocations: %" PRIu64 ", frees: %" PRIu64
           "; each free of the object that the recording names",
           counts->allocations, counts->frees);
    if (counts->unknown > 0) printf("; of unrecorded objects: %" PRIu64, counts->unknown);
    if (counts->freed_twice > 0) printf("; freed twice: %" PRIu64, counts->freed_twice);
    if (counts->missed_frees > 0) printf("; missed frees: %" PRIu64, counts->missed_frees);
    if (counts->overlaps > 0) printf("; live objects that overlap: %" PRIu64, counts->overlaps);
    printf("\nrule 3  entries into shared structures: %" PRIu64 ", in order", counts->numbers);
    if (counts->numbers_missing > 0)
        printf("; missing from the recording: %" PRIu64, counts->numbers_missing);
    printf("\nrule 4  ticks: %" PRIu64 "; each record at most a window away from its own",
           counts->ticks);
    if (counts->late > 0) printf(", but for %" PRIu64 " that other records delay", counts->late);
    putchar('\n');
}

static void print_violation(const struct verify_violation *violation, const char *raw)
{
    static const char *const names[] = {"", "lanes", "objects", "numbers", "windows", "mappings"};
    printf("rule %d  violated (%s): %s\n", (int)violation->rule, names[violation->rule],
           printable_text(violation->text));
    printable_say(stdout, "%s: NOT in order", raw);
}

/* ---- the walk ---- */

/* False: something is wrong, and a message has been printed. */
static bool walk(struct verify *verify, struct instruction_reader *reader, const char *raw,
                 const char *ordered)
{
    struct instruction_batch batch;
    struct progress progress;
    bool good = true;
    const struct raw_reader *recording = &verify->raw.source.reader;
    progress_open(&progress, "malloctape verify", "calls", recording->fd, true);
    while (good && instruction_reader_next(reader, &batch)) {
        good = verify_batch(verify, &batch);
        progress_show(&progress, verify->counts.calls, input_file_offset(&recording->input));
    }
    progress_close(&progress);
    if (good && error_is_set(&reader->error)) {
        cli_data_error(&cli_verify, ordered, &reader->error);
        return false;
    }
    if (good && reader->end_status == INSTRUCTION_STATUS_DAMAGED) {
        cli_fail(&cli_verify, "%s: damaged parts were left out; the rest is not checked", ordered);
        return false;
    }
    if (good && verify_finish(verify)) return true;
    if (verify->violation.rule != 0)
        print_violation(&verify->violation, raw);
    else
        cli_data_error(&cli_verify, raw, &verify->error);
    return false;
}

/* The recording and the input of the ordered stream are open. */
static int check_ordered(struct verify *verify, const struct options *options, struct input *input,
                         const char *ordered)
{
    struct instruction_reader reader;
    int status = PROGRAM_FAILED;
    if (!instruction_reader_open(&reader, input)) {
        cli_data_error(&cli_verify, ordered, &reader.error);
        instruction_reader_close(&reader);
        return status;
    }
    if (reader.in_base) {
        instruction_reader_close(&reader);
        return cli_fail(&cli_verify,
                        "%s: a part of a recording, with a base: verify checks it alone", ordered);
    }
    const size_t page_bytes =
        metadata_page_bytes(reader.header.metadata, reader.header.metadata_bytes);
    verify->mapped.is_recorded = (reader.header.features & INSTRUCTION_FEATURE_MAPPINGS) != 0;
    verify->mapped.table.page_bytes = page_bytes != 0 ? page_bytes : MAPPING_PAGE_BYTES;
    reader.mapping = verify_mapped_take;
    reader.mappings_context = verify;
    if (walk(verify, &reader, options->raw, ordered)) {
        print_counts(&verify->counts);
        verify_mapped_print(&verify->mapped);
        status = instruction_status_is_complete(reader.end_status) ? PROGRAM_OK : PROGRAM_CUT;
    }
    instruction_reader_close(&reader);
    return status;
}

/* The recording is open. One that postprocess calls cut or damaged counts as not completely
 * verified. */
static int check_recording(struct verify *verify, const struct options *options)
{
    const char *path = options->ordered != NULL ? options->ordered : options->raw;
    struct ordered ordered;
    struct error error = {0};
    if (!ordered_open(&ordered, path, cli_verify.name, &error))
        return cli_data_error(&cli_verify, path, &error);
    int status = PROGRAM_FAILED;
    if (options->ordered == NULL)
        status = check_ordered(verify, options, ordered.input, ORDERING_PROGRAM);
    else if (ordered.of == STREAM_INSTRUCTIONS)
        status = check_ordered(verify, options, ordered.input, path);
    else
        cli_fail(&cli_verify, "%s: not an instruction stream, which malloctape order writes", path);
    int ordered_status = ordered_close(&ordered, status != PROGRAM_FAILED);
    if (status == PROGRAM_OK && ordered_status != PROGRAM_OK && ordered_status != PROGRAM_CUT)
        return cli_fail(&cli_verify, ORDERING_PROGRAM " ended with status %d", ordered_status);
    if (status == PROGRAM_OK) status = ordered_status;
    if (status == PROGRAM_OK) printable_say(stdout, "%s: in order", options->raw);
    if (status == PROGRAM_CUT)
        printable_say(stdout, "%s: in order, as far as it goes: it was cut short or lost events",
                      options->raw);
    return status;
}

/* Whether the only file is an instruction stream; if so, checks it and sets *status. */
static bool run_ordered(const struct options *options, int *status)
{
    struct stream stream;
    struct error error = {0};
    if (options->ordered != NULL || !stream_open(&stream, options->raw, &error)) return false;
    bool ordered = stream.format == STREAM_INSTRUCTIONS;
    if (ordered) *status = verify_ordered(&stream, options->raw);
    stream_close(&stream);
    return ordered;
}

static int verify_run(int count, char **words)
{
    struct options options = {NULL, NULL};
    int status = verify_words_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    if (run_ordered(&options, &status)) return status;
    int fd = open(options.raw, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_fail(&cli_verify, "%s: cannot open: %s", options.raw, strerror(errno));
    struct verify *verify = malloc(sizeof *verify);
    if (verify == NULL) return cli_fail(&cli_verify, "no memory");
    if (verify_open(verify, fd, options.raw))
        status = check_recording(verify, &options);
    else
        status = cli_data_error(&cli_verify, options.raw, &verify->error);
    verify_close(verify);
    free(verify);
    close(fd);
    return status;
}

const struct cli_command cli_verify = {"verify",
                                       "orders a recording and checks the order independently",
                                       verify_run, verify_help_text};
