#include "cut/small_search.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

#define SMALL_AT_A_TIME_MAX 64u
#define COARSE_CHUNKS       128u /* of objects, before each is looked at alone */
#define PARTS_MOST          64u  /* of which one may be enough */
#define PARTS_FEW           4u
#define PARTS_LEAST         2u
#define PARTS_OBJECTS_LEAST 128u
#define PARTS_OBJECTS_MANY  1024u /* of fewer no small part is tried: a quarter, a half */
#define WRITE_EVERY_NS      UINT64_C(2000000000)

static uint64_t small_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool small_stops(const struct small_search *search)
{
    return search->failed || process_interrupted() ||
           (search->limit_s > 0 && search->began_ns > 0 &&
            small_now_ns() - search->began_ns > search->limit_s * UINT64_C(1000000000));
}

/* ---- judging ---- */

/* Starts a process that writes the candidate and judges it. */
static pid_t small_start(struct small_search *search, const struct small_change *changes,
                         size_t count, unsigned number)
{
    char name[32], path[PROCESS_PATH_BYTES], why[256];
    snprintf(name, sizeof name, "candidate-%u", number);
    process_directory_path(search->directory, name, path, sizeof path);
    const pid_t child = fork();
    if (child > 0) setpgid(child, child);
    if (child != 0) return child;
    setpgid(0, 0);
    if (!small_trace_write(search->trace, changes, count, "", path, why, sizeof why)) _exit(2);
    judge_run(search->judge, path);
}

/* Waits for a candidate's process: whether it shows it. If the search is to stop, the process is ended,
 * with all that it has started. */
static bool small_wait(const struct small_search *search, pid_t child)
{
    const struct timespec look = {.tv_nsec = 100000000};
    sigset_t ends, before;
    int status = -1;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, &before);
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        if (small_stops(search)) kill(-child, SIGKILL);
        sigtimedwait(&ends, NULL, &look);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether each of `count` candidates, of one change each, shows it. */
static void small_judge(struct small_search *search, const struct small_change *candidates,
                        size_t count, bool *shows)
{
    pid_t children[SMALL_AT_A_TIME_MAX];
    for (size_t i = 0; i < count; i++)
        children[i] = small_start(search, &candidates[i], 1, (unsigned)i);
    for (size_t i = 0; i < count; i++)
        shows[i] = small_wait(search, children[i]);
    search->judged += count;
}

static bool small_judge_all(struct small_search *search, const struct small_change *changes,
                            size_t count)
{
    search->judged++;
    return small_wait(search, small_start(search, changes, count, SMALL_AT_A_TIME_MAX));
}

void small_search_begin(struct small_search *search)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    search->processors = processors < 1                           ? 1
                         : processors > (long)SMALL_AT_A_TIME_MAX ? SMALL_AT_A_TIME_MAX
                                                                  : (unsigned)processors;
    search->began_ns = search->written_ns = small_now_ns();
}

bool small_search_shows(struct small_search *search)
{
    return small_judge_all(search, NULL, 0);
}

bool small_search_needs_no_call(struct small_search *search)
{
    return small_judge_all(search, &(struct small_change){.what = SMALL_END}, 1);
}

/* ---- accepting ---- */

/* First beside OUT, so that what is there stays whole. */
static bool small_write(struct small_search *search)
{
    char lines[64], path[4096];
    snprintf(lines, sizeof lines, "minimized=%" PRIu64 "\n", search->calls);
    snprintf(path, sizeof path, "%s.new", search->output);
    search->written_ns = small_now_ns();
    const size_t length = strlen(search->output);
    const bool packed = output_is_lz4(search->output);
    if (packed) snprintf(path, sizeof path, "%.*s.new.lz4", (int)length - 4, search->output);
    if (!small_trace_write(search->trace, NULL, 0, lines, path, search->why, sizeof search->why) ||
        rename(path, search->output) != 0) {
        if (search->why[0] == '\0')
            error_explain(search->why, sizeof search->why, "%s", strerror(errno));
        search->failed = true;
    }
    return !search->failed;
}

static void small_accept(struct small_search *search, const struct small_change *changes,
                         size_t count)
{
    if (!small_trace_apply(search->trace, changes, count)) {
        search->failed = true;
        error_explain(search->why, sizeof search->why, "no memory");
        return;
    }
    if (!search->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " calls, %" PRIu64 " candidates ", search->trace->count,
                search->judged);
    if (small_now_ns() - search->written_ns > WRITE_EVERY_NS) small_write(search);
}

/* Judges candidates that do not get into each other's way, and accepts as many as can be together, or
 * the first. Returns how many. */
static size_t small_try(struct small_search *search, const struct small_change *candidates,
                        size_t count)
{
    struct small_change good[SMALL_AT_A_TIME_MAX];
    bool shows[SMALL_AT_A_TIME_MAX];
    size_t goods = 0;
    small_judge(search, candidates, count, shows);
    if (process_interrupted()) return 0;
    for (size_t i = 0; i < count; i++)
        if (shows[i]) good[goods++] = candidates[i];
    if (goods == 0) return 0;
    search->parted = goods > 1 && !small_judge_all(search, good, goods);
    if (search->parted) goods = 1;
    if (process_interrupted()) return 0;
    small_accept(search, good, goods);
    return goods;
}

/* ---- steps ---- */

/* The fewest calls, from the beginning, that show it. */
static bool small_shorten(struct small_search *search)
{
    struct small_change candidates[SMALL_AT_A_TIME_MAX];
    bool shows[SMALL_AT_A_TIME_MAX];
    uint64_t low = 0, high = search->trace->count;
    const uint64_t all = high;
    while (high - low > 1 + high / 256 && !small_stops(search)) {
        size_t count = 0;
        for (unsigned i = 1; i <= search->processors; i++) {
            const uint64_t at = low + (high - low) * i / (search->processors + 1);
            if (at > low && at < high && (count == 0 || at > candidates[count - 1].value))
                candidates[count++] = (struct small_change){.what = SMALL_END, .value = at};
        }
        small_judge(search, candidates, count, shows);
        if (process_interrupted()) break;
        const uint64_t before = low;
        for (size_t i = count; i-- > 0;)
            if (shows[i]) high = candidates[i].value;
        for (size_t i = 0; i < count; i++)
            if (candidates[i].value < high && candidates[i].value > low) low = candidates[i].value;
        if (low == before && count == 0) break;
    }
    if (high == all) return false;
    small_accept(search, &(struct small_change){.what = SMALL_END, .value = high}, 1);
    return true;
}

/* One change for each number below `count`. */
static bool small_each(struct small_search *search, enum small_what what, const uint64_t *values,
                       size_t count)
{
    struct small_change candidates[SMALL_AT_A_TIME_MAX];
    bool changed = false;
    for (size_t at = 0; at < count && !small_stops(search);) {
        size_t some = 0;
        while (some < search->processors && at < count)
            candidates[some++] = (struct small_change){.what = what, .value = values[at++]};
        changed |= small_try(search, candidates, some) > 0;
    }
    return changed;
}

static bool small_lanes(struct small_search *search, enum small_what what)
{
    uint64_t values[256];
    size_t count = 0;
    bool seen[256] = {false};
    for (uint64_t i = 0; i < search->trace->count; i++)
        if (search->trace->calls[i].lane < 256) seen[search->trace->calls[i].lane] = true;
    for (size_t lane = 256; lane-- > 0;)
        if (seen[lane] && !(what == SMALL_JOIN_LANE && lane == 0)) values[count++] = lane;
    if (count == 1 && what == SMALL_DROP_LANE) return false;
    return count > 0 && small_each(search, what, values, count);
}

static bool small_kinds(struct small_search *search)
{
    const uint64_t kinds[] = {INSTRUCTION_TICK, CALL_KINDS, INSTRUCTION_THREAD_END,
                              INSTRUCTION_THREAD_BEGIN};
    uint64_t there[4];
    size_t count = 0;
    for (size_t k = 0; k < 4; k++)
        for (uint64_t i = 0; i < search->trace->count; i++) {
            const struct small_call *call = &search->trace->calls[i];
            if (call->object != SMALL_NONE ||
                (kinds[k] == CALL_KINDS ? call->kind >= CALL_KINDS : call->kind != kinds[k]))
                continue;
            there[count++] = kinds[k];
            break;
        }
    return count > 0 && small_each(search, SMALL_DROP_KIND, there, count);
}

/* Whether the change has anything to do. */
static bool small_matters(const struct small_trace *trace, const struct small_change *change)
{
    if (change->what == SMALL_DROP_OBJECTS) return true;
    for (uint64_t i = change->from; i < change->to; i++)
        if (change->what == SMALL_DROP_FREES ? trace->objects[i].ends : trace->objects[i].grows)
            return true;
    return false;
}

/* A pass over all objects in chunks, the youngest first. Numbers of objects change only behind a chunk
 * that is dropped. */
static bool small_pass(struct small_search *search, enum small_what what, uint64_t chunk)
{
    struct small_change candidates[SMALL_AT_A_TIME_MAX];
    bool changed = false;
    uint64_t end = search->trace->objects_count;
    while (end > 0 && !small_stops(search)) {
        size_t count = 0;
        while (count < search->processors && end > 0) {
            const uint64_t from = end > chunk ? end - chunk : 0;
            candidates[count] = (struct small_change){.what = what, .from = from, .to = end};
            count += small_matters(search->trace, &candidates[count]);
            end = from;
        }
        if (count == 0) break;
        changed |= small_try(search, candidates, count) > 0;
        if (search->parted) end = candidates[0].from;
        if (end > search->trace->objects_count) end = search->trace->objects_count;
    }
    return changed;
}

/* By halves, quarters, ... down to chunks of `least` objects. */
static bool small_divide(struct small_search *search, enum small_what what, uint64_t least)
{
    bool changed = false;
    uint64_t chunk = search->trace->objects_count / 2;
    while (chunk > 0 && chunk >= least && !small_stops(search)) {
        const bool some = small_pass(search, what, chunk);
        changed |= some;
        if (what != SMALL_DROP_OBJECTS || !some || chunk == 1) chunk /= 2;
        if (chunk > search->trace->objects_count / 2) chunk = search->trace->objects_count / 2;
        if (what != SMALL_DROP_OBJECTS && some && chunk < search->trace->objects_count / 64) break;
    }
    return changed;
}

static int small_by_size(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* The sizes of all objects, ascending. The caller frees them. */
static uint64_t *small_sort_sizes(const struct small_trace *trace)
{
    uint64_t *sizes = malloc((trace->objects_count + 1) * sizeof *sizes);
    if (sizes == NULL) return NULL;
    for (uint64_t i = 0; i < trace->objects_count; i++)
        sizes[i] = trace->objects[i].first_size;
    qsort(sizes, trace->objects_count, sizeof *sizes, small_by_size);
    return sizes;
}

/* The sizes that objects are made with, ascending, each once. The caller frees them. */
static uint64_t *small_list_sizes(const struct small_trace *trace, size_t *count)
{
    uint64_t *sizes = small_sort_sizes(trace);
    *count = 0;
    for (uint64_t i = 0; sizes != NULL && i < trace->objects_count; i++)
        if (i == 0 || sizes[i] != sizes[*count - 1]) sizes[(*count)++] = sizes[i];
    return sizes;
}

/* One pass over the sizes, the largest first, `chunk` of them at a time. */
static bool small_pass_sizes(struct small_search *search, size_t chunk)
{
    struct small_change candidates[SMALL_AT_A_TIME_MAX];
    size_t end;
    uint64_t *sizes = small_list_sizes(search->trace, &end);
    bool changed = false;
    if (end == 1) end = 0;
    while (sizes != NULL && end > 0 && !small_stops(search)) {
        size_t count = 0;
        while (count < search->processors && end > 0) {
            const size_t from = end > chunk ? end - chunk : 0;
            candidates[count++] = (struct small_change){
                .what = SMALL_DROP_SIZES, .from = sizes[from], .to = sizes[end - 1]};
            end = from;
        }
        changed |= small_try(search, candidates, count) > 0;
    }
    free(sizes);
    return changed;
}

/* Objects by their sizes: what is needed is often of one or two. */
static bool small_divide_sizes(struct small_search *search)
{
    size_t count;
    bool changed = false;
    free(small_list_sizes(search->trace, &count));
    for (size_t chunk = count / 2; chunk > 0 && !small_stops(search); chunk /= 2)
        changed |= small_pass_sizes(search, chunk);
    return changed;
}

static bool small_has(const struct small_trace *trace, bool reallocs)
{
    for (uint64_t i = 0; i < trace->count; i++) {
        const unsigned kind = trace->calls[i].kind;
        const bool is_realloc = kind == CALL_REALLOC_MOVED || kind == CALL_REALLOC_IN_PLACE;
        if (trace->calls[i].object != SMALL_NONE &&
            (reallocs ? is_realloc : kind != CALL_MALLOC && kind != CALL_FREE && !is_realloc))
            return true;
    }
    return false;
}

/* Sizes: all the same, or half, as far as that goes. */
static void small_sizes(struct small_search *search)
{
    const struct small_trace *trace = search->trace;
    const uint64_t sizes[] = {16, 48, 256, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !small_stops(search); i++) {
        const struct small_change all = {
            .what = SMALL_SET_SIZE, .to = trace->objects_count, .value = sizes[i]};
        if (small_try(search, &all, 1) > 0) return;
    }
    for (unsigned i = 0; i < 8 && !small_stops(search); i++) {
        const struct small_change half = {.what = SMALL_HALVE_SIZE, .to = trace->objects_count};
        if (small_try(search, &half, 1) == 0) break;
    }
}

/* ---- parts that may be enough ---- */

/* The ranges of sizes that have about 1 / parts of the objects each. Returns how many. */
static size_t small_parts_of_sizes(const struct small_trace *trace, uint64_t parts,
                                   struct small_change *to)
{
    size_t count = 0;
    uint64_t at = 0, *sizes = small_sort_sizes(trace);
    while (sizes != NULL && at < trace->objects_count && count < parts) {
        uint64_t last = at + trace->objects_count / parts;
        if (last >= trace->objects_count) last = trace->objects_count - 1;
        to[count++] =
            (struct small_change){.what = SMALL_KEEP_SIZES, .from = sizes[at], .to = sizes[last]};
        for (at = last; at < trace->objects_count && sizes[at] == sizes[last];)
            at++;
    }
    free(sizes);
    return count;
}

/* Candidates that keep about 1 / parts: a sample, those of some sizes, of a lane, and those made in a
 * span of time, the latest first. Returns how many. */
static size_t small_list_parts(const struct small_trace *trace, uint64_t parts,
                               struct small_change *to)
{
    const uint64_t objects = trace->objects_count;
    size_t count = 0;
    to[count++] = (struct small_change){.what = SMALL_KEEP_SAMPLE, .value = parts};
    to[count++] = (struct small_change){.what = SMALL_KEEP_LARGER, .value = parts};
    count += small_parts_of_sizes(trace, parts, to + count);
    for (uint64_t lane = 0;
         parts == PARTS_LEAST && trace->lanes > 1 && lane < trace->lanes && lane < PARTS_MOST;
         lane++)
        to[count++] = (struct small_change){.what = SMALL_KEEP_LANE, .value = lane};
    for (uint64_t i = parts; i-- > 0;)
        to[count++] = (struct small_change){.what = SMALL_KEEP_OBJECTS,
                                            .from = objects * i / parts,
                                            .to = objects * (i + 1) / parts};
    return count;
}

/* Keeps the first of these that shows it. */
static bool small_keep_one(struct small_search *search, const struct small_change *parts,
                           size_t count)
{
    bool shows[SMALL_AT_A_TIME_MAX];
    for (size_t at = 0; at < count && !small_stops(search); at += search->processors) {
        const size_t some = count - at < search->processors ? count - at : search->processors;
        small_judge(search, parts + at, some, shows);
        for (size_t i = 0; i < some && !process_interrupted(); i++)
            if (shows[i]) return small_accept(search, &parts[at + i], 1), true;
    }
    return false;
}

static uint64_t small_parts(const struct small_trace *trace)
{
    return trace->objects_count < PARTS_OBJECTS_MANY ? PARTS_FEW : PARTS_MOST;
}

/* All candidates that keep a 64th cost as much as few that keep nearly everything. So these come
 * first, then those that keep a 16th, a quarter, a half. */
static bool small_part(struct small_search *search)
{
    struct small_change candidates[3 * PARTS_MOST + 2];
    bool changed = false;
    for (uint64_t parts = small_parts(search->trace); parts >= PARTS_LEAST;) {
        const struct small_trace *trace = search->trace;
        if (trace->objects_count < PARTS_OBJECTS_LEAST || small_stops(search)) break;
        const uint64_t before = trace->objects_count;
        const size_t count = small_list_parts(trace, parts, candidates);
        if (!small_keep_one(search, candidates, count) || trace->objects_count == before) {
            parts = parts == PARTS_FEW ? PARTS_LEAST : parts / 4;
            continue;
        }
        changed = true;
        parts = small_parts(trace);
    }
    return changed;
}

/* ---- all of it ---- */

static bool small_round(struct small_search *search)
{
    bool changed = small_part(search);
    changed |= small_shorten(search);
    changed |= small_lanes(search, SMALL_DROP_LANE);
    changed |= small_kinds(search);
    changed |= small_divide_sizes(search);
    /* Single objects come last: there are as many candidates as objects, and most are needed. */
    changed |=
        small_divide(search, SMALL_DROP_OBJECTS, search->trace->objects_count / COARSE_CHUNKS);
    if (small_has(search->trace, true)) changed |= small_divide(search, SMALL_DROP_REALLOCS, 1);
    changed |= small_divide(search, SMALL_DROP_FREES, 1);
    changed |= small_lanes(search, SMALL_JOIN_LANE);
    if (small_has(search->trace, false))
        changed |= small_try(search, &(struct small_change){.what = SMALL_PLAIN}, 1) > 0;
    if (!changed) changed = small_divide(search, SMALL_DROP_OBJECTS, 1);
    return changed;
}

bool small_search_run(struct small_search *search)
{
    while (!small_stops(search) && small_round(search))
        continue;
    if (!small_stops(search)) small_sizes(search);
    if (!search->quiet && isatty(STDERR_FILENO)) fputc('\n', stderr);
    return !search->failed && small_write(search);
}
