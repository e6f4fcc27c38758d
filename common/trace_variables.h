/* trace_variables - the environment variables of the tracing library. */
#ifndef MALLOCTAPE_TRACE_VARIABLES_H
#define MALLOCTAPE_TRACE_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TRACE_VARIABLE_PREFIX "TCMALLOC_TRACE_"

/* Whether an entry of the environment, NAME=VALUE, has a name that begins like ours but is
 * unknown. */
static inline bool trace_variable_is_unknown(const char *entry)
{
    static const char names[] = "ADDRESSES=CONTROL=MAX_BYTES=MAX_EVENTS=MAX_SECONDS=ON_OVERLOAD="
                                "OUTPUT=QUIET=READER_SECONDS=REPORT=STACKS=";
    const char *const prefix = TRACE_VARIABLE_PREFIX;
    if (strncmp(entry, prefix, strlen(prefix)) != 0) return false;
    entry += strlen(prefix);
    const size_t bytes = strcspn(entry, "=") + 1;
    for (const char *name = names; *name != '\0'; name += strcspn(name, "=") + 1)
        if (strncmp(entry, name, bytes) == 0) return false;
    return true;
}

#endif
