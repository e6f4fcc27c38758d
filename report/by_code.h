/* by_code - the part of a report about call stacks: which code asks for what, by function, line, file,
 * by module or by whole stacks. by_code_make.h makes the rows; by_code_text.h, by_code_json.h and
 * interactive.h show them.
 *
 *   batches --stack_tally--> what each stack asked for
 *   definitions --code_names--> functions --code_groups--> rows: itself, with what it calls
 *                           --code_tree--> tree, for the flame graph
 *
 * The rules are in symbols/: code_groups.h says which function a call counts for, stack_tally.h
 * what is measured and how samples are scaled. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_H
#define MALLOCTAPE_REPORT_BY_CODE_H

#include <stdbool.h>
#include <stdio.h>

#include "symbols/code_tree.h"
#include "symbols/suppressions.h"

/* What `by` is called: "function", ... */
extern const char *const by_code_kinds[CODE_BY_KINDS];

/* Names what has no call stack. */
#define BY_CODE_NO_STACK "(no stack)"

/* What the user asked for. */
struct by_code_options {
    enum code_by by;
    bool is_by_given;                 /* more rows are printed then */
    unsigned top;                     /* rows of a table; 0: the default */
    bool sorts_total;                 /* tables are sorted by what rows have with what they call */
    const char *focus, *ignore;       /* as they were given; NULL: none */
    const regex_t *focused, *ignored; /* the same */
    const regex_t *skip;              /* functions and files that are passed over; NULL: none */
    enum code_view view;
    unsigned depth;                 /* frames of a stack; 0: the default */
    const char *const *directories; /* for symbols */
    size_t directories_count;
    const struct suppressions *suppressions; /* NULL: none */
    const char *source; /* a function whose source a page has, too; NULL: none */
    bool is_compared;   /* with another trace */
    bool has_range;     /* only what happened from from_ns until to_ns (UINT64_MAX: the end) */
    uint64_t from_ns, to_ns;
};

/* Who frees most of some objects of a row. */
struct by_code_freer {
    uint32_t row; /* CODE_GROUP_NONE: not known */
    double share; /* of the objects whose freer is known */
};

struct by_code_freed {
    struct by_code_freer short_lived, remote;
};

/* What happened in a stretch of time: objects of a row that were made, and that ended. */
struct by_code_span {
    double made, bytes, ended, ended_bytes;
};

struct by_code {
    bool is_known; /* the trace has call stacks */
    const struct by_code_options *options;
    struct stacks stacks;
    struct stack_tally tally;
    struct stack_scales scales;
    struct code_names names;
    struct code_grouping groups;
    struct stack_sums *self, *total; /* by group */
    uint64_t *oldest;                /* by group: the call that made its oldest live object */
    struct stack_ages *ages;         /* by group: of its live objects */
    struct code_grouping lines;
    struct stack_sums *in_lines; /* by line */
    uint32_t *lines_of;          /* by group: one of its lines, plus 1; 0: none */
    uint32_t *next_line; /* by line: the next one of the same group; CODE_GROUP_NONE: none */
    struct by_code_freed *freed;              /* by group */
    struct by_code_span *span_of, *span_with; /* by group, itself and with what it calls: of
                                                 options->has_range; else NULL */
    struct stack_sums all;
    uint8_t *suppressed; /* by group: all that it has alive at the end is known to stay */
    struct stack_sums suppressions; /* of those: STACK_AT_END only */
};

void by_code_close(struct by_code *code);

/* A number of a function, with what it calls, for limits and for what changed: */
struct by_code_number {
    const char *key, *words;
    enum stack_measure measure;
    bool is_bytes;
};
enum {
    BY_CODE_PEAK = 2,
    BY_CODE_END = 3,
    BY_CODE_SHORT_LIVED = 5,
    BY_CODE_GROWN = 6,
    BY_CODE_FREED = 8,
    BY_CODE_MAPPED = 10,
    BY_CODE_NUMBERS = 11
}; /* END: in bytes */
extern const struct by_code_number by_code_numbers[BY_CODE_NUMBERS];

/* The row whose name is the first `bytes` of `name`, or ends with that after a ":" or "/", of
 * Python after a ".";
 * CODE_GROUP_NONE: there is none. */
uint32_t by_code_find(const struct by_code *code, const char *name, size_t bytes);

/* The value of a row with what it calls, and of itself alone; 0 for CODE_GROUP_NONE. */
double by_code_value(const struct by_code *code, uint32_t row, const struct by_code_number *number);

double by_code_itself(const struct by_code *code, uint32_t row,
                      const struct by_code_number *number);

/* Its sum, of a row or of all. */
const struct stack_sum *by_code_sum_of(const struct stack_sums *sums,
                                       const struct by_code_number *number);

/* Whether the number is an estimate. */
bool by_code_is_sampled(const struct by_code *code, const struct by_code_number *number);

/* Adds the values, without what is known of their errors. */
void by_code_add(struct stack_sums *to, const struct stack_sums *one);

/* Rows in the order of a number. */
struct by_code_order {
    const struct by_code *code;
    const struct by_code_number *number;
    bool is_all; /* with rows that only call what asks for memory, or that only free */
    uint32_t *rows;
    size_t count;
};

/* Sorts the rows, the greatest first, and leaves out those with 0; the caller frees `rows`. False: no
 * memory. */
bool by_code_order_rows(struct by_code_order *order);

/* Whether tables are sorted by what rows have with what they call: a stack has no number but its
 * own. */
static inline bool by_code_sorts_total(const struct by_code *code)
{
    return code->options->sorts_total && code->groups.by < CODE_BY_STACK;
}

const char *by_code_name(const struct by_code *code, uint32_t row);

/* The rows that still grow at the end: of their live objects, at least 16, some were made in each
 * quarter of the calls, or of the time since recording began (by_code_leaks_when()). Those with most
 * live bytes first; returns how many. */
unsigned by_code_leaks(const struct by_code *code, uint32_t *rows, unsigned most);

/* So many samples that are alive at the end a row would need to be one of these, if none has as many;
 * 0: some has, or what is alive is not sampled. */
unsigned by_code_leaks_need(const struct by_code *code);

const char *by_code_leaks_when(const struct by_code *code);

/* How many objects such a row has made: of estimates, not less than are alive. */
double by_code_leaks_of(const struct by_code *code, uint32_t row);

/* The rows of the live objects of `tally`, which has counted the same trace up to some call; by
 * index. CODE_GROUP_NONE: the object is not in focus. The caller frees the array. NULL: no
 * memory. */
uint32_t *by_code_rows_of(const struct by_code *code, const struct stack_tally *tally);

/* "functions", or what else the rows are. */
const char *by_code_rows(const struct by_code *code);

#endif
