/* attach - puts libmalloctape.so into a process that runs, and takes it out of the way again.
 *
 * Afterwards the process listens to requests as one that was started with TCMALLOC_TRACE_CONTROL=1
 * (tracing/control.c). */
#ifndef MALLOCTAPE_ATTACH_H
#define MALLOCTAPE_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attached {
    int slots;           /* calls that are led to the library, or were */
    uint64_t stopped_ns; /* one thread of the process */
    bool has_ended;      /* the process: nothing can be said of it */
};

/* `library`: the path of libmalloctape.so. If the process does not see that file there, as in a
 * container, it gets a copy in memory. `settings`: lines "NAME=VALUE\n" (tracing/settings.h), or
 * NULL. To be called again when the process has loaded other libraries. False: `why` says what is in
 * the way; the process is as it was. */
bool attach_to(pid_t process, const char *library, const char *settings, struct attached *attached,
               char *why, size_t why_bytes);

/* After the recording has ended. The library stays in the process, where nobody calls it. */
bool attach_undo(pid_t process, const char *library, struct attached *attached, char *why,
                 size_t why_bytes);

#endif
