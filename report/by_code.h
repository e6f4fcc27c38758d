/* by_code - what a report says of a trace with call stacks: which code asks for what, by function, by
 * file, by module or by whole stacks.
 *
 *   batches --stack_tally--> what each stack asked for
 *   definitions --code_names--> functions --code_groups--> rows: itself, with what it calls
 *                                                          tree, for the flame graph
 *
 * symbols/ says what counts as what: code_groups.h which function a call is of, stack_tally.h what
 * is measured and how samples are scaled. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_H
#define MALLOCTAPE_REPORT_BY_CODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "symbols/code_groups.h"

/* What `by` is called: "function", ... */
extern const char *const by_code_kinds[CODE_BY_TREE];

/* What the user asked for. */
struct by_code_options {
    enum code_by by;
    bool is_by_given;               /* more rows are printed then */
    const char *focus;              /* as it was given; NULL: none */
    const regex_t *expression;      /* the same */
    unsigned depth;                 /* frames of a stack; 0: as many as are usual */
    const char *const *directories; /* for symbols */
    size_t directories_count;
};

/* Who frees most of some objects of a row. */
struct by_code_freer {
    uint32_t row; /* CODE_GROUP_NONE: not known */
    double share; /* of those of which it is known */
};

struct by_code_freed {
    struct by_code_freer short_lived, remote;
};

struct by_code {
    bool is_known; /* the trace has call stacks */
    const struct by_code_options *options;
    uint64_t sample_bytes; /* from one sample to the next, in the mean; 0: all calls have stacks */
    struct stacks stacks;
    struct stack_tally tally;
    struct code_names names;
    struct code_grouping groups;
    struct stack_sums *self, *total; /* by group */
    struct code_frame *places;       /* by group: where most of its bytes are asked for */
    uint64_t *oldest;                /* by group: the first call whose object is alive at the end */
    struct by_code_freed *freed;     /* by group */
    struct code_grouping tree;
    struct stack_sums *in_tree;
    struct stack_sums all;
};

/* With all batches in by_code->tally and the definitions in by_code->stacks; `sampled` and
 * `sampled_frees` are the values of the keys `stacks` and `stacks.frees` of the trace. False: no
 * memory. */
bool by_code_make(struct by_code *code, const struct by_code_options *options, const char *sampled,
                  const char *sampled_frees, const struct code_places *places);
void by_code_close(struct by_code *code);

/* `grows`: what is alive at the end comes first. */
void by_code_print(const struct by_code *code, bool grows, FILE *to);

/* A new object. */
json_t *by_code_json(const struct by_code *code);

/* A number of a function, with what it calls, for limits and for what changed: */
struct by_code_number {
    const char *key, *words;
    enum stack_measure measure;
    bool is_bytes;
};
enum { BY_CODE_NUMBERS = 10 };
extern const struct by_code_number by_code_numbers[BY_CODE_NUMBERS];

/* The row of a name of so many bytes: the whole name, or what stands behind a "::" or "/" in it;
 * CODE_GROUP_NONE: there is none. */
uint32_t by_code_find(const struct by_code *code, const char *name, size_t bytes);

/* Of a row, or of none (0), with what it calls; and itself. */
double by_code_value(const struct by_code *code, uint32_t row, const struct by_code_number *number);

double by_code_itself(const struct by_code *code, uint32_t row,
                      const struct by_code_number *number);

const char *by_code_name(const struct by_code *code, uint32_t row);

/* "  file.c:12", where most of what a row asks for itself is asked for, as far as that is known. */
void by_code_print_place(const struct by_code *code, uint32_t row, FILE *to);

/* The row of each object that is alive in `tally`, which has come as far as some call of the same
 * trace: by index, to be freed. A row that there is not: its object is not in focus. NULL: no
 * memory. */
uint32_t *by_code_rows_of(const struct by_code *code, const struct stack_tally *tally);

/* "functions", or what else the rows are. */
const char *by_code_rows(const struct by_code *code);

#endif
