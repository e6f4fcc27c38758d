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
        "      --cpu=LIST      run on these processors only, as in 0,2-3\n"
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

static bool parse_shown_time(const char *text, enum shown_time *time)
{
    for (unsigned i = 0; i < SHOWN_TIME_KINDS; i++) {
        if (strcmp(text, policy_shown_time_names[i]) != 0) continue;
        *time = (enum shown_time)i;
        return true;
    }
    return false;
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

static bool parse_touch(const char *text, enum touch *touch)
{
    for (unsigned i = 0; i < TOUCH_KINDS; i++) {
        if (strcmp(text, policy_touch_names[i]) != 0) continue;
        *touch = (enum touch)i;
        return true;
    }
    return false;
}

/* One number of a list; moves *text behind it. */
static bool parse_cpu(const char **text, unsigned long *cpu)
{
    char *end;
    if (**text < '0' || **text > '9') return false;
    *cpu = strtoul(*text, &end, 10);
    *text = end;
    return *cpu < CPU_SETSIZE;
}

/* Numbers and ranges, as in 0,2-3. */
static bool parse_cpus(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (;;) {
        unsigned long first, last;
        if (!parse_cpu(&text, &first)) return false;
        last = first;
        if (*text == '-' && (text++, !parse_cpu(&text, &last))) return false;
        if (last < first) return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, set);
        if (*text == '\0') return true;
        if (*text++ != ',') return false;
    }
}

enum {
    OPTION_CLOCK = 256,
    OPTION_CPU,
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
    {"cpu", required_argument, NULL, OPTION_CPU},
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
    switch (option) {
    case 'e':
        options->engine = engine_find(argument);
        if (options->engine != NULL) return -1;
        return program_usage_error(REPLAY_PROGRAM, "there is no engine '%s'", argument);
    case 't':
        if (parse_touch(argument, &policy->touch)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "objects cannot be touched as '%s'", argument);
    case OPTION_CLOCK:
        if (parse_shown_time(argument, &policy->shown_time)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "there is no clock '%s'", argument);
    case OPTION_CPU:
        options->cpus = argument;
        if (parse_cpus(argument, &options->cpu_set)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no list of processors", argument);
    case OPTION_LIMIT:
        if (parse_count(argument, &policy->limit_calls)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no number of calls", argument);
    case OPTION_WARMUP:
        if (parse_count(argument, &policy->warmup_calls)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no number of calls", argument);
    case OPTION_RELEASE_EVERY:
        options->release_every = argument;
        if (parse_release(argument, policy)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no number of calls or seconds",
                                   argument);
    case OPTION_REPORT:
        options->trace_run = strcmp(argument, "trace_run") == 0;
        if (options->trace_run || strcmp(argument, "table") == 0) return -1;
        return program_usage_error(REPLAY_PROGRAM, "there is no report '%s'", argument);
    case OPTION_SAMPLE:
        options->sample_is_given = true;
        if (parse_count(argument, &policy->sample_every) &&
            policy->sample_every <= SAMPLE_EVERY_MAX)
            return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no number of calls", argument);
    case OPTION_SAMPLE_OFFSET:
        if (parse_count(argument, &policy->sample_offset)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no number", argument);
    case OPTION_SPEED:
        if (parse_speed(argument, &policy->speed)) return -1;
        return program_usage_error(REPLAY_PROGRAM, "'%s' is no speed", argument);
    case OPTION_VERIFY_ADDRESSES:
        policy->verify_addresses = true;
        policy->heap_calls = true;
        return -1;
    case OPTION_SNAPSHOT: options->snapshot = argument; return -1;
    case OPTION_CSV: options->csv = argument; return -1;
    case OPTION_FREE_AT_END: policy->free_at_end = true; return -1;
    case OPTION_HEAP_CALLS: policy->heap_calls = true; return -1;
    case 'j': options->json = argument; return -1;
    case 'q': options->quiet = true; return -1;
    case 'h': return options_help();
    case 'V': return program_version(REPLAY_PROGRAM);
    default: return program_usage_error(REPLAY_PROGRAM, NULL);
    }
}

int options_parse(int argc, char **argv, struct options *options)
{
    const char *no_switch = getenv("NO_THREAD_CACHE_SWITCH");
    int option, status = -1;
    *options = (struct options){
        .engine = engines,
        .policy = {.touch = POLICY_TOUCH_DEFAULT,
                   .limit_calls = POLICY_NO_LIMIT,
                   .sample_every = SAMPLE_EVERY_DEFAULT},
        .switching_forbidden = no_switch != NULL && no_switch[0] != '\0',
    };
    options->policy.switching = !options->switching_forbidden;
    options->release_every = getenv("REPLAY_RELEASE_EVERY");
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
