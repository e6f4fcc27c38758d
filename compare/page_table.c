#include "compare/page_table.h"

#include <math.h>
#include <string.h>

#include "allocators/facts_tcmalloc.h"

static double parts_of(double from, double to)
{
    const double part = (double)(UINT64_C(1) << TCMALLOC_PAGE_TABLE_SHIFT);
    return floor((to - 1) / part) - floor(from / part) + 1;
}

static bool is_tcmalloc(const struct compare_row *row)
{
    const struct known_allocator *known = row->found.known;
    return known != NULL && strncmp(known->name, "tcmalloc", 8) == 0;
}

static void correct_row(const struct compare_row *row, double recorded_parts)
{
    static const char *const keys[] = {"peak_net_rss_bytes", "mean_net_rss_bytes",
                                       "end_net_rss_bytes"};
    size_t at;
    json_t *report;
    json_array_foreach(row->reports, at, report)
    {
        const double more = parts_of(compare_report_number(report, "break_from"),
                                     compare_report_number(report, "break_to")) -
                            recorded_parts;
        for (unsigned i = 0; i < sizeof keys / sizeof *keys && more != 0 && !isnan(more); i++) {
            const double bytes = compare_report_number(report, keys[i]);
            if (!isnan(bytes))
                json_object_set_new(report, keys[i],
                                    json_real(bytes - more * TCMALLOC_PAGE_TABLE_BYTES));
        }
    }
}

void compare_page_table_correct(struct compare *compare)
{
    const struct others *others = &compare->others;
    if (compare->recorded == NULL || !is_tcmalloc(compare->recorded) || others->break_to == 0)
        return;
    const double parts = parts_of((double)others->break_from, (double)others->break_to);
    for (size_t i = 0; i < compare->rows_count; i++)
        if (is_tcmalloc(&compare->rows[i])) correct_row(&compare->rows[i], parts);
    correct_row(&compare->uncleared, parts);
}
