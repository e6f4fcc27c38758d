#include "cut/minimize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/printable.h"
#include "cut/small_search.h"
#include "reading/ordered.h"
#include "stream/metadata.h"

/* A C program does not make what the recorder's library made: what is left shows it without that. */
static void minimize_forget_own(char *metadata)
{
    char *at = strncmp(metadata, "own=", 4) == 0 ? metadata : strstr(metadata, "\nown=");
    if (at == NULL) return;
    at += *at == '\n';
    const size_t bytes = strcspn(at, "\n");
    memmove(at, at + bytes + (at[bytes] == '\n'), strlen(at + bytes + (at[bytes] == '\n')) + 1);
}

/* False: see `why`; it is empty if it has been said. */
static bool minimize_read(const char *path, struct small_trace *trace, char *why, size_t why_bytes)
{
    struct ordered ordered;
    struct error error = {0};
    if (!ordered_open(&ordered, path, cli_cut.name, &error)) {
        *why = '\0';
        if (error_is_set(&error)) error_text(&error, why, why_bytes);
        return false;
    }
    const bool good = small_trace_read(trace, ordered.input, why, why_bytes);
    ordered_close(&ordered, good);
    if (good) minimize_forget_own(trace->metadata);
    return good;
}

/* What an earlier run has left of this trace. False: nothing. */
static bool minimize_read_earlier(const struct minimize_options *options, uint64_t calls,
                                  struct small_trace *earlier)
{
    char why[256];
    if (access(options->output, R_OK) != 0) return false;
    bool good = minimize_read(options->output, earlier, why, sizeof why);
    if (good) {
        char *of = metadata_copy(earlier->metadata, strlen(earlier->metadata), "minimized");
        good = of != NULL && *of != '\0' && strtoull(of, NULL, 10) == calls;
        free(of);
    }
    if (!good) small_trace_free(earlier);
    return good;
}

/* Whether the trace shows it by `most` bytes, a quarter of that ..., `least`. */
static bool minimize_shows_by(struct small_search *search, double most, double least)
{
    for (; most >= least && !process_interrupted(); most /= 4) {
        search->judge->least_bytes = most;
        if (small_search_shows(search)) return true;
    }
    return false;
}

/* Whether the trace shows it; if so, as clearly as it can: memory without huge pages, or by more than one. */
static bool minimize_shows(struct small_search *search)
{
    struct judge *judge = search->judge;
    const bool is_rss = judge->of == JUDGE_RSS;
    judge->huge_pages = false;
    if (minimize_shows_by(search, is_rss ? JUDGE_RSS_MOST : JUDGE_RSS_LEAST, JUDGE_RSS_LEAST))
        return true;
    judge->huge_pages = is_rss;
    return is_rss && minimize_shows_by(search, JUDGE_RSS_HUGE, JUDGE_RSS_HUGE);
}

/* Goes on from what an earlier run has left, if that still shows it. */
static bool minimize_go_on(struct small_search *search, const struct minimize_options *options)
{
    struct small_trace earlier, whole = *search->trace;
    if (!minimize_read_earlier(options, search->calls, &earlier)) return false;
    *search->trace = earlier;
    if (minimize_shows(search)) {
        if (!options->quiet)
            printable_say(stderr, "goes on from %s, of %" PRIu64 " calls", options->output,
                          small_trace_calls(&earlier));
        small_trace_free(&whole);
        return true;
    }
    *search->trace = whole;
    small_trace_free(&earlier);
    return false;
}

static int minimize_search(struct small_search *search, const struct minimize_options *options)
{
    if (!minimize_go_on(search, options) && !minimize_shows(search))
        return process_interrupted()
                   ? PROGRAM_FAILED
                   : cli_fail(&cli_cut, "%s: the trace itself does not show it", options->trace);
    if (search->judge->huge_pages && !options->quiet)
        fputs("it is shown with huge pages only, each of which is 2 MiB\n", stderr);
    small_search_begin(search);
    if (small_search_needs_no_call(search))
        return cli_fail(&cli_cut, "%s: a trace without any call shows it, too", options->trace);
    if (!small_search_run(search))
        return cli_fail(&cli_cut, "%s: %s", options->output, search->why);
    if (!options->quiet)
        fprintf(stderr,
                "%" PRIu64 " of %" PRIu64 " calls are left, after %" PRIu64 " candidates%s\n",
                small_trace_calls(search->trace), search->calls, search->judged,
                process_interrupted() ? "; interrupted: the same command goes on from there" : "");
    return PROGRAM_OK;
}

int minimize_run(const struct minimize_options *options)
{
    struct process_directory directory;
    struct judge judge;
    struct small_trace trace;
    char why[1024];
    if (!judge_parse(&judge, options->what, why, sizeof why))
        return cli_usage_error(&cli_cut, "--minimize: %s", why);
    if (!process_directory_open(&directory))
        return cli_fail(&cli_cut, "cannot make a directory in $TMPDIR or /tmp: %s",
                        strerror(errno));
    int status;
    if (minimize_read(options->trace, &trace, why, sizeof why)) {
        struct small_search search = {.trace = &trace,
                                      .judge = &judge,
                                      .directory = &directory,
                                      .output = options->output,
                                      .calls = small_trace_calls(&trace),
                                      .limit_s = options->limit_s,
                                      .quiet = options->quiet};
        status = minimize_search(&search, options);
    } else {
        status = PROGRAM_FAILED;
        if (*why != '\0') cli_fail(&cli_cut, "%s: %s", options->trace, why);
    }
    small_trace_free(&trace);
    process_directory_close(&directory);
    return status;
}
