#include "tracing/core/capture.h"

#include "tracing/core/recording_begin.h"
#include "tracing/core/threads.h"
#include "tracing/data/stack_sample.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"

#include <errno.h>

/* A recording that ends is often followed by another one: calls are led past the capture core only
 * this long after its end. */
#define IDLE_AFTER_NS UINT64_C(1000000000)
/* ---- nothing is recorded ---- */

bool malloctape_begin_idle(void)
{
    uint64_t since = atomic_load_relaxed(&recording.off_since_ns);
    return recording_state() == MALLOCTAPE_OFF && os_clock_ns() - since >= IDLE_AFTER_NS &&
           recording_change(MALLOCTAPE_OFF, MALLOCTAPE_STARTING);
}

void malloctape_end_idle(void)
{
    recording_change(MALLOCTAPE_STARTING, MALLOCTAPE_OFF);
}

void malloctape_disable_fast_path(void)
{
    recording_leave_fast_path(&recording.fast_path_is_off);
}

void malloctape_out_of_memory(void)
{
    recording_leave_fast_path(&recording.out_of_memory);
    writer_abort(&recording.writer, os_is_confined() ? -EPERM : -ENOMEM,
                 "memory for the shadow table");
}

/* ---- the way to an event ---- */

/* Room for one event. The first event of a thread and the first after its slot is full come here,
 * and the first of a forked child. */
static __attribute__((noinline)) bool capture_make_room(struct malloctape_lane *lane)
{
    if (lane->slot.busy) return false;
    recording_decide();
    recording_notice_fork();
    lane = malloctape_lane;
    if (recording_state() != MALLOCTAPE_RECORDING) {
        recording_settle();
        return false;
    }
    if (lane->registry.recording != recording.number)
        return threads_begin(lane) && recording_state() == MALLOCTAPE_RECORDING;
    if (malloctape_lane_has_room(lane)) {
        slot_enable_fast_path(lane);
        return recording_state() == MALLOCTAPE_RECORDING;
    }
    atomic_store_relaxed(&lane->slot.busy, 1);
    bool has_room = slot_take(lane);
    atomic_store_release(&lane->slot.busy, 0);
    if (!has_room) slot_lose(lane);
    return has_room && recording_state() == MALLOCTAPE_RECORDING;
}

bool malloctape_makes_room(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    return recording_has_room(lane) || capture_make_room(lane);
}

void malloctape_freed_nothing(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    atomic_add_own_release(&lane->null_frees, 1);
    if (stack_sample_is_some() && stack_sample_give_back(lane)) slot_enable_fast_path(lane);
}

bool malloctape_ready(void)
{
    if (!malloctape_makes_room()) return false;
    if (stack_sample_is_some() && stack_sample_count(malloctape_lane))
        slot_enable_fast_path(malloctape_lane);
    return true;
}
