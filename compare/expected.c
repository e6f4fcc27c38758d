#include "compare/expected.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "compare/rank.h"

/* The recorder looks at memory at this interval; ticks in between repeat its latest result. */
#define LOOK_S 0.1

/* A replay further away from the recorded curve tells little about the rest of the process. */
#define FOLLOWS_MOST 0.12

/* The difference between programs is that between replays times one of these factors: page faults
 * cost programs less, and a replay lacks their own cache misses. In addition, programs differ by
 * CPU_NOISE of their time for reasons that no replay shows (docs/prediction.md). */
#define CPU_TIMES_LEAST  0.35
#define CPU_TIMES_LIKELY 0.8
#define CPU_TIMES_MOST   2.5
#define CPU_NOISE        0.03

/* ---- curves ---- */

/* A difference, and how long it lasted. */
struct difference {
    double value, seconds;
};

static int expected_ascending(const void *one, const void *other)
{
    double left = ((const struct difference *)one)->value;
    double right = ((const struct difference *)other)->value;
    return (left > right) - (left < right);
}

/* The median of the values, weighted by their time; sorts them. */
static double weighted_median(struct difference *of, size_t count, double seconds)
{
    double below = 0;
    size_t i = 0;
    qsort(of, count, sizeof *of, expected_ascending);
    while (i + 1 < count && (below += of[i].seconds) < seconds / 2)
        i++;
    return of[i].value;
}

static double mean_distance(struct difference *of, size_t count)
{
    double seconds = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        seconds += of[i].seconds;
    double middle = weighted_median(of, count, seconds);
    for (size_t i = 0; i < count; i++)
        sum += fabs(of[i].value - middle) * of[i].seconds;
    return seconds > 0 ? sum / seconds : NAN;
}

/* Skips points at which `one` only repeats the recorder's latest look. */
double compare_curves_distance(const double *seconds, const double *one, const double *other,
                               size_t count)
{
    struct difference *differences = calloc(count + 1, sizeof *differences);
    double latest = NAN, since = 0;
    size_t points = 0;
    for (size_t i = 0; differences != NULL && i < count; i++) {
        if (isnan(one[i]) || isnan(other[i])) continue;
        if (points > 0 && one[i] == latest && seconds[i] - since < LOOK_S) continue;
        if (points > 0) differences[points - 1].seconds = seconds[i] - since;
        differences[points++].value = one[i] - other[i];
        latest = one[i];
        since = seconds[i];
    }
    if (points > 0) differences[points - 1].seconds = seconds[count - 1] - since;
    double distance = points >= COMPARE_CURVE_POINTS_MIN ? mean_distance(differences, points) : NAN;
    free(differences);
    return distance;
}

/* What they had at a time; `*at` is the first look that is not before it, and moves on. */
static double others_bytes_at(const struct others *others, double seconds, size_t *at)
{
    while (*at < others->count && others->seconds[*at] < seconds)
        ++*at;
    if (*at == 0) return others->bytes[0];
    if (*at == others->count) return others->bytes[*at - 1];
    const double from = others->seconds[*at - 1], to = others->seconds[*at];
    const double part = to > from ? (seconds - from) / (to - from) : 1;
    return others->bytes[*at - 1] + part * (others->bytes[*at] - others->bytes[*at - 1]);
}

void compare_curves_subtract(const struct others *others, const double *seconds, double *values,
                             size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count && others->count > 0; i++)
        values[i] -= others_bytes_at(others, seconds[i], &at);
}

void compare_curves_shorten(json_t *series, size_t points_max)
{
    const char *key;
    json_t *all, *value;
    size_t i;
    json_object_foreach(series, key, all)
    {
        const bool time = strcmp(key, "seconds") == 0;
        const size_t every = (json_array_size(all) + points_max - 1) / points_max;
        json_t *merged = json_array();
        json_array_foreach(all, i, value)
        {
            const json_t *before = json_array_get(merged, i / every);
            if (before == NULL)
                json_array_append(merged, value);
            else if (time || json_number_value(value) > json_number_value(before))
                json_array_set(merged, i / every, value);
        }
        json_object_set_new(series, key, merged);
    }
}

static void curve_read(double *values, const json_t *series, const char *key, size_t count)
{
    const json_t *list = json_object_get(series, key);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        values[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
}

/* Makes of the heap's size at each time what of it was resident: looks say how much less that is.
 * Where the heap's size is not known, it is what the process had and others had not. */
static bool expected_heap_curve(const struct others *others, const double *seconds,
                                const double *process, double *heap, size_t count)
{
    struct others less = *others;
    double *rest = calloc(count + 1, sizeof *rest);
    less.bytes = calloc(others->count + 1, sizeof *less.bytes);
    const bool good = rest != NULL && less.bytes != NULL;
    for (size_t look = 0, i = 0; good && look < others->count && count > 0; look++) {
        while (i + 1 < count && seconds[i] < others->seconds[look])
            i++;
        less.bytes[look] = heap[i] > others->heap[look] ? heap[i] - others->heap[look] : 0;
    }
    if (good) {
        memcpy(rest, process, count * sizeof *rest);
        compare_curves_subtract(others, seconds, rest, count);
        compare_curves_subtract(&less, seconds, heap, count);
    }
    for (size_t i = 0; good && i < count; i++)
        if (!(heap[i] > 0)) heap[i] = rest[i];
    free(rest);
    free(less.bytes);
    return good;
}

/* The distance of the whole process's curve, or of the heap's part of it: if the rest of the process
 * changes, that is less; what is resident between looks is not known, so it may be more. */
static double distance_of_replay(const json_t *series, const struct others *others)
{
    const size_t count = json_array_size(json_object_get(series, "seconds"));
    double *seconds = calloc(4 * count + 1, sizeof *seconds);
    double *original = seconds + count, *replay = original + count, distance = NAN;
    double *heap = replay + count;
    if (seconds == NULL) return NAN;
    curve_read(seconds, series, "seconds", count);
    curve_read(original, series, "original_net_rss_bytes", count);
    curve_read(replay, series, "net_rss_bytes", count);
    curve_read(heap, series, "original_heap_bytes", count);
    if (count > 0) distance = compare_curves_distance(seconds, original, replay, count);
    if (count > 0 && others->count > 0 &&
        expected_heap_curve(others, seconds, original, heap, count))
        distance = fmin(distance, compare_curves_distance(seconds, heap, replay, count));
    free(seconds);
    return distance;
}

/* ---- the original ---- */

/* Reads what is known without a replay under the recorded allocator. */
static void original_read(struct compare_original *original, const json_t *report)
{
    *original = (struct compare_original){
        .touched = original->touched,
        .replayed = original->replayed,
        .peak_bytes = compare_report_number(report, "original_peak_net_rss_bytes"),
        .mean_bytes = compare_report_number(report, "original_mean_net_rss_bytes"),
        .end_bytes = compare_report_number(report, "original_end_net_rss_bytes"),
        .cpu_seconds = compare_report_number(report, "original_user_seconds") +
                       compare_report_number(report, "original_system_seconds"),
        .allocator_seconds = NAN,
        .follows = NAN,
    };
}

/* Whether there is a replay under the recorded allocator to compare with. */
static bool original_is_replayed(struct compare *compare)
{
    struct compare_original *original = &compare->original;
    const struct compare_row *recorded = compare->recorded;
    const char *allocator =
        json_string_value(json_object_get(compare->null_report, "recorded_allocator"));
    const size_t bytes = sizeof original->why_not;
    if (recorded == NULL)
        snprintf(original->why_not, bytes, "the recorded allocator, %s, is not known here",
                 allocator != NULL ? allocator : "which is not named");
    else if (*recorded->why != '\0')
        snprintf(original->why_not, bytes, "the recorded allocator cannot be replayed: %.120s",
                 recorded->why);
    return *original->why_not == '\0';
}

/* A replay writes at once to the pages of a large object that the program touched one by one: then curves
 * are apart that have the same peak. INFINITY: there is no such object, or it is not known. */
static double distance_at_peak(const struct compare_row *recorded, double replayed, double heap)
{
    const double untouched =
        compare_report_number(json_array_get(recorded->reports, 0), "untouched_bytes");
    return untouched > 0 && !isnan(heap) ? fabs(replayed - heap) : INFINITY;
}

/* Sets original->why_not: why the replay cannot stand for the allocator's part of the process;
 * empty if it can. */
static void original_follow(struct compare_original *original, const struct compare_row *recorded,
                            const struct others *others)
{
    const double peak = original->peak_bytes;
    const bool is_corrected = original->touched > 0;
    const double replayed = is_corrected ? original->replayed.all
                                         : compare_median("peak_net_rss_bytes", recorded->reports);
    original->untouched = untouched_is_much(replayed, peak);
    if (is_corrected) return;
    const double apart = original->follows =
        fmin(distance_of_replay(recorded->series, others),
             distance_at_peak(recorded, replayed, untouched_heap_bytes(others, peak))) /
        peak;
    char *why = original->why_not;
    const size_t bytes = sizeof original->why_not;
    if (isnan(peak))
        snprintf(why, bytes, "the recording does not say how much memory the recorder had");
    else if (original->untouched)
        snprintf(why, bytes,
                 "the program left much of what it allocated untouched: it had %.1f MiB, a "
                 "replay on its own allocator has %.1f",
                 peak / MIB, replayed / MIB);
    else if (isnan(apart))
        snprintf(why, bytes, "the program was too short for a curve of its memory");
    else if (apart > FOLLOWS_MOST && replayed < peak / 2)
        snprintf(why, bytes,
                 "most of the program's memory is not its allocator's: it had %.1f MiB, a replay "
                 "on its own allocator has %.1f",
                 peak / MIB, replayed / MIB);
    else if (apart > FOLLOWS_MOST)
        snprintf(why, bytes,
                 "a replay on its own allocator does not reproduce its memory over time: they "
                 "are %.0f %% of the peak apart",
                 apart * 100);
}

/* ---- rows ---- */

void compare_cpu_range(double cpu_seconds, double *least, double *most)
{
    double noise = CPU_NOISE * cpu_seconds;
    *least = *least * (*least < 0 ? CPU_TIMES_MOST : CPU_TIMES_LEAST) - noise;
    *most = *most * (*most < 0 ? CPU_TIMES_LEAST : CPU_TIMES_MOST) + noise;
}

bool compare_cpu_shares(const struct compare *compare, double *least, double *most)
{
    const double all = compare->original.cpu_seconds;
    if (!(all > 0) || !(compare->original.allocator_seconds >= 0) ||
        compare->options.rounds < RANK_VALUES_MIN)
        return false;
    compare_cpu_range(all, least, most);
    *least /= all;
    *most /= all;
    return true;
}

double compare_cpu_least(double cpu_seconds)
{
    return CPU_NOISE * cpu_seconds / CPU_TIMES_LEAST;
}

/* Uses the 95 % confidence interval of the difference between the replays. Apart from noise, a
 * program cannot save more time than its allocator takes. */
static void expect_cpu(struct compare_expected *expected, const struct compare_row *row,
                       const struct compare_row *recorded, const struct compare_original *original)
{
    const struct compare_number *cpu = compare_number_find("cpu_seconds");
    const size_t rounds = json_array_size(row->reports);
    double *values = calloc(2 * rounds + 1, sizeof *values);
    if (values == NULL) return;
    struct rank_candidate own = {.values = values}, before = {.values = values + rounds};
    own.count = compare_values_of(cpu, row->reports, values, rounds);
    before.count = compare_values_of(cpu, recorded->reports, values + rounds, rounds);
    const struct rank_difference of =
        rank_difference_of(&own, &before, &(struct rank_threshold){0, 0, 0});
    free(values);
    if (isnan(of.median)) return;
    const double lowest = -original->allocator_seconds;
    const double noise = CPU_NOISE * original->cpu_seconds;
    double least = of.least, most = of.most;
    compare_cpu_range(original->cpu_seconds, &least, &most);
    expected->cpu_change = row != recorded ? fmax(CPU_TIMES_LIKELY * of.median, lowest) : 0;
    if (own.count < RANK_VALUES_MIN) return;
    expected->cpu_change_least = row != recorded ? fmax(least, lowest - noise) : 0;
    expected->cpu_change_most = row != recorded ? fmax(most, lowest + noise) : 0;
}

/* The time of the replay under the recorded allocator minus that of one without an allocator, which
 * has no objects to touch; at least 0, at most the program's time. */
static double allocator_seconds(const struct compare *compare)
{
    double all = compare->original.cpu_seconds;
    double seconds = compare_median("cpu_seconds", compare->recorded->reports) -
                     compare_cpu_seconds(compare->null_report);
    if (isnan(all) || isnan(seconds)) return NAN;
    return seconds < 0 ? 0 : seconds > all ? all : seconds;
}

static double expect_bytes(double original, const struct compare_row *row,
                           const struct compare_row *recorded, const char *key)
{
    double bytes =
        original + compare_median(key, row->reports) - compare_median(key, recorded->reports);
    return bytes > 0 ? bytes : NAN;
}

static void expect_row(struct compare *compare, struct compare_row *row)
{
    const struct compare_original *original = &compare->original;
    const struct compare_row *follows = compare_row_to_follow(compare);
    if (*row->why != '\0' || compare_row_is_nothing(row)) return;
    if (!isnan(original->allocator_seconds))
        expect_cpu(&row->expected, row, compare->recorded, original);
    if (*original->why_not != '\0') return;
    row->expected.peak_bytes =
        expect_bytes(original->peak_bytes, row, follows, "peak_net_rss_bytes");
    row->expected.mean_bytes =
        expect_bytes(original->mean_bytes, row, follows, "mean_net_rss_bytes");
    row->expected.end_bytes = expect_bytes(original->end_bytes, row, follows, "end_net_rss_bytes");
}

void compare_expect(struct compare *compare)
{
    const struct compare_expected unknown = {NAN, NAN, NAN, NAN, NAN, NAN};
    struct compare_original *original = &compare->original;
    for (size_t i = 0; i < compare->rows_count; i++)
        compare->rows[i].expected = unknown;
    original_read(original, compare->null_report);
    if (!original_is_replayed(compare)) return;
    original_follow(original, compare_row_to_follow(compare), &compare->others);
    if (!original->untouched) original->allocator_seconds = allocator_seconds(compare);
    for (size_t i = 0; i < compare->rows_count; i++)
        expect_row(compare, &compare->rows[i]);
}
