/* unload - the program unloads a library: what is known of its code is no longer true
 * (stack_table.h). The function replaces that of libc, and calls it. */
#include "tracing/core/capture.h"
#include "tracing/os/next_function.h"
#include "tracing/stacks/stack_table.h"

#include <dlfcn.h>

__attribute__((visibility("default"))) int dlclose(void *library)
{
    if (!recording.stacks_every_bytes) return next_functions()->dlclose(library);
    stack_table_unloading();
    int result = next_functions()->dlclose(library);
    stack_table_unloaded(malloctape_ready() ? malloctape_lane : NULL);
    return result;
}
