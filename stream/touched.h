/* touched - which pages of a large object were resident, as runs (FORMAT.md 4.5, *touched*).
 *
 *     touched_add(&touched, count, vector);          pages, as mincore() says them
 *     bytes = touched_put(&touched, text);           what the record has as its name
 *     good = touched_take(text, bytes, &touched);
 *
 * No more than TOUCHED_RUNS_MAX are kept: where there would be more, two become one that has as many
 * pages of both kinds. */
#ifndef MALLOCTAPE_TOUCHED_H
#define MALLOCTAPE_TOUCHED_H

#include "stream/varint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Objects of fewer pages are not looked at. */
#define TOUCHED_PAGES_LEAST 64u

#define TOUCHED_RUNS_MAX  64u
#define TOUCHED_BYTES_MAX (TOUCHED_RUNS_MAX * 2 * 5 + VARINT_SLACK)

struct touched_run {
    uint32_t skipped, resident; /* pages that are not, then pages that are, at least one */
};

struct touched {
    struct touched_run runs[TOUCHED_RUNS_MAX];
    uint32_t count;
    uint32_t skipped;  /* at the end */
    uint64_t resident; /* of all runs */
};

/* Adds pages, one after another; bit 0 of each byte: it is resident. */
void touched_add(struct touched *touched, size_t pages, const uint8_t *resident);

/* Writes the runs; TOUCHED_BYTES_MAX bytes may be touched. Returns how many they take. */
uint32_t touched_put(const struct touched *touched, uint8_t *text);

/* False: these are no runs. VARINT_SLACK bytes behind them may be read. */
bool touched_take(const uint8_t *text, uint32_t bytes, struct touched *touched);

#ifdef __cplusplus
}
#endif
#endif
