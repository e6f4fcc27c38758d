/* record - events off the hot path, and slots for them. See capture.h. */
#include "recording.h"
#include "units.h"

#include <string.h>

/* Room behind the last position at which an event may begin: for the event, and for stamps before
 * they take a new slot. */
#define ROOM_MARGIN_UNITS 128
#define STAMP_UNITS_MAX   (1 + RAW_NUMBER_UNITS_MAX)

_Static_assert(ROOM_MARGIN_UNITS > 4 * RAW_UNITS_PER_RECORD_MAX,
               "the beginning of a thread, a loss and an event fit behind the room");

static uint64_t stamps[RAW_STRUCTURES]; /* each under the lock of its structure */
static bool hot_path_is_off;

void record_begin(void)
{
    memset(stamps, 0, sizeof stamps);
}

static bool is_recording(void)
{
    return atomic_load_relaxed(&malloctape_state) == MALLOCTAPE_RECORDING;
}

/* --- slots --- */

static void begin_run(struct malloctape_lane *lane, uint32_t slot, const uint16_t *before,
                      size_t count)
{
    bool key = lane->slots % RAW_KEY_RUN_EVERY == 0;
    lane->addresses = recording.writer.addresses;
    units_begin_run(lane, before, count, key);
    struct spool_run run = {.lane = lane->number,
                            .serial = lane->slots++,
                            .first_birth = raw_token_serial(lane->next_token) - 1,
                            .first_unit = lane->units,
                            .key = key,
                            .extra_units = lane->extra_units};
    memcpy(run.profile, lane->profile, RAW_PROFILE_BYTES);
    spool_begin(&recording.writer.spool, slot, &run);
}

void record_heat(struct malloctape_lane *lane)
{
    if (!lane->cache) return;
    atomic_store_relaxed(&lane->limit, lane->room);
    atomic_fence_full();
    /* malloctape_cool_down() or stop_threads() may have come before the lane got its limit. */
    if (atomic_load_relaxed(&hot_path_is_off) || !is_recording())
        atomic_store_relaxed(&lane->limit, NULL);
}

/* No object is known to be lost: its token is unknown. */
static void put_lost(struct malloctape_lane *lane)
{
    if (lane->lost_events) units_lost(lane, lane->lost_events, 0);
    lane->lost_events = 0;
}

static void put_beginning(struct malloctape_lane *lane)
{
    if (lane->unbegun == 2) units_thread(lane, RAW_THREAD_END, 0);
    if (lane->unbegun) units_thread(lane, RAW_THREAD_BEGIN, (uint64_t)lane->thread_id);
    lane->unbegun = 0;
}

bool record_take_slot(struct malloctape_lane *lane)
{
    struct spool *spool = &recording.writer.spool;
    bool done = atomic_load_acquire(&recording.writer.done);
    uint32_t slot = done ? SPOOL_NO_SLOT : writer_slot(&recording.writer, lane->lost_events);
    if (slot == SPOOL_NO_SLOT) {
        if (atomic_load_acquire(&recording.writer.done)) recording_stop();
        return false;
    }
    size_t count = lane->slot == SPOOL_NO_SLOT ? 0 : (size_t)(lane->cursor - lane->start);
    lane->units += count;
    begin_run(lane, slot, lane->start, count);
    uint16_t *units = spool_units(spool, slot);
    if (lane->slot == SPOOL_NO_SLOT) {
        lane->read_slot = slot;
        lane->read_from = units;
    } else {
        spool_end(spool, lane->slot, (uint32_t)count, slot);
    }
    lane->slot = slot;
    lane->start = units;
    lane->end = units + SPOOL_SLOT_UNITS;
    lane->room = lane->end - ROOM_MARGIN_UNITS;
    atomic_store_release(&lane->cursor, units);
    record_heat(lane);
    put_beginning(lane);
    put_lost(lane);
    return true;
}

void record_loss(struct malloctape_lane *lane)
{
    if (!recording.writer.loses) return;
    lane->lost_events++;
    atomic_store_relaxed(&lane->lost_events_total, lane->lost_events_total + 1);
}

void malloctape_cool_down(void)
{
    atomic_store_relaxed(&hot_path_is_off, true);
    atomic_fence_full();
    struct lane_registry *registry = recording.registry;
    uint32_t used = registry ? atomic_load_acquire(&registry->used) : 0;
    for (uint32_t i = 0; i < used; i++)
        atomic_store_relaxed(&lane_at(registry, i)->limit, NULL);
}

void malloctape_out_of_memory(void)
{
    malloctape_cool_down();
    writer_abort(&recording.writer, -12, "memory for the shadow table");
}

void record_thread(struct malloctape_lane *lane, bool continued)
{
    lane->unbegun = continued ? 2 : 1;
    if (lane->cursor < lane->room) put_beginning(lane);
    /* That may have used up the room of a slot that is continued; then the thread's first event needs another. */
    if (lane->cursor >= lane->room) record_take_slot(lane);
}

/* --- tokens and events --- */

static uint64_t *token_place(const void *object)
{
    if (!shadow_covers(object)) return NULL;
    const struct shadow_page *page = shadow_page_of(object);
    return shadow_is_open(page) ? shadow_token(page, object) : NULL;
}

static void set_token(const void *object, uint64_t token)
{
    uint64_t *place = token_place(object);
    if (place) *place = token;
}

/* The lane of the calling thread with room for an event, NULL if recording has ended meanwhile. */
static struct malloctape_lane *lane_with_room(void)
{
    return malloctape_ready() ? malloctape_lane : NULL;
}

void malloctape_born(unsigned kind, uint64_t size, uint64_t alignment, const void *object)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) {
        if (object) malloctape_born_unrecorded(object);
        return;
    }
    if (!object) {
        units_failed(lane, kind, size, alignment, RAW_TOKEN_UNKNOWN);
        return;
    }
    set_token(object, lane->next_token);
    units_birth(lane, kind, size, alignment, object);
}

void malloctape_born_unrecorded(const void *object)
{
    if (shadow_has_begun()) set_token(object, RAW_TOKEN_UNKNOWN);
}

uint64_t malloctape_token_of(const void *object)
{
    uint64_t *place = token_place(object);
    return place ? *place : RAW_TOKEN_UNKNOWN;
}

void malloctape_dies(unsigned kind, uint64_t token, uint64_t size, uint64_t alignment)
{
    struct malloctape_lane *lane = lane_with_room();
    if (lane) units_death(lane, kind, token, size, alignment);
}

void malloctape_reallocated(unsigned kind, uint64_t token, uint64_t size, const void *object)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) {
        if (object) malloctape_born_unrecorded(object);
        return;
    }
    if (!object) {
        units_failed(lane, kind, size, 0, token);
        return;
    }
    set_token(object, lane->next_token);
    units_realloc(lane, kind, token, size, object);
}

void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
{
    struct malloctape_lane *lane = lane_with_room();
    if (lane) units_heap_call(lane, kind, count, first, second);
}

void malloctape_stamp(unsigned structure)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane->room || lane->busy || lane->lost_events || !is_recording()) return;
    if (lane->end - lane->cursor < STAMP_UNITS_MAX) {
        lane->busy = 1;
        bool has_room = record_take_slot(lane);
        lane->busy = 0;
        if (!has_room) return;
    }
    units_stamp(lane, structure, ++stamps[structure]);
}

void malloctape_thread_cache_changed(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane->cache) return;
    atomic_store_relaxed(&lane->limit, NULL);
    lane->cache = NULL;
}

void malloctape_thread_cache_deleted(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    malloctape_thread_cache_changed();
    if (lane->room && is_recording() && malloctape_ready())
        units_thread(lane, RAW_THREAD_CACHE_DELETED, 0);
}
