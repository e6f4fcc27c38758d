/* attach - loads libmalloctape.so into a running process, and disconnects it again.
 *
 * Once attached, the process listens to requests like one that was started with
 * TCMALLOC_TRACE_CONTROL=1 (tracing/process/control.c). */
#ifndef MALLOCTAPE_ATTACH_H
#define MALLOCTAPE_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attached {
    int slots;           /* pointers to functions redirected to the library, or back */
    uint64_t stopped_ns; /* one thread of the process */
    bool has_ended;      /* the process has ended meanwhile */
};

/* `library`: the path of libmalloctape.so. If the process cannot load that file, as in a
 * container, it gets a copy in memory. `settings`: lines "NAME=VALUE\n" (tracing/data/settings.h), or
 * NULL. Call it again when the process has loaded other libraries. False: `why` says why not; the
 * process is as it was. */
bool attach_to(pid_t process, const char *library, const char *settings, struct attached *attached,
               char *why, size_t why_bytes);

/* Call after the recording has ended. The library stays loaded, but nothing calls it any more. */
bool attach_undo(pid_t process, const char *library, struct attached *attached, char *why,
                 size_t why_bytes);

#endif
