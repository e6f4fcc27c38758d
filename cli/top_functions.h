/* top_functions - what functions of a process do with memory, where it has a keeper (kept.h) and call
 * stacks are recorded: which grow, and which allocate most.
 *
 *   keeper --latest segment--> a file --malloctape export --to folded--> function, bytes alive, calls
 *
 * Names are those of the innermost functions that do not allocate themselves. Threads   one. */
#ifndef MALLOCTAPE_TOP_FUNCTIONS_H
#define MALLOCTAPE_TOP_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct top_function {
    char *name;
    uint64_t bytes; /* alive */
    uint64_t calls; /* since the segment began */
};

struct top_table {
    struct top_function *rows; /* by name */
    size_t count, room;
};

struct top_functions {
    pid_t process;
    struct top_table now, since; /* `since`: what growth is compared with */
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
