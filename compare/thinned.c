#include "compare/thinned.h"

#include <math.h>

#include "compare/compare_numbers.h"

double compare_thinned_factor(const json_t *report)
{
    const double factor = compare_report_number(report, "thin");
    return factor > 1 ? factor : 1;
}

/* Unknown numbers stay unknown. */
static void thinned_set(json_t *report, const char *key, double bytes)
{
    if (!isnan(bytes)) json_object_set_new(report, key, json_integer((json_int_t)bytes));
}

void compare_thinned_scale(json_t *report)
{
    static const char *const resident[] = {"peak_net_rss_bytes", "mean_net_rss_bytes",
                                           "end_net_rss_bytes"};
    static const char *const others[] = {"peak_live_bytes", "end_live_bytes", "peak_heap_bytes",
                                         "not_given_back_bytes", "most_not_live_bytes"};
    const double factor = compare_thinned_factor(report);
    const double base = compare_report_number(report, "base_net_rss_bytes");
    if (!(factor > 1) || isnan(base)) return;
    for (size_t i = 0; i < sizeof resident / sizeof *resident; i++) {
        const double bytes = compare_report_number(report, resident[i]);
        thinned_set(report, resident[i], bytes > base ? base + factor * (bytes - base) : bytes);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        thinned_set(report, others[i], factor * compare_report_number(report, others[i]));
    const double live = compare_report_number(report, "peak_live_bytes");
    if (live > 0)
        json_object_set_new(report, "rss_per_live",
                            json_real(compare_report_number(report, "peak_net_rss_bytes") / live));
}
