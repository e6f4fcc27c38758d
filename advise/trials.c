#include "advise/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json_file.h"
#include "common/progress.h"
#include "launch/installed.h"

/* Traces with fewer calls are tried as a whole at once; rounds before the last one take a part of the
 * others. */
#define TRIAL_SHORT_CALLS 2000000
#define TRIAL_FIRST_PART  32
#define TRIAL_BRIEF_CALLS 200000 /* with fewer, each is replayed twice */
#define TRIAL_PART_TIMES  6

/* What seems to gain is replayed again until then. */
#define TRIAL_SECONDS 400.0
enum { TRIALS_LAST = 10 };

#define TRIAL_CALLS_SAVED 0.05

#define EXCESS_BYTES (64.0 * 1024 * 1024)

/* How much of the score is which number's: shares of the peak, of the time, or of the calls, that the trace
 * as it is has. */
#define SCORE_PEAK  1.0
#define SCORE_MEAN  0.2
#define SCORE_END   0.2
#define SCORE_TIME  0.1
#define SCORE_CALLS 0.05

/* What a replay writes to: pages; or the beginning of each object. */
#define TOUCH_PAGES "--touch=pages"
#define TOUCH_LINE  "--touch=line"

/* ---- one replay ---- */

static void trial_enter(void *of)
{
    const struct trials *trials = of;
    allocators_enter(trials->allocator);
    for (size_t i = 0; i < trials->settings->count; i++)
        setenv(trials->settings->set[i].name, trials->settings->set[i].value, 1);
}

/* The report; NULL: `why` says why there is none. `touch`: an option. */
static json_t *trial_replay(const struct trials *trials, const char *ordered, const char *touch,
                            char *why, size_t why_bytes)
{
    struct installed installed;
    char file[PROCESS_PATH_BYTES], *through[ALLOCATOR_WORDS];
    process_directory_path(trials->directory, "report.json", file, sizeof file);
    unlink(file);
    if (!installed_find_program(&installed, "replay")) {
        snprintf(why, why_bytes, "%s not found", installed.path);
        return NULL;
    }
    char *words[12] = {(char *)"replay",     (char *)"--clock=original", (char *)"--engine=auto",
                       (char *)"--sample=0", (char *)touch,              (char *)"--quiet",
                       (char *)"--json",     file};
    size_t count = 8;
    /* As the program was recorded. */
    if (trials->recorded != NULL && allocators_is_of_recorder(trials->recorded))
        words[count++] = (char *)"--uncleared";
    words[count++] = (char *)"--";
    words[count] = (char *)ordered;
    const struct process process = {.path = installed.path,
                                    .words = words,
                                    .through = allocators_through(trials->allocator, through),
                                    .input = -1,
                                    .file = ordered,
                                    .enter = trial_enter,
                                    .of = (void *)trials};
    if (!process_run(&process, true, why, why_bytes)) return NULL;
    return json_report_read(file, why, why_bytes);
}

static double report_real(const json_t *report, const char *key)
{
    const json_t *value = json_object_get(report, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool numbers_take(const struct trials *trials, const json_t *report,
                         struct trial_numbers *numbers, char *why, size_t why_bytes)
{
    const char *used = json_string_value(json_object_get(report, "allocator"));
    *numbers = (struct trial_numbers){
        report_real(report, "peak_net_rss_bytes"), report_real(report, "mean_net_rss_bytes"),
        report_real(report, "end_net_rss_bytes"),
        report_real(report, "user_seconds") + report_real(report, "system_seconds"),
        report_real(report, "events")};
    return allocators_was_used(trials->allocator, used, why, why_bytes);
}

static bool numbers_of(const struct trials *trials, const char *ordered, const char *touch,
                       struct trial_numbers *numbers, char *why, size_t why_bytes)
{
    json_t *report = trial_replay(trials, ordered, touch, why, why_bytes);
    if (report == NULL) return false;
    const bool good = numbers_take(trials, report, numbers, why, why_bytes);
    json_decref(report);
    return good;
}

static bool trials_read_original(struct trials *trials, char *why, size_t why_bytes)
{
    json_t *report = trial_replay(trials, trials->ordered, TOUCH_PAGES, why, why_bytes);
    if (report == NULL) return false;
    trials->original_peak = report_real(report, "original_peak_net_rss_bytes");
    trials->original_end = report_real(report, "original_end_net_rss_bytes");
    trials->cpu_seconds = report_real(report, "original_user_seconds") +
                          report_real(report, "original_system_seconds");
    const bool good = numbers_take(trials, report, &trials->whole, why, why_bytes);
    json_decref(report);
    return good;
}

/* ---- what the program left untouched ---- */

/* Corrects what a replay that writes to pages says. */
static void numbers_correct(const struct trials *trials, struct trial_numbers *numbers,
                            const struct trial_numbers *beginning)
{
    if (!(trials->touched > 0)) return;
    numbers->peak = untouched_corrected(numbers->peak, beginning->peak, trials->touched);
    numbers->mean = untouched_corrected(numbers->mean, beginning->mean, trials->touched);
    numbers->end = untouched_corrected(numbers->end, beginning->end, trials->touched);
}

static struct trial_numbers numbers_less(const struct trial_numbers *one,
                                         const struct trial_numbers *other)
{
    return (struct trial_numbers){one->peak - other->peak, one->mean - other->mean,
                                  one->end - other->end, NAN, NAN};
}

/* Of the whole trace, under the recorded allocator. */
static bool trials_read_untouched(struct trials *trials, char *why, size_t why_bytes)
{
    struct others others;
    if (trials->recorded == NULL) return true;
    if (!others_read(&others, trials->ordered, trials->recorded))
        return error_explain(why, why_bytes, "no memory for what was resident");
    trials->untouched = untouched_is_needed(&others, trials->original_peak, trials->whole.peak);
    const bool good = !trials->untouched || numbers_of(trials, trials->ordered, TOUCH_LINE,
                                                       &trials->beginning, why, why_bytes);
    if (good && trials->untouched) {
        trials->replayed = (struct untouched_replayed){trials->whole.peak, trials->beginning.peak};
        trials->touched = untouched_share(&others, trials->original_peak, &trials->replayed);
        trials->span = numbers_less(&trials->whole, &trials->beginning);
        numbers_correct(trials, &trials->whole, &trials->beginning);
    }
    others_free(&others);
    return good;
}

/* ---- medians ---- */

static int reals_ascending(const void *one, const void *other)
{
    const double left = *(const double *)one, right = *(const double *)other;
    return (left > right) - (left < right);
}

static double median_of(const struct trial_numbers *runs, unsigned count, size_t offset)
{
    double values[TRIAL_RUNS_MAX];
    for (unsigned i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&runs[i] + offset, sizeof values[i]);
    qsort(values, count, sizeof *values, reals_ascending);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static struct trial_numbers numbers_median(const struct trial_numbers *runs, unsigned count)
{
    return (struct trial_numbers){
        median_of(runs, count, offsetof(struct trial_numbers, peak)),
        median_of(runs, count, offsetof(struct trial_numbers, mean)),
        median_of(runs, count, offsetof(struct trial_numbers, end)),
        median_of(runs, count, offsetof(struct trial_numbers, cpu_seconds)),
        median_of(runs, count, offsetof(struct trial_numbers, calls))};
}

static struct trial_numbers numbers_least(const struct trial_numbers *runs, unsigned count)
{
    struct trial_numbers least = runs[0];
    for (unsigned i = 1; i < count; i++) {
        least.peak = fmin(least.peak, runs[i].peak);
        least.mean = fmin(least.mean, runs[i].mean);
        least.end = fmin(least.end, runs[i].end);
    }
    return least;
}

/* How far apart the peaks of some replays are. */
static double peaks_range(const struct trial_numbers *runs, unsigned count)
{
    double least = runs[0].peak, most = least;
    for (unsigned i = 1; i < count; i++) {
        least = fmin(least, runs[i].peak);
        most = fmax(most, runs[i].peak);
    }
    return most - least;
}

/* ---- a round ---- */

/* What a round replays beside the trials: the trace as it is, as far as the round goes. */
struct trial_round {
    unsigned number, runs;
    char base[PROCESS_PATH_BYTES], changed[PROCESS_PATH_BYTES];
    struct trial_numbers first; /* of the trace as it is */
};

/* A part of a trace has no peak that could be compared with the program's. */
static bool round_is_corrected(const struct trials *trials)
{
    return trials->touched > 0 && trials->trace->calls_max == 0;
}

static double score_of(double base, double changed, double of, double weight)
{
    return of > 0 && !isnan(base - changed) ? weight * (base - changed) / of : 0;
}

/* A change that the program would not survive: it still frees what `until` has freed. */
static bool trial_is_wrong(const struct trial *trial)
{
    const struct change_count *count = &trial->result.of[0];
    return trial->candidate->kind == CANDIDATE_LEAK && count->outlived * 100 > count->ended;
}

/* What a heap or pool of the program's own takes to do is not in a replay. */
static void trial_leave_out(struct trial *trial)
{
    const enum change_action action = trial->list.at[0].action;
    if (action == CHANGE_SEPARATE) trial->changed.calls = NAN;
    if (action == CHANGE_SEPARATE || action == CHANGE_POOL) trial->changed.cpu_seconds = NAN;
}

static bool runs_are_faster(const struct trial_numbers *base, const struct trial_numbers *changed,
                            unsigned count)
{
    double least = INFINITY, most = -INFINITY;
    for (unsigned i = 0; i < count; i++) {
        least = fmin(least, base[i].cpu_seconds);
        most = fmax(most, changed[i].cpu_seconds);
    }
    return most < least;
}

static bool saves_calls(const struct trial_numbers *base, const struct trial_numbers *changed)
{
    return changed->calls < (1 - TRIAL_CALLS_SAVED) * base->calls;
}

static void trial_score(struct trial *trial)
{
    const struct trial_numbers *base = &trial->base, *changed = &trial->changed;
    trial->score = score_of(base->peak, changed->peak, base->peak, SCORE_PEAK) +
                   score_of(base->mean, changed->mean, base->peak, SCORE_MEAN) +
                   score_of(base->end, changed->end, base->peak, SCORE_END);
    if (!trial->is_faster) return;
    trial->score +=
        score_of(base->cpu_seconds, changed->cpu_seconds, base->cpu_seconds, SCORE_TIME) +
        fmax(score_of(base->calls, changed->calls, base->calls, SCORE_CALLS), 0);
}

/* What the replays so far say. */
static void trial_take_runs(struct trial *trial)
{
    const struct trial_numbers *base = trial->base_runs, *changed = trial->changed_runs;
    const unsigned count = trial->runs;
    trial->base = numbers_median(base, count);
    trial->changed = numbers_median(changed, count);
    trial->least = numbers_least(base, count);
    trial->unsure = count > 1 ? (peaks_range(base, count) + peaks_range(changed, count)) / 2 : NAN;
    trial_leave_out(trial);
    trial->is_faster =
        !isnan(trial->changed.cpu_seconds) &&
        (runs_are_faster(base, changed, count) || saves_calls(&trial->base, &trial->changed));
    trial_score(trial);
    trial->outlives = trial_is_wrong(trial);
    if (trial->outlives) trial->score = -1;
}

/* Replays the changed trace; in the last round, if the trial has none yet, also with writes to beginnings.
 * Not those of chunks, of which the program would write to all: what is left untouched stays the same. */
static bool trial_replay_changed(const struct trials *trials, struct trial *trial,
                                 const struct trial_round *round)
{
    struct trial_numbers *changed = &trial->changed_runs[trial->runs];
    if (!numbers_of(trials, round->changed, TOUCH_PAGES, changed, trial->why, sizeof trial->why))
        return false;
    if (!round_is_corrected(trials)) return true;
    if (trial->runs == 0 && change_list_makes_chunks(&trial->list))
        trial->beginning = numbers_less(changed, &trials->span);
    else if (trial->runs == 0 && !numbers_of(trials, round->changed, TOUCH_LINE, &trial->beginning,
                                             trial->why, sizeof trial->why))
        return false;
    numbers_correct(trials, changed, &trial->beginning);
    return true;
}

/* Replays the trace as it is, unless that was done when the round began, and the changed one. */
static bool trial_turn(const struct trials *trials, struct trial *trial,
                       const struct trial_round *round)
{
    struct trial_numbers *base = &trial->base_runs[trial->runs];
    *base = round->first;
    if (trial->runs > 0 || round->runs > 1) {
        if (!numbers_of(trials, round->base, TOUCH_PAGES, base, trial->why, sizeof trial->why))
            return false;
        if (round_is_corrected(trials)) numbers_correct(trials, base, &trials->beginning);
    }
    if (!trial_replay_changed(trials, trial, round)) return false;
    trial->runs++;
    trial_take_runs(trial);
    return true;
}

static bool trial_measure(const struct trials *trials, struct trial *trial,
                          const struct trial_round *round)
{
    for (trial->runs = 0; trial->runs < round->runs;)
        if (!trial_turn(trials, trial, round)) return false;
    return true;
}

static bool trial_write(const struct trials *trials, struct trial *trial,
                        const struct trial_round *round)
{
    return change_stream_write(trials->trace, &trial->list, round->changed, &trial->result,
                               trial->why, sizeof trial->why);
}

/* An arena that is never given back may take all that the program ever asked for: more memory than there
 * is to replay it. */
static bool trial_take_excessive(struct trial *trial, const struct trial_round *round)
{
    const double more =
        (double)trial->result.peak_changed_bytes - (double)trial->result.peak_live_bytes;
    trial->excessive = more > EXCESS_BYTES && more > (double)trial->result.peak_live_bytes;
    if (!trial->excessive) return false;
    trial->base = round->first;
    trial->unsure = NAN;
    trial->changed = (struct trial_numbers){round->first.peak + more, NAN, NAN, NAN, NAN};
    trial->score = -1;
    return true;
}

/* A part of the trace may have no object that matches: then nothing is known of the candidate as yet,
 * and what it promises counts. */
static void trial_take(const struct trials *trials, struct trial *trial,
                       const struct trial_round *round)
{
    trial->round = round->number;
    *trial->why = '\0';
    const bool written = trial_write(trials, trial, round);
    if (written && trial_take_excessive(trial, round)) return;
    if (written && trial_measure(trials, trial, round)) return;
    trial->failed = trials->trace->calls_max == 0 || trial->result.output_failed;
    trial->score = trial->failed ? -INFINITY : trial->candidate->promise / round->first.peak / 4;
}

static void trials_show_progress(const struct trials *trials, size_t at, const char *how)
{
    char text[256];
    snprintf(text, sizeof text, "trying %zu of %zu %s%.100s", at + 1, trials->count, how,
             trials->at[at].candidate->text);
    progress_text(text);
}

/* Puts the trace, as far as the round goes, into a file. */
static bool round_open(struct trials *trials, struct trial_round *round, char *why,
                       size_t why_bytes)
{
    const struct change_list none = {.text = (char *)""};
    struct change_result result;
    process_directory_path(trials->directory, "changed", round->changed, sizeof round->changed);
    if (trials->trace->calls_max == 0) {
        snprintf(round->base, sizeof round->base, "%s", trials->ordered);
        round->first = trials->whole;
        return true;
    }
    process_directory_path(trials->directory, "as-it-is", round->base, sizeof round->base);
    if (!change_stream_write(trials->trace, &none, round->base, &result, why, why_bytes))
        return false;
    return numbers_of(trials, round->base, TOUCH_PAGES, &round->first, why, why_bytes);
}

static int trials_by_score(const void *one, const void *other)
{
    const struct trial *left = one, *right = other;
    if (left->round != right->round) return left->round > right->round ? -1 : 1;
    return (left->score < right->score) - (left->score > right->score);
}

/* Tries the first `count`, and puts the best of them first. */
static bool trials_round(struct trials *trials, struct trial_round *round, size_t count, char *why,
                         size_t why_bytes)
{
    if (!round_open(trials, round, why, why_bytes)) return false;
    for (size_t i = 0; i < count && !process_interrupted(); i++) {
        trials_show_progress(trials, i,
                             trials->trace->calls_max > 0 ? "in a part of the trace: " : "");
        trial_take(trials, &trials->at[i], round);
    }
    qsort(trials->at, trials->count, sizeof *trials->at, trials_by_score);
    if (trials->trace->calls_max > 0) unlink(round->base);
    unlink(round->changed);
    return !process_interrupted() || error_explain(why, why_bytes, CHANGE_INTERRUPTED);
}

/* ---- more turns ---- */

/* One turn more. False: there is no time for another one like it. */
static bool trial_repeat(const struct trials *trials, struct trial *trial,
                         const struct trial_round *round)
{
    const double began = seconds_now();
    if (!trial_write(trials, trial, round) || !trial_turn(trials, trial, round)) {
        trial->failed = true;
        trial->score = -INFINITY;
    }
    const double now = seconds_now();
    return now + (now - began) < trials->began + TRIAL_SECONDS;
}

/* What had few turns has to save more than any replay of the whole trace as it is. */
static void trials_share_least(struct trials *trials, const struct trial_round *round)
{
    struct trial_numbers least = trials->whole;
    for (size_t i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->at[i];
        if (trial->round != round->number || trial->runs == 0) continue;
        const struct trial_numbers both[] = {least, trial->least};
        least = numbers_least(both, 2);
    }
    for (size_t i = 0; i < trials->count; i++)
        if (trials->at[i].runs < TRIAL_RUNS_MAX) trials->at[i].least = least;
}

/* Two replays of one trace differ by more than most changes save, with several threads also in memory:
 * what seems to gain must do so in more turns. */
static bool trials_repeat(struct trials *trials, const struct trial_round *round, char *why,
                          size_t why_bytes)
{
    bool has_time = seconds_now() < trials->began + TRIAL_SECONDS;
    for (unsigned turn = round->runs; turn < TRIAL_RUNS_MAX; turn++)
        for (size_t i = 0; i < trials->count && has_time && !process_interrupted(); i++) {
            struct trial *trial = &trials->at[i];
            if (trial->round != round->number || trial->score <= 0) continue;
            trials_show_progress(trials, i, "again: ");
            has_time = trial_repeat(trials, trial, round);
        }
    unlink(round->changed);
    qsort(trials->at, trials->count, sizeof *trials->at, trials_by_score);
    trials_share_least(trials, round);
    return !process_interrupted() || error_explain(why, why_bytes, CHANGE_INTERRUPTED);
}

/* ---- all rounds ---- */

static bool trials_open(struct trials *trials, const struct candidates *candidates, char *why,
                        size_t why_bytes)
{
    for (size_t i = 0; i < candidates->count; i++) {
        struct trial *trial = &trials->at[trials->count];
        *trial = (struct trial){.candidate = &candidates->at[i], .score = -INFINITY};
        if (change_list_parse(&trial->list, candidates->at[i].text, why, why_bytes))
            trials->count++;
        else
            change_list_free(&trial->list);
    }
    return trials_read_original(trials, why, why_bytes) &&
           trials_read_untouched(trials, why, why_bytes);
}

bool trials_run(struct trials *trials, const struct candidates *candidates, char *why,
                size_t why_bytes)
{
    struct trial_round round = {.runs = 1};
    trials->began = seconds_now();
    if (!trials_open(trials, candidates, why, why_bytes)) return false;
    size_t count = trials->count;
    const bool is_short = trials->calls <= TRIAL_SHORT_CALLS;
    for (uint64_t part = is_short ? 1 : TRIAL_FIRST_PART; part > 1; part /= TRIAL_PART_TIMES) {
        if (count <= TRIALS_LAST) break;
        trials->trace->calls_max = trials->calls / part;
        if (!trials_round(trials, &round, count, why, why_bytes)) return false;
        count = count / 2 > TRIALS_LAST ? count / 2 : TRIALS_LAST;
        round.number++;
    }
    if (!is_short && count > TRIALS_LAST) count = TRIALS_LAST;
    trials->trace->calls_max = 0;
    round.runs = trials->calls <= TRIAL_BRIEF_CALLS ? 2 : 1;
    trials->rounds = round.number + 1;
    return trials_round(trials, &round, count, why, why_bytes) &&
           trials_repeat(trials, &round, why, why_bytes);
}

void trials_close(struct trials *trials)
{
    for (size_t i = 0; i < trials->count; i++)
        change_list_free(&trials->at[i].list);
    trials->count = 0;
}
