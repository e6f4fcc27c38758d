#include "tracing/core/threads.h"

#include "tracing/data/lane.h"
#include "tracing/os/os.h"
#include "tracing/recording/fault.h"
#include "tracing/recording/slot.h"

#include <pthread.h>

static pthread_key_t key;
static bool has_key;

/* Runs among the other destructors of thread-specific data, in up to four rounds; what comes
 * after the last one (frees by libc) is still recorded in the lane. */
static void thread_ends(void *value)
{
    struct malloctape_lane *lane = value;
    if (lane != malloctape_lane) return;
    if (++lane->registry.exit_rounds < 4)
        pthread_setspecific(key, lane);
    else
        lane_end(recording.registry, lane);
}

bool threads_begin(struct malloctape_lane *lane)
{
    bool continued = false;
    int thread_id = os_thread_id();
    if (lane == &recording_no_lane)
        lane = lane_claim(recording.registry, thread_id, recording.number, &continued);
    else
        lane_reset(lane, recording.number);
    if (lane == NULL) {
        atomic_add_relaxed(&recording.writer.lost_events, 1);
        return false;
    }
    atomic_store_relaxed(&lane->slot.busy, 1);
    malloctape_lane = lane;
    fault_reach_thread();
    slot_begin_thread(lane, continued);
    bool has_room = malloctape_lane_has_room(lane);
    if (has_room)
        slot_enable_fast_path(lane);
    else
        slot_lose(lane);
    /* Early enough to get one of the keys whose values need no memory. */
    pthread_setspecific(key, lane);
    atomic_store_release(&lane->slot.busy, 0);
    return has_room;
}

bool threads_prepare(void)
{
    if (!has_key) has_key = pthread_key_create(&key, thread_ends) == 0;
    return has_key;
}
