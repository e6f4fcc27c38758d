/* malloctape top - what a process asks of its allocator at present, updated each second.
 *
 * With --pid the process need not be recorded before: it is while top runs, without an output.
 *
 * The process counts while it is asked (tracing/data/watch.h); what is shown is the difference of two
 * answers. */
#include "cli/ask.h"
#include "cli/attachment.h"
#include "cli/top_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "common/call_table.h"
#include "common/numbers.h"
#include "common/printable.h"
#include "common/progress.h"
#include "launch/installed.h"
#include "stream/metadata.h"
#include "tracing/data/watch.h"
#include "tracing/process/request.h"

static const char top_help_text[] =
    "usage: malloctape top [--count NUMBER] PID\n"
    "       malloctape top [--count NUMBER] --pid PID\n"
    "\n"
    "Shows each second what a process asks of its allocator, while it is recorded. It must have been\n"
    "started by `malloctape record --control` or `--idle`, or with the tracing library preloaded and\n"
    "TCMALLOC_TRACE_CONTROL=1 in its environment, by the same user and group, or by anybody if you\n"
    "are root. With --pid it may be any process: top attaches to it as `malloctape record --pid` does,\n"
    "until q or Ctrl-C, and the process goes on.\n"
    "\n"
    "  -p, --pid PID    a process that was not started for this\n"
    "  --count NUMBER   ends after so many seconds (default: when the recording ends)\n"
    "\n"
    "Where the process has a keeper (`record --keep --control --stacks`), functions are shown, too: those\n"
    "that allocate most at present, and those of which more is alive than when top began, or since the\n"
    "key r was pressed. q ends it.\n"
    "\n"
    "All calls of a second are counted, once they are in the recording, and all waits. The shares are\n"
    "those of a part of the calls, where there are many. The exit status is 0 when the recording has\n"
    "ended.\n";

enum { KINDS_SHOWN = 5, SIZES_SHOWN = 8 };

struct top {
    pid_t process;
    uint64_t count;
    struct watch_counts before, now;
    double seconds; /* between these */
    uint64_t counted;
    const char *attach_to; /* the word behind --pid, or NULL */
    struct attachment attachment;
    struct top_functions functions;
    bool has_ended;
};

/* Returns PROGRAM_GO_ON or an exit status. */
static int top_words_parse(struct top *top, int count, char **words)
{
    const struct program_option known[] = {{"count", .count = &top->count},
                                           {"pid", 'p', .word = &top->attach_to},
                                           {NULL, .values = ask_offer}};
    const int status = program_options(count, words, known, top_help_text, PROGRAM_ANYWHERE, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (top->count == 0) return cli_usage_error(&cli_top, "--count 0 shows nothing");
    if (count - optind != (top->attach_to == NULL))
        return cli_usage_error(&cli_top, "which process?");
    const char *word = top->attach_to != NULL ? top->attach_to : words[optind];
    if (!ask_parse_process(&top->process, word))
        return cli_usage_error(&cli_top, "%s is not a process id", word);
    return PROGRAM_GO_ON;
}

/* ---- one second ---- */

static uint64_t rss_bytes(pid_t process)
{
    char path[32];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* The index of the largest difference, which is then set to 0; or -1. */
static int take_most(uint64_t *differences, unsigned count, uint64_t *most)
{
    unsigned at = 0;
    for (unsigned i = 1; i < count; i++)
        if (differences[i] > differences[at]) at = i;
    *most = differences[at];
    differences[at] = 0;
    return *most > 0 ? (int)at : -1;
}

/* 0 if the number is from a new recording, which began in between. */
static uint64_t difference(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void differences_make(uint64_t *differences, const uint64_t *now, const uint64_t *before,
                             unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        differences[i] = difference(now[i], before[i]);
}

static void top_print_calls(struct top *top)
{
    uint64_t calls[CALL_KINDS], most;
    int kind;
    differences_make(calls, top->now.calls, top->before.calls, CALL_KINDS);
    top->counted = 0;
    for (unsigned i = 0; i < CALL_KINDS; i++)
        top->counted += calls[i];
    double events = (double)difference(top->now.events, top->before.events) / top->seconds;
    printf("calls    %.0f per second", events);
    for (unsigned i = 0; i < KINDS_SHOWN && (kind = take_most(calls, CALL_KINDS, &most)) >= 0; i++)
        printf("%s %s %.1f %%", i > 0 ? "," : ":", call_names[kind], share(most, top->counted));
    putchar('\n');
}

static void print_paths(const struct top *top)
{
    static const char *const names[WATCH_PATHS] = {"thread cache", "central list", "page heap"};
    uint64_t paths[WATCH_PATHS];
    if (top->now.opaque) return;
    differences_make(paths, top->now.paths, top->before.paths, WATCH_PATHS);
    fputs("paths    ", stdout);
    for (unsigned i = 0; i < WATCH_PATHS; i++)
        printf("%s%s %.2f %%", i > 0 ? ", " : "", names[i], share(paths[i], top->counted));
    printf("\nwaits    %.0f per second for locks of the allocator, %.3f ms\n",
           (double)difference(top->now.waits, top->before.waits) / top->seconds,
           (double)difference(top->now.waited_ns, top->before.waited_ns) / top->seconds / 1e6);
}

static void print_memory(const struct top *top)
{
    const struct watch_counts *now = &top->now;
    fputs("memory   ", stdout);
    if (now->heap_bytes > 0) printf("heap %.1f MiB, ", (double)now->heap_bytes / MIB);
    if (now->used_bytes > 0) printf("of that in use %.1f MiB, ", (double)now->used_bytes / MIB);
    printf("RSS %.1f MiB", (double)rss_bytes(top->process) / MIB);
    if (now->recorder_bytes > 0)
        printf(", of that the recorder's %.1f MiB", (double)now->recorder_bytes / MIB);
    putchar('\n');
}

/* Prints statistics that are not 0. Bytes are exact, so that thresholds can be compared with
 * sizes. */
static void top_print_statistics(const struct watch_counts *now)
{
    char text[sizeof now->names];
    struct statistics_names names = {0};
    memcpy(text, now->names, sizeof text);
    text[sizeof text - 1] = '\0';
    statistics_split(&names, text);
    const char *before = "says     ";
    for (unsigned i = 0; i < names.count; i++) {
        if (now->statistics.values[i] == 0) continue;
        fputs(before, stdout);
        printable_print(stdout, names.names[i], strlen(names.names[i]));
        printf(" %" PRIu64, now->statistics.values[i]);
        before = ", ";
    }
    if (*before == ',') putchar('\n');
}

static void top_print_sizes(const struct top *top)
{
    uint64_t sizes[HISTOGRAM_BUCKETS], most, all = 0;
    int bucket;
    differences_make(sizes, top->now.sizes, top->before.sizes, HISTOGRAM_BUCKETS);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        all += sizes[i];
    fputs("sizes    ", stdout);
    for (unsigned i = 0;
         i < SIZES_SHOWN && (bucket = take_most(sizes, HISTOGRAM_BUCKETS, &most)) >= 0; i++) {
        const uint64_t low = histogram_bucket_low((unsigned)bucket);
        const uint64_t high = histogram_bucket_high((unsigned)bucket);
        printf("%s%" PRIu64, i > 0 ? ", " : "", low);
        if (high > low) printf("-%" PRIu64, high);
        printf(": %.1f %%", share(most, all));
    }
    putchar('\n');
}

/* ---- all of them ---- */

/* Asks the process once. False: this is the end, after a message unless top->has_ended. If it has
 * answered before, a process that no longer answers, or is no longer recorded, is a normal end. */
static bool top_look(struct top *top)
{
    static char answer[sizeof CONTROL_OK + sizeof top->now + 1]; /* a byte more than is wanted */
    const bool is_first = top->now.bytes == 0;
    struct ask ask = {.command = is_first ? &cli_top : NULL,
                      .process = top->process,
                      .signals = top->attach_to != NULL ? top->attachment.signals : -1,
                      .given = {-1, -1}};
    const size_t bytes = ask_process(&ask, "watch\n", answer, sizeof answer);
    top->has_ended = bytes == 0 && !is_first;
    if (bytes == 0) return false;
    top->before = top->now;
    memcpy(&top->now, answer, sizeof top->now);
    if (bytes == sizeof top->now && top->now.bytes == sizeof top->now) return true;
    cli_fail(&cli_top, "process %d was started with another version of malloctape",
             (int)top->process);
    return false;
}

static int top_end(const struct top *top)
{
    if (!top->has_ended) return PROGRAM_FAILED;
    printf("\nprocess  %d: the recording has ended\n", (int)top->process);
    return PROGRAM_OK;
}

static void print(struct top *top, bool is_terminal, bool is_first)
{
    fputs(is_terminal ? "\033[H\033[J" : !is_first ? "\n" : "", stdout);
    printf("process  %d\n", (int)top->process);
    top_print_calls(top);
    print_paths(top);
    print_memory(top);
    top_print_statistics(&top->now);
    top_print_sizes(top);
    top_functions_print(&top->functions);
    fflush(stdout);
}

/* ---- a process that was not started for this ---- */

/* Makes the terminal pass on keys at once, without echo. False: standard input is not a
 * terminal. */
static bool keys_begin(struct termios *before)
{
    if (tcgetattr(STDIN_FILENO, before) != 0) return false;
    struct termios now = *before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

/* Waits a second, or until the key q. */
static enum attachment_state second_wait(struct top *top, bool has_keys)
{
    const double end = seconds_now() + 1;
    for (double left = 1; left > 0; left = end - seconds_now()) {
        const enum attachment_state state =
            attachment_wait(&top->attachment, (int)(left * 1e3) + 1, has_keys ? STDIN_FILENO : -1);
        char key = 'q';
        const bool pressed = state == ATTACHMENT_INPUT && read(STDIN_FILENO, &key, 1) == 1;
        if (pressed && key == 'r') top_functions_reset(&top->functions);
        if (pressed && key != 'q') continue;
        if (state != ATTACHMENT_GOES_ON) return state;
    }
    return ATTACHMENT_GOES_ON;
}

/* The same for a process that is only asked. */
static enum attachment_state top_wait_for_key(struct top *top, bool has_keys)
{
    struct pollfd keys = {has_keys ? STDIN_FILENO : -1, POLLIN, 0};
    const double end = seconds_now() + 1;
    for (double left = 1; left > 0; left = end - seconds_now()) {
        char key;
        if (poll(&keys, 1, (int)(left * 1e3) + 1) <= 0) continue;
        if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q') return ATTACHMENT_INPUT;
        if (key == 'r') top_functions_reset(&top->functions);
    }
    return ATTACHMENT_GOES_ON;
}

/* Records to nowhere. False: a message has been printed. */
static bool top_attach(struct top *top)
{
    const int given[] = {open("/dev/null", O_WRONLY | O_CLOEXEC),
                         memfd_create("malloctape.spool", MFD_CLOEXEC)};
    bool good = given[0] >= 0 && given[1] >= 0;
    if (!good) cli_fail(&cli_top, "/dev/null, or a file in memory: %s", strerror(errno));
    good = good && attachment_begin(&top->attachment, "/dev/null", given) == PROGRAM_OK;
    if (given[0] >= 0) close(given[0]);
    if (given[1] >= 0) close(given[1]);
    return good;
}

static int top_run(int count, char **words)
{
    static struct top top = {.count = UINT64_MAX};
    struct installed library;
    struct termios terminal;
    char why[PATH_MAX];
    enum attachment_state state = ATTACHMENT_GOES_ON;
    int status = top_words_parse(&top, count, words);
    if (status != PROGRAM_GO_ON) return status;
    const bool is_terminal = isatty(STDOUT_FILENO);
    if (top.attach_to != NULL) {
        if (!installed_find_library(&library, "libmalloctape.so", why, sizeof why))
            return cli_fail(&cli_top, "%s", why);
        top.attachment = (struct attachment){.command = &cli_top,
                                             .process = top.process,
                                             .library = library.path,
                                             .may_be_recording = true};
        if (!top_attach(&top)) return PROGRAM_FAILED;
    }
    top.functions.process = top.process;
    const bool has_keys = keys_begin(&terminal);
    double before = seconds_now();
    status = PROGRAM_OK;
    if (!top_look(&top)) status = PROGRAM_FAILED;
    for (uint64_t second = 0; status == PROGRAM_OK && second < top.count; second++) {
        if (top.attach_to == NULL)
            state = top_wait_for_key(&top, has_keys);
        else
            state = second_wait(&top, has_keys);
        if (state == ATTACHMENT_ASKED_TO_END || state == ATTACHMENT_INPUT) break;
        const double now = seconds_now();
        if (!top_look(&top)) {
            if (top.attach_to != NULL) state = attachment_wait(&top.attachment, 0, -1);
            status = top_end(&top);
            break;
        }
        top.seconds = now - before;
        before = now;
        top_functions_look(&top.functions);
        print(&top, is_terminal, second == 0);
    }
    if (has_keys) tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    if (top.attach_to != NULL) attachment_end(&top.attachment, state);
    return status;
}

const struct cli_command cli_top = {"top", "shows what a process asks of its allocator right now",
                                    top_run, top_help_text};
