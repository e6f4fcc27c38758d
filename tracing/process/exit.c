/* exit - the process begins and ends: so does what is recorded. */
#include "tracing/core/recording_begin.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"

#include <stddef.h>

static void end_at_exit(void *unused)
{
    (void)unused;
    recording_finish();
}

extern int __cxa_at_quick_exit(void (*function)(void *), void *library);

__attribute__((constructor)) static void library_begins(void)
{
    recording_decide();
    /* quick_exit() runs no destructors and does not call our _exit(). What is registered now runs
     * after what the program registers. */
    __cxa_at_quick_exit(end_at_exit, NULL);
}

extern int __cxa_atexit(void (*function)(void *), void *argument, void *library);

/* Destructors of other libraries may run after this one and still call the allocator. A handler
 * that is registered now runs after all of them. */
__attribute__((destructor)) static void library_ends(void)
{
    static bool is_arranged;
    if (is_arranged || !recording_is_own()) return;
    is_arranged = true;
    if (__cxa_atexit(end_at_exit, NULL, NULL) != 0) recording_finish();
}

/* These end the process without destructors. In a vfork child, which shares our memory,
 * recording_finish() does nothing. */
__attribute__((visibility("default"))) void _exit(int status)
{
    recording_finish();
    os_process_exit(status);
}

__attribute__((visibility("default"), alias("_exit"))) void _Exit(int status);
