#include "replay/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common/output.h"
#include "common/program.h"
#include "replay/huge_pages.h"

/* The default predicts a program, which writes to what it allocates. */
#define TOUCH_DEFAULT TOUCH_PAGES

/* By default, one call in this many is timed by itself, on average. */
#define SAMPLE_EVERY_DEFAULT 1024
#define SAMPLE_EVERY_MAX     (UINT64_C(1) << 40)

#define NOT_GIVEN UINT64_MAX

/* At these speeds an hour becomes about a month, or a few milliseconds. */
#define SPEED_MIN 1e-3
#define SPEED_MAX 1e6

const char *const touch_names[] = {"none", "line", "pages", "all", NULL};
const char *const shown_time_names[] = {"real", "original", "cpu", NULL};

static const char options_help_text[] = /* %1$s: the program's name */
    "Usage: %1$s [OPTION]... [FILE]\n"
    "Carry out the allocator calls of an instruction stream, plain or lz4, on the allocator\n"
    "that this program runs with. Without FILE, or when it is -, read the standard input.\n"
    "\n"
    "  LD_PRELOAD=.../libtcmalloc_minimal.so %1$s p.lz4\n"
    "\n"
    "How to replay:\n"
    "  -e, --engine=NAME\n"
    "                        switch   (default) one thread, which takes over the thread cache of\n"
    "                                 each original thread in turn\n"
    "                        threads  as many threads as the original had, each making the calls\n"
    "                                 of one\n"
    "                        auto     threads if several threads have a part in the calls, else\n"
    "                                 switch; reads FILE once more first\n"
    "                        null     everything but the allocator: what a replay costs by itself\n"
    "  -t, --touch=WHAT    write to objects when they are there:\n"
    "                        none     objects are left as the allocator returned them\n"
    "                        line     a byte in the first cache line\n"
    "                        pages    a byte in each page that the object has part of; of a large\n"
    "                                 one in those that were resident, if that is known (default)\n"
    "                        all      every byte\n"
    "      --check         check of every object, not of some, that it overlaps no other live one;\n"
    "                      slow\n"
    "      --clock=WHICH   the time that the allocator sees: real (default); original, as if\n"
    "                      the replay took as long as the original did; cpu, as if that had\n"
    "                      taken its processor time only\n"
    "      --free-at-end   free what is alive at the end, when everything has been measured\n"
    "      --heap-calls    also carry out calls on the whole heap, as in the original\n"
    "      --lane-peaks    with engine null: report the sum of the most bytes that were live at once\n"
    "                      of each thread's objects\n"
    "      --limit=N       end after N calls\n"
    "      --program-has=LIBRARY[,LIBRARY]...\n"
    "                      libraries that the program has, too: they are not the allocator's memory\n"
    "      --release-every=N[s|events]\n"
    "                      have the allocator give unused memory back after every N calls, or\n"
    "                      seconds of the original\n"
    "      --speed=FACTOR  FACTOR times as fast as the original, by its clock; max\n"
    "                      (default): as fast as possible\n"
    "      --thp=WHICH     transparent huge pages for the allocator's memory: always, madvise (where\n"
    "                      it asks for them) or never; system (default): as the system has them\n"
    "      --uncleared     have large objects of calloc() from malloc(): under the recorder's\n"
    "                      tcmalloc, pages that have had no content are not cleared, either\n"
    "      --warmup=N      carry out the first N calls without measuring them\n"
    "\n"
    "What to report:\n"
    "  -j, --json=FILE     write the report as JSON; - is the standard output, without\n"
    "                      the table\n"
    "      --csv=PREFIX    write PREFIX.series.csv (memory over time) and PREFIX.latency.csv\n"
    "      --series        memory over time, in the JSON report, too\n"
    "      --snapshot=FILE write where objects lie and which pages are resident at the end\n"
    "      --report=STYLE  table (default), or trace_run: as glibc's program of that name\n"
    "      --sample=N      time one call in N by itself, on average (default 1024); 0: none\n"
    "      --sample-offset=N\n"
    "                      which calls --sample times: others for another N (default 0)\n"
    "      --verify-addresses\n"
    "                      report whether each object takes the address that it had in the\n"
    "                      original, for recordings with addresses (engine switch); heap calls\n"
    "                      are made, too\n"
    "  -q, --quiet         do not print the table\n"
    "\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version\n"
    "\n"
    "Environment:\n"
    "  NO_THREAD_CACHE_SWITCH   when not empty, thread caches are not switched\n"
    "  REPLAY_RELEASE_EVERY     as --release-every, for a setting of compare\n"
    "  REPLAY_THP               as --thp, for a setting of compare\n"
    "\n"
    "Exit status: 0 everything was carried out; 1 the stream is damaged or an instruction\n"
    "could not be carried out; 2 wrong options; 3 the stream was cut, what there was was\n"
    "carried out.\n";

/* ---- arguments ---- */

static const char *const options_engines[] = {"switch", "threads", "auto", "null", NULL};

static int options_engine_take(void *of, const char *name)
{
    struct options *options = of;
    options->engine = engine_find(name);
    if (options->engine != NULL || strcmp(name, "auto") == 0) return PROGRAM_GO_ON;
    return program_usage_error(REPLAY_PROGRAM, "there is no engine '%s'", name);
}

static int speed_take(void *of, const char *text)
{
    double *speed = &((struct options *)of)->policy.speed;
    char *end;
    *speed = 0;
    if (strcmp(text, "max") == 0) return PROGRAM_GO_ON;
    *speed = strtod(text, &end);
    if (end != text && *end == '\0' && *speed >= SPEED_MIN && *speed <= SPEED_MAX)
        return PROGRAM_GO_ON;
    return program_usage_error(REPLAY_PROGRAM, "'%s' is not a speed", text);
}

/* N, Nevents or Ns. */
static int release_take(void *of, const char *text)
{
    struct options *options = of;
    struct policy *policy = &options->policy;
    char *end;
    double number = strtod(text, &end);
    const bool seconds = strcmp(end, "s") == 0;
    if (seconds) number *= 1e9;
    options->release_every = text;
    policy->release_every_calls = policy->release_every_ns = 0;
    if (end == text || (!seconds && *end != '\0' && strcmp(end, "events") != 0) ||
        !(number >= 1 && number <= 1e18))
        return program_usage_error(REPLAY_PROGRAM, "'%s' is not a number of calls or seconds",
                                   text);
    *(seconds ? &policy->release_every_ns : &policy->release_every_calls) = (uint64_t)number;
    return PROGRAM_GO_ON;
}

static int huge_pages_take(void *of, const char *name)
{
    struct options *options = of;
    for (unsigned i = 0; huge_pages_names[i] != NULL; i++) {
        if (strcmp(name, huge_pages_names[i]) != 0) continue;
        options->policy.huge_pages = i;
        return PROGRAM_GO_ON;
    }
    return program_usage_error(REPLAY_PROGRAM,
                               "--thp: '%s' is not always, madvise, never or system", name);
}

/* ---- all of them ---- */

/* Fills in what the options leave open, and rejects combinations that are not allowed. */
static int options_complete(struct options *options, int count, char **words)
{
    struct policy *policy = &options->policy;
    if (policy->sample_every == NOT_GIVEN) /* trace_run times each call */
        policy->sample_every = options->trace_run ? 1 : SAMPLE_EVERY_DEFAULT;
    if (policy->sample_every > SAMPLE_EVERY_MAX)
        return program_usage_error(REPLAY_PROGRAM, "--sample: the number is too large");
    if (policy->lane_peaks && options->engine != &engine_null)
        return program_usage_error(REPLAY_PROGRAM, "--lane-peaks needs --engine=null");
    policy->heap_calls |= policy->verify_addresses;
    if (count > 1) return program_usage_error(REPLAY_PROGRAM, "more than one file");
    options->file = words[0];
    const char *const outputs[] = {options->json, options->snapshot};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && options->file != NULL; i++)
        if (outputs[i] != NULL && output_would_replace(outputs[i], options->file))
            return program_usage_error(REPLAY_PROGRAM, "%s would be both read and written",
                                       outputs[i]);
    return PROGRAM_GO_ON;
}

int options_parse(int argc, char **argv, struct options *options)
{
    static const char *const reports[] = {"table", "trace_run", NULL};
    const char *no_switch = getenv("NO_THREAD_CACHE_SWITCH");
    const char *release_every = getenv("REPLAY_RELEASE_EVERY");
    const char *huge_pages = getenv("REPLAY_THP");
    struct policy *policy = &options->policy;
    const struct program_option known[] = {
        {"check", .flag = &policy->check},
        {"clock", .choice = &policy->shown_time, .choices = shown_time_names},
        {"csv", .word = &options->csv},
        {"engine", 'e', .take = options_engine_take, .choices = options_engines},
        {"free-at-end", .flag = &policy->free_at_end},
        {"heap-calls", .flag = &policy->heap_calls},
        {"json", 'j', .word = &options->json},
        {"lane-peaks", .flag = &policy->lane_peaks},
        {"limit", .count = &policy->limit_calls},
        {"program-has", .word = &policy->program_has},
        {"quiet", 'q', .flag = &options->quiet},
        {"release-every", .take = release_take},
        {"report", .choice = &options->trace_run, .choices = reports},
        {"sample", .count = &policy->sample_every},
        {"sample-offset", .count = &policy->sample_offset},
        {"series", .flag = &options->series},
        {"snapshot", .word = &options->snapshot},
        {"speed", .take = speed_take},
        {"thp", .take = huge_pages_take, .choices = huge_pages_names},
        {"touch", 't', .choice = &policy->touch, .choices = touch_names},
        {"uncleared", .flag = &policy->uncleared},
        {"verify-addresses", .flag = &policy->verify_addresses},
        {"warmup", .count = &policy->warmup_calls},
        {.name = NULL},
    };
    *options = (struct options){
        .engine = &engine_switch,
        .policy = {.touch = TOUCH_DEFAULT,
                   .limit_calls = POLICY_NO_LIMIT,
                   .sample_every = NOT_GIVEN,
                   .switching = no_switch == NULL || no_switch[0] == '\0'},
    };
    argv[0] = REPLAY_PROGRAM; /* for messages */
    char help[sizeof options_help_text + 256];
    snprintf(help, sizeof help, options_help_text, REPLAY_PROGRAM);
    int status = release_every != NULL ? release_take(options, release_every) : PROGRAM_GO_ON;
    if (status == PROGRAM_GO_ON && huge_pages != NULL)
        status = huge_pages_take(options, huge_pages);
    if (status == PROGRAM_GO_ON)
        status = program_options(argc, argv, known, help, PROGRAM_ANYWHERE, options);
    return status == PROGRAM_GO_ON ? options_complete(options, argc - optind, argv + optind)
                                   : status;
}
