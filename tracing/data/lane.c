#include "tracing/data/lane.h"

#include "stream/units.h"
#include "tracing/data/front_end.h"
#include "tracing/data/shadow.h"
#include "tracing/data/stack_sample.h"
#include "tracing/os/os.h"
#include "tracing/os/probes.h"

#include <string.h>

_Static_assert(offsetof(struct malloctape_lane, units) == 0, "the fast path's line is the first");
_Static_assert(offsetof(struct malloctape_lane, slot) % 64 == 0 &&
                   offsetof(struct slot_lane, lost_events_total) < 64,
               "what is asked before an event off the fast path is of one cache line");

/* How many ending lanes a beginning thread asks the kernel about: a thread that has just been
 * joined is among the latest, and each costs a system call. */
#define ENDING_LANES_TRIED 4

struct lane_registry *lane_registry_create(void)
{
    struct lane_registry *registry = os_memory_reserve_per_process(sizeof *registry);
    if (registry != NULL) registry->present = 1;
    return registry;
}

void lane_registry_release(struct lane_registry *registry)
{
    if (registry == NULL) return;
    for (uint32_t i = 0; i < RAW_LANES_MAX / LANE_BLOCK; i++)
        if (registry->blocks[i] != NULL)
            os_memory_release(registry->blocks[i], LANE_BLOCK * sizeof *registry->blocks[i]);
    os_memory_release(registry, sizeof *registry);
}

void lane_forget(struct malloctape_lane *lane)
{
    atomic_store_relaxed(&lane->slot.room, NULL);
    atomic_store_relaxed(&lane->slot.number, SPOOL_NO_SLOT);
    atomic_store_relaxed(&lane->units.limit, 0);
    atomic_store_relaxed(&lane->units.extra_units, 0);
    atomic_store_relaxed(&lane->writer.written, 0);
    atomic_store_relaxed(&lane->slot.lost_events_total, 0);
    atomic_store_relaxed(&lane->null_frees, 0);
    atomic_store_relaxed(&lane->sizes_asked, 0);
    atomic_store_release(&lane->units.head, 0);
}

void lane_reset(struct malloctape_lane *lane, uint32_t recording_number)
{
    atomic_store_relaxed(&lane->slot.room, NULL);
    atomic_store_relaxed(&lane->units.limit, 0);
    lane->slot.start = lane->slot.end = NULL;
    atomic_store_relaxed(&lane->units.first_allocation, 0);
    lane->units.window = shadow_window;
    lane->units.owners = shadow_owner(0);
    lane->units.region = 0;
    units_announce_end(&lane->units);
    atomic_store_relaxed(&lane->slot.number, SPOOL_NO_SLOT);
    lane->slot.count = lane->slot.earlier_units = lane->slot.lost_events = 0;
    atomic_store_relaxed(&lane->units.extra_units, 0);
    atomic_store_relaxed(&lane->writer.written, 0);
    atomic_store_relaxed(&lane->slot.lost_events_total, 0);
    memset(lane->units.profile, 0, sizeof lane->units.profile);
    atomic_store_relaxed(&lane->registry.ended, 0);
    lane->slot.unbegun = 0;
    lane->slot.count_to_follow = 0;
    lane->units.cache = NULL;
    lane->writer.followed = NULL;
    lane->writer.left = false;
    memset(lane->units.announced, 0, sizeof lane->units.announced);
    stack_sample_begin(lane);
    lane->registry.recording = recording_number;
    atomic_store_release(&lane->units.head, 0);
}

/* Takes the lane out of ENDING. */
static bool lane_take(struct lane_registry *registry, struct malloctape_lane *lane)
{
    uint32_t ending = LANE_ENDING;
    if (!atomic_swap_once(&lane->registry.state, &ending, LANE_TAKEN)) return false;
    atomic_add_relaxed(&registry->ending, -1);
    return true;
}

void lane_put_back(struct lane_registry *registry, struct malloctape_lane *lane)
{
    atomic_add_relaxed(&registry->ending, 1);
    atomic_store_release(&lane->registry.state, LANE_ENDING);
}

static struct malloctape_lane *claim_ended(struct lane_registry *registry)
{
    uint32_t used = atomic_load_acquire(&registry->used);
    uint32_t from = atomic_load_relaxed(&registry->ending_from);
    uint32_t tried = 0;
    for (uint32_t i = 0;
         i < used && tried < ENDING_LANES_TRIED && tried < atomic_load_relaxed(&registry->ending);
         i++) {
        uint32_t at = (from + i) % used;
        struct malloctape_lane *lane = lane_at(registry, at);
        if (atomic_load_relaxed(&lane->registry.state) != LANE_ENDING || !lane_take(registry, lane))
            continue;
        tried++;
        if (lane->registry.ended || os_thread_is_gone(lane->registry.thread_id)) {
            atomic_store_relaxed(&registry->ending_from, at);
            return lane;
        }
        lane_put_back(registry, lane);
    }
    return NULL;
}

/* Makes sure that the lane's block is there; any number of threads may try. */
static bool has_block(struct lane_registry *registry, uint32_t number)
{
    struct malloctape_lane **place = &registry->blocks[number / LANE_BLOCK];
    struct malloctape_lane *none = NULL;
    if (atomic_load_acquire(place) != NULL) return true;
    struct malloctape_lane *block = os_memory_reserve_per_process(LANE_BLOCK * sizeof *block);
    if (block == NULL) return false;
    if (!atomic_swap_once(place, &none, block))
        os_memory_release(block, LANE_BLOCK * sizeof *block);
    return true;
}

/* Owners of places (shadow.h) are lanes counted from 1, and the last is SHADOW_MIXED. Those of
 * granules share their number with SHADOW_SURE. */
static bool has_owner(uint32_t number)
{
    return number + 1 < (malloctape_front_end.opaque ? SHADOW_SURE - 1 : SHADOW_MIXED);
}

static struct malloctape_lane *claim_new(struct lane_registry *registry)
{
    uint32_t number = atomic_load_relaxed(&registry->used);
    do
        if (!has_owner(number) || !has_block(registry, number)) return NULL;
    while (!atomic_swap_release(&registry->used, &number, number + 1));
    struct malloctape_lane *lane = lane_at(registry, number);
    lane->registry.number = number;
    lane->units.owner = (uint16_t)(number + 1);
    return lane;
}

struct malloctape_lane *lane_claim(struct lane_registry *registry, int thread_id,
                                   uint32_t recording_number, bool *continued)
{
    struct malloctape_lane *lane = claim_ended(registry);
    *continued = lane != NULL && lane->registry.recording == recording_number;
    if (lane == NULL) lane = claim_new(registry);
    if (lane == NULL) return NULL;
    if (!*continued) lane_reset(lane, recording_number);
    *continued = *continued && !lane->registry.ended;
    atomic_store_relaxed(&lane->registry.ended, 0);
    atomic_store_relaxed(&lane->registry.thread_id, thread_id);
    lane->registry.exit_rounds = 0;
    lane->units.allocating = 0;
    units_announce_end(&lane->units); /* of a thread that has gone in the middle of a realloc */
    lane->stacks.busy = 0;
    atomic_store_relaxed(&lane->slot.busy, 0);
    atomic_store_relaxed(&lane->units.limit, 0);
    lane->units.cache = NULL;
    atomic_store_release(&lane->registry.state, LANE_LIVE);
    PROBE(thread_begin, lane->registry.number, thread_id);
    return lane;
}

void lane_end(struct lane_registry *registry, struct malloctape_lane *lane)
{
    uint32_t live = LANE_LIVE;
    if (!atomic_swap_once(&lane->registry.state, &live, LANE_TAKEN)) return;
    atomic_store_relaxed(&registry->ending_from, lane->registry.number);
    PROBE(thread_end, lane->registry.number, lane->registry.thread_id);
    lane_put_back(registry, lane);
}

/* The lane's thread may be about to end it itself, or another thread may have got it. Only the
 * thread that was asked about can have changed the state from LIVE, and it is gone. */
void lane_notice_gone(struct lane_registry *registry, struct malloctape_lane *lane)
{
    if (atomic_load_acquire(&lane->registry.state) == LANE_LIVE &&
        os_thread_is_gone(atomic_load_relaxed(&lane->registry.thread_id)))
        lane_end(registry, lane);
}

bool lane_take_over(struct lane_registry *registry, struct malloctape_lane *lane)
{
    if (!lane_take(registry, lane)) return false;
    if (os_thread_is_gone(lane->registry.thread_id)) return true;
    lane_put_back(registry, lane);
    return false;
}
