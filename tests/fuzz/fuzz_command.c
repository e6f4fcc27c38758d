/* fuzz_command - a command of malloctape over a stream, FUZZ_FORMAT in the environment: info (of
 * both kinds of streams), dump (all of it, and the objects), report, verify (of an instruction
 * stream), export; and compare, which reads what a replay has reported.
 *
 * Commands run in this process and exec nothing: what would have to be ordered first is left out. */
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "stream/magic.h"
#include "tests/fuzz/fuzz_input.h"
#ifndef FUZZ_EXPORT
#include "compare/compare_table.h"
#include "compare/compare_warnings.h"
#include "compare/comparison.h"
#include "compare/expected.h"
#include "compare/recorded.h"
#endif

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *what;

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    what = getenv("FUZZ_FORMAT");
    if (what == NULL) {
        fprintf(stderr, "FUZZ_FORMAT is to be the name of a command\n");
        exit(1);
    }
    return 0;
}

static void run(const struct cli_command *command, const char *option, const char *value)
{
    char *words[8] = {(char *)command->name};
    int count = 1;
    if (option != NULL) words[count++] = (char *)option;
    if (value != NULL) words[count++] = (char *)value;
    words[count++] = (char *)fuzz_file_name(0);
    optind = 0; /* from the beginning again */
    command->run(count, words);
    fflush(stdout);
}

#ifdef FUZZ_EXPORT
static void run_all(bool raw)
{
    static const char *const formats[] = {"wl", "rep", "mtrace", "ops", "memory_replay", "avro",
                                          "pprof", "folded", "heaptrack"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats && !raw; i++) {
        char *words[] = {(char *)"export", (char *)"--to", (char *)formats[i], (char *)"-o",
                         (char *)"/dev/null", (char *)fuzz_file_name(0), NULL};
        optind = 0;
        cli_export.run(6, words);
    }
}
#else
static void run_all(bool raw)
{
    if (strcmp(what, "info") == 0) run(&cli_info, "--json", "/dev/null");
    if (strcmp(what, "dump") == 0) run(&cli_dump, NULL, NULL);
    if (raw) return;
    if (strcmp(what, "dump") == 0) run(&cli_dump, "--objects", NULL);
    if (strcmp(what, "report") == 0) run(&cli_report, "--json", "/dev/null");
    if (strcmp(what, "verify") == 0) run(&cli_verify, NULL, NULL);
}

/* The same report is the null engine's, and what a row has reported. */
static void read_report(const uint8_t *data, size_t bytes)
{
    static struct compare_row rows[3];
    static const struct compare_entry entry = {.allocator = (char *)"glibc"};
    static char *no_words[] = {NULL};
    struct compare compare = {.rows = rows, .rows_count = 1};
    char text[1024];
    compare.null_report = json_loadb((const char *)data, bytes, JSON_DISABLE_EOF_CHECK, NULL);
    if (!json_is_object(compare.null_report)) {
        json_decref(compare.null_report);
        return;
    }
    memset(rows, 0, sizeof rows);
    compare.options.rounds = 1;
    compare.options.trace = "trace";
    compare.options.replay_words = no_words;
    compare_row_open(&rows[0], &entry);
    json_array_append(rows[0].reports, compare.null_report);
    rows[0].found.known = known_allocators; /* tcmalloc */
    compare_recorded_find(&compare);
    if (compare.recorded_is_added) json_array_append(rows[1].reports, compare.null_report);
    compare_expect(&compare);
    compare_warnings_collect(&compare);
    compare_original_text(&compare, text, sizeof text);
    for (size_t i = 0; i < 2; i++) {
        json_decref(rows[i].reports);
        json_decref(rows[i].timed);
    }
    free(compare.warnings);
    compare_recorded_close(&compare);
    json_decref(compare.null_report);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
#ifndef FUZZ_EXPORT
    if (strcmp(what, "compare") == 0) {
        read_report(data, bytes);
        return 0;
    }
#endif
    unsigned choice = data[bytes - 1];
    uint8_t *stream = fuzz_copy(data, --bytes);
    const bool raw = bytes >= MAGIC_OF_STREAM_BYTES &&
                     memcmp(stream, MAGIC_OF_RAW, MAGIC_OF_STREAM_BYTES) == 0;
    if ((choice & FUZZ_KEEP) == 0) (raw ? fuzz_seal_raw : fuzz_seal_instructions)(stream, bytes);
    if (bytes < MAGIC_OF_STREAM_BYTES) return 0; /* might be a raw stream */
    fuzz_file(0, stream, bytes);
    run_all(raw);
    return 0;
}
