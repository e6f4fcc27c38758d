#include "tracing/recording/recording.h"

#include "tracing/data/shadow.h"
#include "tracing/os/os.h"

#include <errno.h>

/* Makes threads leave the fast path at their next call. */
static void stop_threads(void)
{
    atomic_fence_full();
    const struct lane_registry *registry = atomic_load_acquire(&recording.registry);
    uint32_t used = registry != NULL ? atomic_load_acquire(&registry->used) : 0;
    for (uint32_t i = 0; i < used; i++)
        atomic_store_relaxed(&lane_at(registry, i)->units.limit, 0);
}

void recording_leave_fast_path(bool *reason)
{
    atomic_store_relaxed(reason, true);
    stop_threads();
}

/* In a forked child nothing is mapped there, or something else. */
bool recording_takes_fault(uintptr_t address)
{
    return recording_own_registry() != NULL && writer_takes_fault(&recording.writer, address);
}

/* ---- end ---- */

bool recording_is_own(void)
{
    if (recording_own_registry() == NULL) return false;
    if (os_is_confined()) return true;
    /* Below 0: a filter of system calls has answered with an error. */
    int process_id = os_process_id();
    return process_id < 0 || process_id == recording.writer.process_id;
}

static void turn_off(uint32_t from)
{
    atomic_store_relaxed(&recording.off_since_ns, os_clock_ns());
    writer_report_killed(&recording.writer);
    recording_change(from, MALLOCTAPE_OFF);
}

void recording_stop(void)
{
    turn_off(MALLOCTAPE_RECORDING);
}

void recording_settle(void)
{
    if (recording_state() == MALLOCTAPE_ENDING && writer_is_gone(&recording.writer))
        turn_off(MALLOCTAPE_ENDING);
}

bool recording_finish(void)
{
    if (!recording_is_own()) return false;
    if (!recording_change(MALLOCTAPE_RECORDING, MALLOCTAPE_ENDING) &&
        !recording_change(MALLOCTAPE_PAUSED, MALLOCTAPE_ENDING) &&
        recording_state() != MALLOCTAPE_ENDING)
        return false;
    stop_threads();
    writer_ask_end(&recording.writer);
    while (recording_state() == MALLOCTAPE_ENDING && !writer_is_gone(&recording.writer)) {
        writer_need(&recording.writer);
        os_wait(&recording.writer.done, 0, WRITER_TICK_NS);
    }
    recording_settle();
    return true;
}

void recording_writer_ends(void)
{
    /* Waits if the recording is still beginning: otherwise it would begin without a writer. */
    while (recording_state() == MALLOCTAPE_STARTING)
        os_wait(&malloctape_state, MALLOCTAPE_STARTING, WRITER_TICK_NS);
    if (!recording_change(MALLOCTAPE_RECORDING, MALLOCTAPE_ENDING))
        recording_change(MALLOCTAPE_PAUSED, MALLOCTAPE_ENDING);
    stop_threads();
    shadow_end();
}

int recording_end(void)
{
    recording_settle();
    if (!recording_finish()) return -EBUSY;
    shadow_end();
    return 0;
}

int recording_pause(void)
{
    if (!recording_is_own() || !recording_change(MALLOCTAPE_RECORDING, MALLOCTAPE_PAUSED))
        return -EBUSY;
    stop_threads();
    return 0;
}

int recording_resume(void)
{
    return recording_is_own() && recording_change(MALLOCTAPE_PAUSED, MALLOCTAPE_RECORDING) ? 0
                                                                                           : -EBUSY;
}

int recording_sync(void)
{
    if (!recording_is_own() ||
        (recording_state() != MALLOCTAPE_RECORDING && recording_state() != MALLOCTAPE_PAUSED))
        return -EBUSY;
    writer_sync(&recording.writer);
    return 0;
}

void recording_look(struct recording_status *status)
{
    recording_settle();
    *status = (struct recording_status){
        .output = "", .could_not_begin = atomic_load_relaxed(&recording.could_not_begin)};
    if (status->could_not_begin || !recording_is_own()) return;
    status->is_recording = recording_state() == MALLOCTAPE_RECORDING;
    status->is_paused = recording_state() == MALLOCTAPE_PAUSED;
    writer_look(&recording.writer, &status->totals);
    if (recording.writer.output != NULL) status->output = recording.writer.output;
}

bool recording_has_writer(void)
{
    return recording.writer.thread.memory != NULL && !writer_is_gone(&recording.writer);
}
