/* output_name - replaces % and a letter in the name of an output.
 *
 * Allocates no memory and makes no system call; may be called anywhere, also in a forked child. */
#ifndef MALLOCTAPE_OUTPUT_NAME_H
#define MALLOCTAPE_OUTPUT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The values of the letters. */
struct output_names {
    int process_id;          /* %p, %P */
    const char *host;        /* %h */
    uint64_t time_s;         /* %t, since the epoch */
    const char *program;     /* %e, without what comes before its last slash */
    uint32_t program_number; /* of programs run by this process; from 2 on, %p is PROCESS.NUMBER */
};

/* Replaces %p, %h, %t and %e in `name` by names, and %% by %. In the names of host and program, any
 * character other than a letter, a digit, '.', '+', '-' or '_' becomes '_', so that they can
 * neither lead to another directory nor mean anything to a shell; bytes above 127 stay.
 *
 * expanded   gets the result and a null byte; has `bytes` bytes
 * Result     its length; -EINVAL for a % before anything else, -ENAMETOOLONG when it does not
 *            fit */
int output_name_expand(const char *name, const struct output_names *names, char *expanded,
                       size_t bytes);

/* Whether each process gets its own name, because there is a %p in it. */
bool output_name_has_process(const char *name);

/* Replaces each %p by %P, which gives the same name, for processes that the user has not started
 * himself. False: there was no %p. */
bool output_name_make_follow(char *name);

/* The part of a path after its last slash. */
const char *output_name_last(const char *path);

/* The descriptor that fd:N names, -1 for other names. */
int output_name_descriptor(const char *name);

#ifdef __cplusplus
}
#endif
#endif
