/* change - two traces side by side: what grew, and by which sizes. */
#ifndef MALLOCTAPE_REPORT_CHANGE_H
#define MALLOCTAPE_REPORT_CHANGE_H

#include "report/code_change.h"
#include "report/owners_change.h"
#include "report/report_numbers.h"
#include "report/report_trace.h"

/* A number of the first and of the second trace; below 0: not known. */
struct change_pair {
    long double before, after;
};

/* Of one size: how many objects, and their bytes. */
struct change_counts {
    struct change_pair objects, bytes;
};

/* Objects that were made, that were alive at the peak, that are alive at the end. */
enum change_when { CHANGE_MADE, CHANGE_PEAK, CHANGE_END, CHANGE_WHENS };

/* One size, or class of sizes. */
struct change_size {
    uint64_t size, highest;
    struct change_counts of[CHANGE_WHENS];
};

struct change_number {
    const char *key;
    enum number_unit unit;
    struct change_pair value;
};

struct change {
    const struct report_trace *before, *after;
    struct change_number numbers[REPORT_NUMBERS_MAX]; /* by growth in per cent, greatest first */
    size_t numbers_count, differing;                  /* those that differ come first */
    struct change_size *sizes; /* those that differ; by growth in objects made, greatest first */
    size_t sizes_count;
    struct owners_change owners;
    struct code_change code;
};

/* False: no memory. */
bool change_open(struct change *change, const struct report_trace *before,
                 const struct report_trace *after);
void change_close(struct change *change);

void change_print(const struct change *change, FILE *to);

/* Prints the first lines: which size changed most, for each of CHANGE_MADE, _PEAK and _END. */
void change_print_first(const struct change *change, FILE *to);

/* A new object. */
json_t *change_json(const struct change *change);

/* A page with charts. False: `why` says what is missing or cannot be written. */
bool change_page_write(const struct change *change, const char *path, char *why, size_t why_bytes);

#endif
