#include "tracing/recording/slot.h"

#include "stream/units_profile.h"
#include "tracing/data/front_end.h"
#include "tracing/data/lane.h"
#include "tracing/data/settings.h"
#include "tracing/data/spool.h"
#include "tracing/data/stack_sample.h"
#include "tracing/os/probes.h"
#include "tracing/recording/recording.h"

#include <string.h>

/* Room after the last position at which an event may begin: for the event, and for sequence numbers
 * before they take a new slot. */
#define ROOM_MARGIN_UNITS 256
/* How many slots a lane must fill without another loss before its cache is followed again, because
 * a list of what the cache holds may fill most of a slot. */
#define SLOTS_TO_FOLLOW   2

_Static_assert(ROOM_MARGIN_UNITS > 5 * RAW_UNITS_PER_RECORD_MAX,
               "the beginning of a thread, a loss and an event fit behind the room");

_Static_assert(SPOOL_SLOT_UNITS < UNITS_HEAD_ALLOCATIONS_LIMIT,
               "allocations of a slot fit into a head");

static void begin_segment(struct malloctape_lane *lane, uint32_t slot, const uint16_t *before,
                          size_t count)
{
    bool key = lane->slot.count % RAW_KEY_SEGMENT_EVERY == 0;
    lane->units.features = recording.writer.features;
    lane->units.all_have_stacks = stack_sample_is_all();
    lane->units.frees_have_stacks = recording.frees_have_stacks;
    if (malloctape_front_end.rounding != NULL)
        lane->units.rounding = malloctape_front_end.rounding();
    units_begin_segment(&lane->units, before, count, lane->slot.count, key);
    struct spool_segment segment = {.lane = lane->registry.number,
                                    .serial = lane->slot.count++,
                                    .first_allocation = units_allocations_so_far(&lane->units),
                                    .first_unit = lane->slot.earlier_units,
                                    .key = key,
                                    .extra_units = lane->units.extra_units};
    memcpy(segment.profile, lane->units.profile, RAW_PROFILE_BYTES);
    spool_begin(&recording.writer.spool, slot, &segment);
}

void slot_enable_fast_path(struct malloctape_lane *lane)
{
    lane->slot.unrecorded = 0;
    if (lane->units.cache == NULL && malloctape_front_end.announce_cache != NULL) return;
    const uint16_t *limit = stack_sample_is_some() ? stack_sample_limit(lane) : lane->slot.room;
    atomic_store_relaxed(&lane->units.limit, units_head(limit, 0));
    atomic_fence_full();
    /* recording_leave_fast_path() or a pause may have come first. */
    if (recording_is_slow() || recording_state() != MALLOCTAPE_RECORDING)
        atomic_store_relaxed(&lane->units.limit, 0);
}

/* Does not say how many allocations are among them: their objects are unknown when they end. */
static void put_lost(struct malloctape_lane *lane)
{
    if (lane->slot.lost_events) units_lost(&lane->units, lane->slot.lost_events, 0);
    lane->slot.lost_events = 0;
}

static void put_beginning(struct malloctape_lane *lane)
{
    if (lane->slot.unbegun == 2) units_thread(&lane->units, RAW_THREAD_END, 0);
    if (lane->slot.unbegun)
        units_thread(&lane->units, RAW_THREAD_BEGIN, (uint64_t)lane->registry.thread_id);
    lane->slot.unbegun = 0;
}

MALLOCTAPE_THREAD_LOCAL bool slot_asks_nothing;

/* When a slot is taken, which is seldom: an allocator may make system calls to answer. */
static void look_at_allocator(struct writer *writer)
{
    if (malloctape_front_end.look != NULL && !slot_asks_nothing &&
        atomic_load_relaxed(&writer->look_wanted) && !os_is_confined() &&
        atomic_exchange_relaxed(&writer->look_wanted, 0) && !malloctape_front_end.look())
        atomic_store_relaxed(&writer->look_wanted, 1);
}

bool slot_take(struct malloctape_lane *lane)
{
    struct spool *spool = &recording.writer.spool;
    struct writer *writer = &recording.writer;
    if (lane->slot.number != SPOOL_NO_SLOT || lane->registry.number > 0) writer_need(writer);
    look_at_allocator(writer);
    bool gone = writer_is_gone(writer);
    uint32_t slot = gone ? SPOOL_NO_SLOT : writer_slot(writer, lane->slot.lost_events);
    if (slot == SPOOL_NO_SLOT) {
        if (writer_is_gone(writer)) recording_stop();
        return false;
    }
    malloctape_lane_check(lane);
    size_t count = lane->slot.number == SPOOL_NO_SLOT
                       ? 0
                       : (size_t)(units_cursor(&lane->units) - lane->slot.start);
    lane->slot.earlier_units += count;
    if (stack_sample_is_some()) stack_sample_leave_slot(lane, count);
    begin_segment(lane, slot, lane->slot.start, count);
    uint16_t *units = spool_units(spool, slot);
    if (lane->slot.number == SPOOL_NO_SLOT) {
        lane->writer.read_slot = slot;
        lane->writer.read_from = units;
    } else {
        spool_end(spool, lane->slot.number, (uint32_t)count, slot);
        lane_left_slot(writer->registry, lane);
    }
    PROBE(slot_taken, lane->registry.number, slot);
    atomic_store_relaxed(&lane->slot.number, slot);
    lane->slot.start = units;
    lane->slot.end = units + SPOOL_SLOT_UNITS;
    atomic_store_relaxed(&lane->slot.room, lane->slot.end - ROOM_MARGIN_UNITS);
    units_enter_slot(&lane->units, units);
    slot_enable_fast_path(lane);
    put_beginning(lane);
    put_lost(lane);
    malloctape_lane_check(lane);
    return true;
}

bool slot_has_room(struct malloctape_lane *lane, long units)
{
    if (!malloctape_lane_has_slot(lane) || lane->slot.busy || lane->slot.lost_events ||
        lane->slot.unrecorded || recording_state() != MALLOCTAPE_RECORDING)
        return false;
    if (lane->slot.end - units_cursor(&lane->units) >= units) return true;
    atomic_store_relaxed(&lane->slot.busy, 1);
    bool has_room = slot_take(lane);
    atomic_store_release(&lane->slot.busy, 0);
    return has_room;
}

void slot_lose(struct malloctape_lane *lane)
{
    if (!settings.loses) return;
    lane->slot.count_to_follow = lane->slot.count + SLOTS_TO_FOLLOW;
    lane->slot.lost_events++;
    atomic_store_relaxed(&lane->slot.lost_events_total, lane->slot.lost_events_total + 1);
}

void slot_begin_thread(struct malloctape_lane *lane, bool continued)
{
    lane->slot.unbegun = continued ? 2 : 1;
    if (malloctape_lane_has_room(lane)) put_beginning(lane);
    /* A slot that is continued may have no more room; then the first event needs another. */
    if (!malloctape_lane_has_room(lane)) slot_take(lane);
}
