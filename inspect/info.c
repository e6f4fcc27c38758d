/* malloctape info - what a stream holds and where it comes from. */
#include "inspect/info.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char info_help_text[] =
    "usage: malloctape info [--json FILE] FILE\n"
    "       malloctape info FILE FILE...\n"
    "\n"
    "Reads all of a raw stream or an instruction stream and says what is in it; '-' is the\n"
    "standard input. Of several, such as those of `malloctape record --follow`, each has one line:\n"
    "how many events, the program, the file, and how it ends. The last lines say how much memory\n"
    "they had at the same time, at most: what can be shared counts once; then, as far as the\n"
    "kernel was asked, with each process's part of what is shared (PSS).\n"
    "\n"
    "  --json FILE   writes the same as a JSON object; to '-', the standard output, instead of\n"
    "                the text\n"
    "\n"
    "The exit status is 0 when the stream is complete, 3 when it was cut short, 1 when it is\n"
    "damaged; of several, 1 when one is, 3 when one was cut short.\n";

struct options {
    char **paths;
    size_t count;
    const char *json;
};

/* Returns PROGRAM_GO_ON or an exit status. */
static int info_words_parse(struct options *options, int count, char **words)
{
    const struct program_option known[] = {{"json", .word = &options->json}, {.name = NULL}};
    const int status = program_options(count, words, known, info_help_text, PROGRAM_ANYWHERE, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (optind == count) return cli_usage_error(&cli_info, "which file?");
    options->paths = words + optind;
    options->count = (size_t)(count - optind);
    if (options->json != NULL && options->count > 1)
        return cli_usage_error(&cli_info, "--json takes one file");
    return cli_spare_input(&cli_info, &(struct cli_outputs){&options->json, 1}, options->paths[0]);
}

static void info_free(struct info *info)
{
    free(info->program);
    free(info->architecture);
    free(info->allocator);
    free(info->heap_unknown);
    free(info->foreign_malloc);
    free(info->recording);
    free(info->pid);
    free(info->source);
    free(info->lacks);
    free(info->what_if);
    statistics_free(&info->names);
    mapping_table_free(&info->mappings);
}

/* Two processes are compared by the clock, so a time is since the epoch. */
static void look_together(const struct info *info, uint64_t since_start_ns, uint64_t rss_bytes)
{
    const unsigned shared = statistics_find(&info->names, STATISTIC_RSS_SHARED);
    together_look(info->together, (uint64_t)(info->start_s * 1e9) + since_start_ns, rss_bytes,
                  shared < info->statistics.count ? info->statistics.values[shared] : 0);
}

/* Until the first tick it had what it had then: a child that does little has none for long. */
static void tick_together(const struct info *info)
{
    const struct original *now = &info->original;
    if (now->now_ns == now->begin_ns) look_together(info, 0, now->net_bytes);
    look_together(info, now->now_ns, now->net_bytes);
}

void info_take_tick(struct info *info, uint64_t elapsed_ns, uint64_t rss_bytes,
                    const struct original_usage *usage)
{
    original_add(&info->original, elapsed_ns, rss_bytes, usage);
    if (info->together != NULL && rss_bytes > 0) tick_together(info);
}

void info_take_residency(void *of, const struct residency *residency, const uint8_t *at,
                         const uint8_t *end)
{
    struct info *info = of;
    struct residency_area area = {0};
    uint64_t latest = 0, kib = 0;
    if (info->together == NULL || residency->is_brief) return;
    while (at < end && residency_take_area(&at, end, &latest, &area) == NULL)
        kib += area.is_recorder ? 0 : area.proportional;
    together_divided(info->together, (uint64_t)(info->start_s * 1e9) + residency->since_start_ns,
                     kib * 1024);
}

void info_take_mapping(void *of, const struct mapping_record *record)
{
    struct info *info = of;
    if (info->mappings.page_bytes == 0)
        info->mappings.page_bytes = info->page_bytes != 0 ? info->page_bytes : MAPPING_PAGE_BYTES;
    info->touched += record->what == MAPPING_TOUCHED;
    if (record->what != MAPPING_TOUCHED) mapping_table_take(&info->mappings, record);
}

void info_take_mappings(struct info *info, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
    struct mapping_record record;
    uint64_t latest = 0;
    while (at < end && mapping_record_take(&at, end, &latest, &record) == NULL)
        info_take_mapping(info, &record);
}

static bool info_show(const struct info *info, const struct options *options, const char *path)
{
    const char *json = options->json;
    if (options->count > 1)
        info_print_line(info, path);
    else if (json == NULL || strcmp(json, "-") != 0)
        info_print(info, path);
    return json == NULL || cli_write_json(&cli_info, info_json(info), json);
}

static int info_tell(const struct options *options, const char *path, struct together *together)
{
    struct info info = {.together = together};
    struct stream stream;
    struct error error = {0};
    if (!stream_open(&stream, path, &error)) return cli_data_error(&cli_info, path, &error);
    if (together != NULL) together_begin(together);
    info.format = stream.format;
    info.file_bytes = stream.file_bytes;
    int status = stream.format == STREAM_RAW ? info_raw(&info, &stream, path, &error)
                                             : info_instructions(&info, &stream, &error);
    info.lz4 = stream.lz4;
    /* It ends after its last tick. */
    if (together != NULL) look_together(&info, info.duration_ns + 1, 0);
    if (!stream_close(&stream))
        status = PROGRAM_FAILED;
    else if (error_is_set(&error))
        cli_data_error(&cli_info, path, &error);
    bool begun = info.version_major > 0 || info.events > 0;
    if (begun && status != PROGRAM_FAILED && !info_show(&info, options, path))
        status = PROGRAM_FAILED;
    info_free(&info);
    return status;
}

static int info_run(int count, char **words)
{
    struct options options = {0};
    int status = info_words_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    status = PROGRAM_OK;
    struct together together = {.count = 0};
    for (size_t i = 0; i < options.count; i++) {
        const int of_one =
            info_tell(&options, options.paths[i], options.count > 1 ? &together : NULL);
        if (status == PROGRAM_OK || of_one == PROGRAM_FAILED) status = of_one;
    }
    const struct together_most most = together_find(&together);
    if (most.processes > 0) info_print_together(&most);
    together_free(&together);
    return status;
}

const struct cli_command cli_info = {"info", "says what a stream contains", info_run,
                                     info_help_text};
