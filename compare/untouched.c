#include "compare/untouched.h"

#include <math.h>
#include <string.h>

#include "compare/compare_run.h"

/* Whether replays write to much that the program did not. */
static bool compare_writes_more(const struct compare *compare, double peak)
{
    const struct compare_row *recorded = compare->recorded;
    if (compare->options.what_ifs_count == 0 || recorded == NULL || *recorded->why != '\0')
        return false;
    const char *touch =
        json_string_value(json_object_get(json_array_get(recorded->reports, 0), "touch"));
    return touch != NULL && strcmp(touch, "pages") == 0 &&
           untouched_is_needed(&compare->others, peak,
                               compare_median("peak_net_rss_bytes", recorded->reports));
}

static const char *const untouched_keys[] = {"peak_net_rss_bytes", "mean_net_rss_bytes",
                                             "end_net_rss_bytes"};
enum { UNTOUCHED_KEYS = sizeof untouched_keys / sizeof *untouched_keys };

/* By how much replays under the recorded allocator differ that write to all, and to beginnings. */
struct untouched_spans {
    double of[UNTOUCHED_KEYS];
};

/* Of a change that puts objects into chunks there is no replay that writes to the beginnings of these:
 * what is left untouched stays the same. */
static void untouched_correct_row(struct compare_row *row, const json_t *beginning,
                                  const struct untouched_spans *spans, double touched)
{
    size_t at;
    json_t *report;
    const bool in_chunks = row->changed != NULL && change_list_makes_chunks(row->changed->list);
    json_array_foreach(row->reports, at, report)
    {
        for (unsigned i = 0; i < UNTOUCHED_KEYS; i++) {
            const double all = compare_report_number(report, untouched_keys[i]),
                         least = in_chunks ? all - spans->of[i]
                                           : compare_report_number(beginning, untouched_keys[i]);
            if (!isnan(all) && !isnan(least))
                json_object_set_new(report, untouched_keys[i],
                                    json_real(untouched_corrected(all, least, touched)));
        }
    }
}

/* The report of each row, in an array. False: one is missing. */
static bool untouched_replay(struct compare *compare, json_t *beginnings)
{
    bool good = true;
    for (size_t i = 0; i < compare->rows_count && good; i++) {
        struct compare_row *row = &compare->rows[i];
        json_t *report = compare_run_beginning(compare, row);
        good = report != NULL || *row->why != '\0' || compare_row_is_nothing(row);
        json_array_append_new(beginnings, report != NULL ? report : json_null());
    }
    return good;
}

void compare_untouched_correct(struct compare *compare)
{
    struct compare_original *original = &compare->original;
    json_t *beginnings = json_array();
    struct untouched_spans spans = {{0}};
    const double peak = compare_report_number(compare->null_report, "original_peak_net_rss_bytes");
    original->touched = 0;
    if (compare_writes_more(compare, peak) && untouched_replay(compare, beginnings)) {
        const json_t *of_recorded =
            json_array_get(beginnings, (size_t)(compare->recorded - compare->rows));
        original->replayed = (struct untouched_replayed){
            compare_median("peak_net_rss_bytes", compare->recorded->reports),
            compare_report_number(of_recorded, "peak_net_rss_bytes")};
        for (unsigned i = 0; i < UNTOUCHED_KEYS; i++)
            spans.of[i] = compare_median(untouched_keys[i], compare->recorded->reports) -
                          compare_report_number(of_recorded, untouched_keys[i]);
        original->touched = untouched_share(&compare->others, peak, &original->replayed);
    }
    for (size_t i = 0; original->touched > 0 && i < compare->rows_count; i++)
        untouched_correct_row(&compare->rows[i], json_array_get(beginnings, i), &spans,
                              original->touched);
    json_decref(beginnings);
}
