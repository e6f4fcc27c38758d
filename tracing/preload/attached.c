/* attached - what `malloctape record --pid` calls in a process that runs, when it has loaded this
 * library there (attach/inject.h).
 *
 * Then the process is one that was started with TCMALLOC_TRACE_CONTROL=1: recordings are begun and
 * ended through its control thread. */
#include "tracing/preload/next.h"
#include "tracing/preload/redirect.h"
#include "tracing/process/control.h"

#include <errno.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int malloctape_library_attach(const char *given);
EXPORT int malloctape_library_detach(void);

static bool has_attached;

/* `given`: settings_attach(). May be called again when libraries have been loaded since. The
 * result: how many slots lead here, or a negative errno value; -EEXIST: the process was started
 * with this library. */
int malloctape_library_attach(const char *given)
{
    if (!has_attached && next_is_first()) return -EEXIST;
    if (!has_attached) next_attach();
    has_attached = true;
    int result = control_attach(given);
    return result < 0 ? result : redirect_here();
}

/* The recording has ended. Calls that are still in this library go on to the allocator. The result
 * as of redirect_back(), or -EEXIST. */
int malloctape_library_detach(void)
{
    if (!has_attached) return -EEXIST;
    control_detach();
    return redirect_back();
}
