/* summary - what an ordering run tells about itself, for people and as JSON. */
#ifndef MALLOCTAPE_SUMMARY_H
#define MALLOCTAPE_SUMMARY_H

#include <jansson.h>
#include <stdio.h>

#include "common/error.h"
#include "postprocess/order_trace.h"

struct summary {
    const char *program, *input; /* names for messages */
    bool is_quiet;               /* only what is a problem is said */
    double seconds;
    struct order_trace_result result;
};

/* What went wrong or is missing: a line for each. Nothing after a complete run. */
void summary_print_problems(const struct summary *summary, FILE *to);

/* The figures, as a table. */
void summary_print(const struct summary *summary, FILE *to);

/* Adds the same as a JSON object to an array (postprocess.1 says what each key means). */
void summary_add_json(const struct summary *summary, json_t *results);

#endif
