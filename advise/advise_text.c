#include "advise/advise_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "change/change_text.h"
#include "common/json_file.h"
#include "common/numbers.h"
#include "common/printable.h"
#include "common/terminal.h"

/* Less than this share of what there is: replays of one trace differ by that much. */
#define NOISE_MEMORY 0.005
#define NOISE_TIME   0.05

/* A promise is false if less than this part of it comes true, and more than this share of the peak was
 * promised. */
#define PROMISE_KEPT  0.25
#define PROMISE_SHARE 0.02

/* ---- which ---- */

static bool text_saves(double base, double changed, double noise)
{
    return base > 0 && base - changed > noise * base;
}

/* Less than each replay of the trace as it is has. */
static bool text_saves_memory(double base, double least, double changed)
{
    return text_saves(base, changed, NOISE_MEMORY) && changed < least;
}

static bool trial_gains(const struct trial *trial)
{
    const struct trial_numbers *base = &trial->base, *least = &trial->least,
                               *changed = &trial->changed;
    return trial->score > NOISE_MEMORY &&
           (text_saves_memory(base->peak, least->peak, changed->peak) ||
            text_saves_memory(base->mean, least->mean, changed->mean) ||
            text_saves_memory(base->end, least->end, changed->end) ||
            (trial->is_faster && (text_saves(base->cpu_seconds, changed->cpu_seconds, NOISE_TIME) ||
                                  text_saves(base->calls, changed->calls, NOISE_TIME))));
}

/* Whether a trial took part in the last round. */
static bool trial_is_whole(const struct trials *trials, const struct trial *trial)
{
    return !trial->failed && trial->round + 1 == trials->rounds;
}

size_t advise_best(const struct trials *trials, const struct trial **best)
{
    size_t count = 0;
    for (size_t i = 0; i < trials->count && count < ADVICE_SHOWN; i++)
        if (trial_is_whole(trials, &trials->at[i]) && trial_gains(&trials->at[i]))
            best[count++] = &trials->at[i];
    return count;
}

size_t advise_false(const struct trials *trials, const struct trial **promised)
{
    size_t count = 0;
    for (size_t i = 0; i < trials->count && count < ADVICE_SHOWN; i++) {
        const struct trial *trial = &trials->at[i];
        if (!trial_is_whole(trials, trial)) continue;
        const double promise = trial->candidate->promise,
                     gain = trial->base.peak - trial->changed.peak;
        if (promise > PROMISE_SHARE * trial->base.peak &&
            (gain < PROMISE_KEPT * promise || trial->outlives))
            promised[count++] = trial;
    }
    return count;
}

/* ---- text ---- */

static void print_change(double base, double changed, FILE *to)
{
    if (isnan(base) || isnan(changed))
        fprintf(to, " %8s", "-");
    else
        fprintf(to, " %+8.1f", (changed - base) / MIB);
}

static void print_unsure(double bytes, FILE *to)
{
    if (isnan(bytes))
        fprintf(to, " %7s", "-");
    else
        fprintf(to, " %7.1f", bytes / MIB);
}

static void print_share(double base, double changed, FILE *to)
{
    if (base > 0 && !isnan(changed))
        fprintf(to, " %+7.1f", 100 * (changed - base) / base);
    else
        fprintf(to, " %7s", "-");
}

static void advise_print_counts(const struct trial *trial, FILE *to)
{
    char did[512], text[2048];
    for (size_t i = 0; i < trial->list.count; i++) {
        change_count_text(&trial->list.at[i], &trial->result.of[i], did, sizeof did);
        snprintf(text, sizeof text, "%s: %s", printable_text(trial->list.at[i].text), did);
        fprintf(to, "       ");
        terminal_print_wrapped(text, 7, 9, to);
    }
}

static void print_reason(const struct trial *trial, FILE *to)
{
    char text[512];
    snprintf(text, sizeof text, "What was seen: %s. What must hold: %s.",
             candidate_seen[trial->candidate->kind], candidate_must[trial->candidate->kind]);
    fprintf(to, "       ");
    terminal_print_wrapped(text, 7, 9, to);
}

static void print_best(const struct trials *trials, FILE *to)
{
    const struct trial *best[ADVICE_SHOWN];
    const size_t count = advise_best(trials, best);
    if (count == 0) {
        fputs("None of them gains anything.\n", to);
        return;
    }
    fprintf(to, "\n%13s %7s %8s %8s %7s %7s\n", "peak", "+/-", "mean", "end", "calls", "time");
    fprintf(to, "%13s %7s %8s %8s %7s %7s\n", "MiB", "MiB", "MiB", "MiB", "%", "%");
    for (size_t i = 0; i < count; i++) {
        const struct trial_numbers *base = &best[i]->base, *changed = &best[i]->changed;
        fprintf(to, "%4zu", i + 1);
        print_change(base->peak, changed->peak, to);
        print_unsure(best[i]->unsure, to);
        print_change(base->mean, changed->mean, to);
        print_change(base->end, changed->end, to);
        print_share(base->calls, changed->calls, to);
        print_share(base->cpu_seconds, changed->cpu_seconds, to);
        fprintf(to, "  %s\n", printable_text(best[i]->candidate->text));
        advise_print_counts(best[i], to);
        print_reason(best[i], to);
    }
}

static void print_false(const struct trials *trials, FILE *to)
{
    const struct trial *promised[ADVICE_SHOWN];
    const size_t count = advise_false(trials, promised);
    char text[2048];
    if (count > 0) fputs("\nThese look good by sums of bytes, and are not:\n", to);
    for (size_t i = 0; i < count; i++) {
        const struct trial *trial = promised[i];
        const double gain = trial->base.peak - trial->changed.peak;
        snprintf(text, sizeof text, "%.1500s: %.1f MiB at the peak by sums; %s %s %.1f MiB%s%s",
                 printable_text(trial->candidate->text), trial->candidate->promise / MIB,
                 trial->excessive ? "it would" : "replays", gain >= 0 ? "save" : "take",
                 fabs(gain) / MIB, gain >= 0 ? "" : " more",
                 trial->outlives ? ", but the program still had many of them" : "");
        fputs("  ", to);
        terminal_print_wrapped(text, 2, 4, to);
        advise_print_counts(trial, to);
    }
}

static void print_untouched(const struct trials *trials, FILE *to)
{
    const struct untouched_replayed *replayed = &trials->replayed;
    char text[512];
    if (!trials->untouched) return;
    if (trials->touched > 0)
        snprintf(
            text, sizeof text,
            "The program left much of what it allocated untouched: replays have %.1f MiB if they "
            "write to all of each object, %.1f if to its beginning; %.0f %% of what is between "
            "them counts, by what was resident in its heap.",
            replayed->all / MIB, replayed->beginning / MIB, 100 * trials->touched);
    else
        snprintf(
            text, sizeof text,
            "! The program left much of what it allocated untouched, and replays write to all of "
            "it: changes may save much less.");
    terminal_print_wrapped(text, 0, 2, to);
}

void advise_print(const struct trials *trials, const char *name, FILE *to)
{
    fprintf(to, "%s: %" PRIu64 " calls. ", printable_text(name), trials->calls);
    if (!isnan(trials->original_peak))
        fprintf(to, "The process had %.1f MiB at its peak; replays", trials->original_peak / MIB);
    else
        fputs("Replays", to);
    fprintf(to, " have %.1f.\n", trials->whole.peak / MIB);
    print_untouched(trials, to);
    fprintf(to, "%zu change%s of code %s tried by replays.\n", trials->count,
            trials->count == 1 ? "" : "s", trials->count == 1 ? "was" : "were");
    print_best(trials, to);
    print_false(trials, to);
}

/* ---- JSON ---- */

static json_t *numbers_json(const struct trial_numbers *numbers)
{
    json_t *object = json_object();
    json_put_real(object, "peak_net_rss_bytes", numbers->peak);
    json_put_real(object, "mean_net_rss_bytes", numbers->mean);
    json_put_real(object, "end_net_rss_bytes", numbers->end);
    json_put_real(object, "cpu_seconds", numbers->cpu_seconds);
    json_put_real(object, "events", numbers->calls);
    return object;
}

static json_t *trial_json(const struct trials *trials, const struct trial *trial)
{
    json_t *object = json_object();
    const enum candidate_kind kind = trial->candidate->kind;
    json_put_text(object, "change", trial->candidate->text);
    json_put_text(object, "kind", candidate_kinds[kind]);
    json_put_text(object, "seen", candidate_seen[kind]);
    json_put_text(object, "must_hold", candidate_must[kind]);
    json_put_real(object, "promised_bytes", trial->candidate->promise);
    json_put_number(object, "round", trial->round + 1);
    json_object_set_new(object, "whole", json_boolean(trial_is_whole(trials, trial)));
    json_put_text(object, "error", trial->failed ? trial->why : "");
    if (trial->failed) return object;
    json_put_real(object, "score", trial->score);
    json_put_number(object, "turns", trial->runs);
    json_put_real(object, "unsure_peak_bytes", trial->unsure);
    json_object_set_new(object, "replayed", json_boolean(!trial->excessive));
    json_object_set_new(object, "outlives", json_boolean(trial->outlives));
    json_object_set_new(object, "faster", json_boolean(trial->is_faster));
    json_object_set_new(object, "as_it_is", numbers_json(&trial->base));
    json_object_set_new(object, "changed", numbers_json(&trial->changed));
    if (!isnan(trials->original_peak) && trial_is_whole(trials, trial))
        json_put_real(object, "expected_peak_rss_bytes",
                      trials->original_peak + trial->changed.peak - trial->base.peak);
    json_object_set_new(object, "changes", change_result_json(&trial->list, &trial->result));
    return object;
}

static json_t *trials_json_of(const struct trials *trials, const struct trial **list, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, trial_json(trials, list[i]));
    return array;
}

json_t *advise_json(const struct trials *trials, const char *name)
{
    const struct trial *list[CANDIDATES_MAX];
    json_t *object = json_object();
    json_put_text(object, "file", name);
    json_put_number(object, "calls", trials->calls);
    json_put_real(object, "original_peak_rss_bytes", trials->original_peak);
    json_put_real(object, "original_end_rss_bytes", trials->original_end);
    json_put_real(object, "original_cpu_seconds", trials->cpu_seconds);
    json_object_set_new(object, "as_it_is", numbers_json(&trials->whole));
    json_put_real(object, "touched", trials->touched > 0 ? trials->touched : NAN);
    json_put_number(object, "rounds", trials->rounds);
    json_object_set_new(object, "best", trials_json_of(trials, list, advise_best(trials, list)));
    json_object_set_new(object, "false_promises",
                        trials_json_of(trials, list, advise_false(trials, list)));
    for (size_t i = 0; i < trials->count; i++)
        list[i] = &trials->at[i];
    json_object_set_new(object, "tried", trials_json_of(trials, list, trials->count));
    return object;
}
