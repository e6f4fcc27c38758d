/* output_name - what the letters after a % in the name of an output stand for.
 *
 * Pure: no memory, no system call; to be called anywhere, also in a forked child. */
#ifndef MALLOCTAPE_OUTPUT_NAME_H
#define MALLOCTAPE_OUTPUT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the letters after a % in a name stand for. */
struct output_names {
    int process_id;          /* %p, %P */
    const char *host;        /* %h */
    uint64_t time_s;         /* %t, since the epoch */
    const char *program;     /* %e, without what comes before its last slash */
    uint32_t program_number; /* in this process; from the second on, %p is PROCESS.NUMBER */
};

/* Puts names in place of %p, %h, %t and %e in `name`, and % in place of %%. In the names of host
 * and program, what is no letter, digit, '.', '+', '-' or '_' becomes '_', so that they can
 * neither lead to another directory nor mean anything to a shell; bytes above 127 stay.
 *
 * expanded   gets the result and a null byte; has `bytes` bytes
 * Result     its length; -EINVAL for a % before anything else, -ENAMETOOLONG when it does not
 *            fit */
int output_name_expand(const char *name, const struct output_names *names, char *expanded,
                       size_t bytes);

/* Whether each process gets a name of its own: there is a %p in it. */
bool output_name_has_process(const char *name);

/* Puts %P in place of each %p: the same name, for processes that others than the user have started.
 * False: it had none. */
bool output_name_make_follow(char *name);

/* What comes after the last slash of a path. */
const char *output_name_last(const char *path);

/* The descriptor that fd:N names, -1 for other names. */
int output_name_descriptor(const char *name);

#ifdef __cplusplus
}
#endif
#endif
