#include "replay/series.h"

#include "common/pages.h"

#define SERIES_BYTES (SERIES_ROWS_MAX * sizeof(struct series_row))

bool series_open(struct series *series, struct error *error)
{
    *series = (struct series){.rows = pages_map(SERIES_BYTES), .every = 1};
    return series->rows != NULL || error_set_system(error, "no memory for a series");
}

static void series_halve(struct series *series)
{
    for (unsigned i = 0; i < series->count / 2; i++)
        series->rows[i] = series->rows[2 * i];
    series->count /= 2;
    series->every *= 2;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

void series_add(struct series *series, const struct series_row *row, bool last)
{
    if (row->heap_bytes > series->peak_heap_bytes) {
        series->peak_heap_bytes = row->heap_bytes;
        series->live_at_peak_heap_bytes = row->live_bytes;
    }
    series->original_peak_heap_bytes =
        larger(series->original_peak_heap_bytes, row->original_heap_bytes);
    series->original_ns = row->original_ns;

    if (series->count == SERIES_ROWS_MAX) series_halve(series);
    if (last || series->offered % series->every == 0) series->rows[series->count++] = *row;
    series->offered++;
}
