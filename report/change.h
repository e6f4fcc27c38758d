/* change - two traces side by side: what grew, and by which sizes. */
#ifndef MALLOCTAPE_REPORT_CHANGE_H
#define MALLOCTAPE_REPORT_CHANGE_H

#include "report/numbers.h"
#include "report/report.h"

/* One size, or class of sizes. */
struct change_size {
    uint64_t size, highest;
    uint64_t made_before, made_after, bytes_before, bytes_after;
};

struct change {
    const struct report_trace *before, *after;
    const struct report_number *
        *numbers; /* those that differ; what grew most, in per cent, first */
    size_t numbers_count;
    struct change_size *sizes; /* those of which not as many were made; most more first */
    size_t sizes_count;
};

/* False: no memory. */
bool change_open(struct change *change, const struct report_trace *before,
                 const struct report_trace *after);
void change_close(struct change *change);

/* By how many, or how many bytes, more were made. */
static inline double change_made(const struct change_size *size)
{
    return (double)size->made_after - (double)size->made_before;
}
static inline double change_bytes(const struct change_size *size)
{
    return (double)size->bytes_after - (double)size->bytes_before;
}

void change_print(const struct change *change, FILE *to);

/* A new object. */
json_t *change_json(const struct change *change);

/* A page with charts. False: `why` says what is missing or cannot be written. */
bool change_page_write(const struct change *change, const char *path, char *why, size_t why_bytes);

#endif
