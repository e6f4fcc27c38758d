#include "compare/untouched.h"

#include <math.h>
#include <string.h>

#include "compare/compare_run.h"

/* Whether replays write to much that the program did not. */
static bool untouched_is_needed(const struct compare *compare, double peak)
{
    const struct compare_row *recorded = compare->recorded;
    if (compare->options.what_ifs_count == 0 || recorded == NULL || *recorded->why != '\0')
        return false;
    const char *touch =
        json_string_value(json_object_get(json_array_get(recorded->reports, 0), "touch"));
    return touch != NULL && strcmp(touch, "pages") == 0 &&
           untouched_is_much(compare_median("peak_net_rss_bytes", recorded->reports), peak);
}

static void untouched_correct_row(struct compare_row *row, const json_t *beginning, double touched)
{
    static const char *const keys[3] = {"peak_net_rss_bytes", "mean_net_rss_bytes",
                                        "end_net_rss_bytes"};
    size_t at;
    json_t *report;
    json_array_foreach(row->reports, at, report)
    {
        for (unsigned i = 0; i < 3; i++) {
            const double all = compare_report_number(report, keys[i]),
                         least = compare_report_number(beginning, keys[i]);
            if (!isnan(all) && !isnan(least))
                json_object_set_new(report, keys[i],
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
    const double peak = compare_report_number(compare->null_report, "original_peak_net_rss_bytes");
    original->touched = 0;
    if (untouched_is_needed(compare, peak) && untouched_replay(compare, beginnings)) {
        const json_t *of_recorded =
            json_array_get(beginnings, (size_t)(compare->recorded - compare->rows));
        original->replayed = (struct untouched_replayed){
            compare_median("peak_net_rss_bytes", compare->recorded->reports),
            compare_report_number(of_recorded, "peak_net_rss_bytes")};
        original->touched = untouched_share(&compare->others, peak, &original->replayed);
    }
    for (size_t i = 0; original->touched > 0 && i < compare->rows_count; i++)
        untouched_correct_row(&compare->rows[i], json_array_get(beginnings, i), original->touched);
    json_decref(beginnings);
}
