/* api - the functions of malloctape.h, as the program calls them. */
#define MALLOCTAPE_LIBRARY
#include "tracing/process/malloctape.h"

#include "tracing/core/recording_begin.h"
#include "tracing/data/settings.h"
#include "tracing/recording/recording.h"

#define EXPORT __attribute__((visibility("default")))

#define DEFINE(name, parameters, result)            \
    EXPORT int malloctape_library_##name parameters \
    {                                               \
        return -(result);                           \
    }
DEFINE(start, (const char *output), recording_begin(output))
DEFINE(stop, (void), recording_end())
DEFINE(reset, (const char *output), recording_reset(output))
DEFINE(pause, (void), recording_pause())
DEFINE(resume, (void), recording_resume())
DEFINE(sync, (void), recording_sync())

/* `bytes` differs in a program that was compiled with another version of the header. */
EXPORT int malloctape_library_status(struct malloctape_summary *status, unsigned long bytes)
{
    struct recording_status own;
    struct malloctape_summary all;
    recording_look(&own);
    memset(&all, 0, sizeof all);
    all.activity = own.is_paused      ? MALLOCTAPE_IS_PAUSED
                   : own.is_recording ? MALLOCTAPE_IS_RECORDING
                                      : MALLOCTAPE_NOT_RECORDING;
    all.events = own.totals.events;
    all.bytes = own.totals.bytes;
    all.lost = own.totals.lost;
    all.waits = own.totals.waits;
    all.waited_ns = own.totals.waited_ns;
    for (size_t i = 0; i < sizeof all.output - 1 && own.output[i]; i++)
        all.output[i] = own.output[i];
    memcpy(status, &all, bytes < sizeof all ? bytes : sizeof all);
    return 0;
}
