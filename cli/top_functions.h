/* top_functions - what functions of a process do with memory, where it has a keeper (kept.h) and call
 * stacks are recorded: which grow, and which allocate most.
 *
 *   keeper --latest segment--> a file --> table (keep/function_table.h)
 *
 * Threads   one. */
#ifndef MALLOCTAPE_TOP_FUNCTIONS_H
#define MALLOCTAPE_TOP_FUNCTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "keep/function_table.h"

struct top_functions {
    pid_t process;
    struct function_table now, since; /* `since`: what growth is compared with */
    double since_s, looked_s, took_s;
    bool is_there;
};

/* Looks again, if it is time to. */
void top_functions_look(struct top_functions *functions);

/* From now on, growth is that since now. */
void top_functions_reset(struct top_functions *functions);

/* Nothing, if there is no keeper. */
void top_functions_print(const struct top_functions *functions);

#endif
