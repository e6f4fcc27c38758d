#include "replay/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/program.h"

/* On average one call in so many is timed by itself. */
#define SAMPLE_EVERY_DEFAULT 1024
#define SAMPLE_EVERY_MAX     (UINT64_C(1) << 40)

/* An hour becomes a month, or a few milliseconds. */
#define SPEED_MIN 1e-3
#define SPEED_MAX 1e6

const char *const policy_touch_names[] = {
#define TOUCH_NAME(identifier, name, help) [TOUCH_##identifier] = (name),
    TOUCH_LIST(TOUCH_NAME)
#undef TOUCH_NAME
};

const char *const policy_shown_time_names[] = {
#define SHOWN_TIME_NAME(identifier, name) [SHOWN_TIME_##identifier] = (name),
    SHOWN_TIME_LIST(SHOWN_TIME_NAME)
#undef SHOWN_TIME_NAME
};

static int options_help(void)
{
    program_help(
        "Usage: replay [OPTION]... [FILE]\n"
        "Carry out the allocator calls of an instruction stream, plain or lz4, on the allocator\n"
        "that this program runs with. Without FILE, or when it is -, read the standard input.\n"
        "\n"
        "  LD_PRELOAD=.../libtcmalloc_minimal.so replay p.lz4\n"
        "\n"
        "How to replay:\n"
        "  -e, --engine=NAME\n");
    for (const struct engine *engine = engines; engine->name != NULL; engine++)
        printf("                        %-8s %s%s\n", engine->name, engine->help,
               engine == engines ? " (default)" : "");
    program_help("  -t, --touch=WHAT    write to objects when they are there:\n");
#define TOUCH_HELP(identifier, name, help)                    \
    printf("                        %-8s %s%s\n", name, help, \
           TOUCH_##identifier == POLICY_TOUCH_DEFAULT ? " (default)" : "");
    TOUCH_LIST(TOUCH_HELP)
#undef TOUCH_HELP
    return program_help(
        "      --clock=WHICH   the time that the allocator sees: real (default); original, as if\n"
        "                      the replay took as long as the original did; cpu, as if that had\n"
        "                      taken its processor time only\n"
        "      --free-at-end   free what is alive at the end, when everything has been measured\n"
        "      --heap-calls    carry out calls on the whole heap too, as in the original\n"
        "      --limit=N       end after N calls\n"
        "      --release-every=N[s|events]\n"
        "                      have the allocator give unused memory back after every N calls, or\n"
        "                      seconds of the original\n"
        "      --speed=FACTOR  so many times as fast as the original, by its clock; max\n"
        "                      (default): as fast as possible\n"
        "      --warmup=N      carry out the first N calls without measuring them\n"
        "\n"
        "What to report:\n"
        "  -j, --json=FILE     write the report as JSON; - is the standard output, without\n"
        "                      the table\n"
        "      --csv=PREFIX    write PREFIX.series.csv (memory over time) and PREFIX.latency.csv\n"
        "      --snapshot=FILE write where objects lie and which pages are resident at the end\n"
        "      --report=STYLE  table (default), or trace_run: the lines of that program of glibc\n"
        "      --sample=N      time one call in N by itself, on average (default 1024); 0: none\n"
        "      --sample-offset=N\n"
        "                      time other calls than with another N (default 0)\n"
        "      --verify-addresses\n"
        "                      does each object take the place that it had in the original? For\n"
        "                      recordings with addresses; carries out heap calls too\n"
        "  -q, --quiet         do not print the table\n"
        "\n"
        "  -h, --help          this text\n"
        "  -V, --version       the version\n"
        "\n"
        "Environment:\n"
        "  NO_THREAD_CACHE_SWITCH   when not empty, thread caches are not switched\n"
        "  REPLAY_RELEASE_EVERY     as --release-every, for a setting of compare\n"
        "\n"
        "Exit status: 0 everything was carried out; 1 the stream is damaged or an instruction\n"
        "could not be carried out; 2 wrong options; 3 the stream was cut, what there was was\n"
        "carried out.\n");
}

static bool parse_count(const char *text, uint64_t *count)
{
    char *end;
    errno = 0;
    *count = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static bool parse_speed(const char *text, double *speed)
{
    char *end;
    *speed = 0;
    if (strcmp(text, "max") == 0) return true;
    *speed = strtod(text, &end);
    return end != text && *end == '\0' && *speed >= SPEED_MIN && *speed <= SPEED_MAX;
}

/* The number of a name in a list, if it is there. */
static bool parse_name(const char *text, const char *const *names, unsigned count, unsigned *number)
{
    unsigned i = 0;
    while (i < count && strcmp(text, names[i]) != 0)
        i++;
    if (i < count) *number = i;
    return i < count;
}

/* N, Nevents or Ns. */
static bool parse_release(const char *text, struct policy *policy)
{
    char *end;
    double number = strtod(text, &end);
    bool seconds = strcmp(end, "s") == 0;
    policy->release_every_calls = policy->release_every_ns = 0;
    if (end == text || (!seconds && *end != '\0' && strcmp(end, "events") != 0)) return false;
    if (!(number * (seconds ? 1e9 : 1) >= 1) || number > 1e15) return false;
    *(seconds ? &policy->release_every_ns : &policy->release_every_calls) =
        (uint64_t)(number * (seconds ? 1e9 : 1));
    return true;
}

enum {
    OPTION_CLOCK = 256,
    OPTION_CSV,
    OPTION_FREE_AT_END,
    OPTION_HEAP_CALLS,
    OPTION_LIMIT,
    OPTION_RELEASE_EVERY,
    OPTION_REPORT,
    OPTION_SAMPLE,
    OPTION_SAMPLE_OFFSET,
    OPTION_SNAPSHOT,
    OPTION_SPEED,
    OPTION_VERIFY_ADDRESSES,
    OPTION_WARMUP
};

static const struct option option_names[] = {
    {"clock", required_argument, NULL, OPTION_CLOCK},
    {"csv", required_argument, NULL, OPTION_CSV},
    {"engine", required_argument, NULL, 'e'},
    {"free-at-end", no_argument, NULL, OPTION_FREE_AT_END},
    {"heap-calls", no_argument, NULL, OPTION_HEAP_CALLS},
    {"help", no_argument, NULL, 'h'},
    {"json", required_argument, NULL, 'j'},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"quiet", no_argument, NULL, 'q'},
    {"release-every", required_argument, NULL, OPTION_RELEASE_EVERY},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"sample", required_argument, NULL, OPTION_SAMPLE},
    {"sample-offset", required_argument, NULL, OPTION_SAMPLE_OFFSET},
    {"snapshot", required_argument, NULL, OPTION_SNAPSHOT},
    {"speed", required_argument, NULL, OPTION_SPEED},
    {"touch", required_argument, NULL, 't'},
    {"verify-addresses", no_argument, NULL, OPTION_VERIFY_ADDRESSES},
    {"warmup", required_argument, NULL, OPTION_WARMUP},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* One option. Returns -1 to go on. */
static int options_take(struct options *options, int option, const char *argument)
{
    struct policy *policy = &options->policy;
    bool good = true;
    unsigned number = 0;
    const char *what = NULL; /* that the argument should be */
    switch (option) {
    case 'e':
        what = "engine";
        good = (options->engine = engine_find(argument)) != NULL;
        break;
    case 't':
        what = "way to touch objects";
        good = parse_name(argument, policy_touch_names, TOUCH_KINDS, &number);
        if (good) policy->touch = number;
        break;
    case OPTION_CLOCK:
        what = "clock";
        good = parse_name(argument, policy_shown_time_names, SHOWN_TIME_KINDS, &number);
        if (good) policy->shown_time = number;
        break;
    case OPTION_LIMIT:
        what = "number of calls";
        good = parse_count(argument, &policy->limit_calls);
        break;
    case OPTION_WARMUP:
        what = "number of calls";
        good = parse_count(argument, &policy->warmup_calls);
        break;
    case OPTION_RELEASE_EVERY:
        what = "number of calls or seconds";
        options->release_every = argument;
        good = parse_release(argument, policy);
        break;
    case OPTION_REPORT:
        what = "report";
        options->trace_run = strcmp(argument, "trace_run") == 0;
        good = options->trace_run || strcmp(argument, "table") == 0;
        break;
    case OPTION_SAMPLE:
        what = "number of calls";
        options->sample_is_given = true;
        good = parse_count(argument, &policy->sample_every) &&
               policy->sample_every <= SAMPLE_EVERY_MAX;
        break;
    case OPTION_SAMPLE_OFFSET:
        what = "number";
        good = parse_count(argument, &policy->sample_offset);
        break;
    case OPTION_SPEED:
        what = "speed";
        good = parse_speed(argument, &policy->speed);
        break;
    case OPTION_VERIFY_ADDRESSES: policy->verify_addresses = policy->heap_calls = true; break;
    case OPTION_SNAPSHOT: options->snapshot = argument; break;
    case OPTION_CSV: options->csv = argument; break;
    case OPTION_FREE_AT_END: policy->free_at_end = true; break;
    case OPTION_HEAP_CALLS: policy->heap_calls = true; break;
    case 'j': options->json = argument; break;
    case 'q': options->quiet = true; break;
    case 'h': return options_help();
    case 'V': return program_version(REPLAY_PROGRAM);
    default: return program_usage_error(REPLAY_PROGRAM, NULL);
    }
    return good ? -1 : program_usage_error(REPLAY_PROGRAM, "'%s' is no %s", argument, what);
}

int options_parse(int argc, char **argv, struct options *options)
{
    const char *no_switch = getenv("NO_THREAD_CACHE_SWITCH");
    int option, status = -1;
    *options = (struct options){
        .engine = engines,
        .policy = {.touch = POLICY_TOUCH_DEFAULT,
                   .limit_calls = POLICY_NO_LIMIT,
                   .sample_every = SAMPLE_EVERY_DEFAULT,
                   .switching = no_switch == NULL || no_switch[0] == '\0'},
        .release_every = getenv("REPLAY_RELEASE_EVERY"),
    };
    if (options->release_every != NULL)
        status = options_take(options, OPTION_RELEASE_EVERY, options->release_every);
    while (status < 0 && (option = getopt_long(argc, argv, "e:t:j:qhV", option_names, NULL)) != -1)
        status = options_take(options, option, optarg);
    if (status >= 0) return status;
    /* As that program times each call. */
    if (options->trace_run && !options->sample_is_given) options->policy.sample_every = 1;
    if (optind < argc) options->file = argv[optind++];
    if (optind < argc) return program_usage_error(REPLAY_PROGRAM, "more than one file");
    return -1;
}
