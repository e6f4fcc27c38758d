#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "common/check.h"
#include "stream/chunk.h"
#include "stream/chunk_seal.h"
#include "stream/units_read.h"
#include "tracing/data/lane.h"
#include "tracing/data/settings.h"

#include <errno.h>
#include <string.h>

/* The packer takes memory for a lane that it follows: so many are followed in any case, others if
 * that is worth it (struct pack_dialect). */
#define LANES_TO_FOLLOW 64

/* ---- the limit of bytes ---- */

uint64_t writer_end_bytes_max(uint32_t lanes)
{
    return 2 * SINK_BLOCK_LENGTH_BYTES + CHUNK_END_BYTES_MAX(lanes);
}

uint64_t writer_bytes_min(void)
{
    return SINK_FRAME_HEADER_BYTES + SINK_BLOCK_LENGTH_BYTES + RAW_HEADER_BYTES +
           writer_end_bytes_max(0) + SINK_END_BYTES;
}

/* How long the file may become before it is ended. */
static uint64_t bytes_before_end(const struct writer *writer)
{
    uint64_t end =
        writer_end_bytes_max(atomic_load_acquire(&writer->registry->used)) + SINK_END_BYTES;
    return settings.limits.bytes > end ? settings.limits.bytes - end : 0;
}

bool writer_fits(const struct writer *writer, size_t bytes)
{
    if (!settings.limits.bytes) return true;
    return !writer->is_full &&
           sink_bytes_at_most(&writer->sink) + bytes <= bytes_before_end(writer);
}

/* ---- slots to chunks ---- */

/* The file has what was read of the cells. */
static void free_cells(struct writer *writer)
{
    struct spool_cells *cells = &writer->spool.cells;
    if (cells->freed == cells->read) return;
    atomic_store_release(&cells->freed, cells->read);
    writer_wake_waiters(writer, OS_ALL);
}

int writer_flush(struct writer *writer)
{
    int result = sink_flush(&writer->sink);
    if (writer_error(writer)) result = writer_error(writer);
    /* Slots that the stream does not get stay in the spool (FORMAT.md 8). */
    if (result < 0)
        writer->pending_count = 0;
    else
        free_cells(writer);
    for (uint32_t i = 0; i < writer->pending_count; i++)
        spool_give(&writer->spool, writer->pending[i]);
    uint32_t given = writer->pending_count;
    writer->pending_count = 0;
    writer_wake_waiters(writer, given);
    return result;
}

void writer_give_back(struct writer *writer, uint32_t slot)
{
    writer->pending[writer->pending_count++] = slot;
    if (writer->pending_count == WRITER_PENDING_SLOTS || sink_wants_flush(&writer->sink))
        writer_flush(writer);
}

static void stop_following(struct writer *writer, struct malloctape_lane *lane)
{
    pack_lane_end(&writer->packer, lane->writer.followed);
    lane->writer.followed = NULL;
}

void writer_leave_lane(struct writer *writer, struct malloctape_lane *lane)
{
    if (lane->writer.followed == NULL) return;
    stop_following(writer, lane);
    lane->writer.left = true;
}

static bool is_worth_following(const struct writer *writer, uint64_t serial, size_t count)
{
    const struct pack_dialect *dialect = writer->packer.dialect;
    return writer->packer.followed < LANES_TO_FOLLOW || count >= dialect->units_to_follow ||
           serial >= dialect->segments_to_follow;
}

/* What the packer knows of the lane (pack.h): it is kept from the beginning of a segment on, as
 * long as the lane's chunks are packed. Where it may begin anywhere (struct pack_dialect), it begins
 * anew with a key segment, and one chunk that is not packed must follow where the writer has
 * forgotten the lane. */
static struct pack_lane *follow_lane(struct writer *writer, struct malloctape_lane *lane,
                                     unsigned flags, uint64_t serial, size_t count)
{
    const bool packed = flags & RAW_CHUNK_FLAG_PACKED, left = lane->writer.left;
    const struct pack_dialect *dialect = writer->packer.dialect;
    lane->writer.left = false;
    if (lane->writer.followed != NULL &&
        (!packed || (dialect->needs_lane && flags & RAW_CHUNK_FLAG_KEY)))
        stop_following(writer, lane);
    if (lane->writer.followed != NULL || !packed ||
        (dialect->needs_lane ? left : !(flags & RAW_CHUNK_FLAG_BEGIN)))
        return lane->writer.followed;
    if (is_worth_following(writer, serial, count))
        lane->writer.followed = pack_lane_begin(&writer->packer);
    return lane->writer.followed;
}

static bool may_pack(const struct writer *writer, const struct spool_segment *segment)
{
    return segment->serial >= writer->packer.dialect->plain_segments;
}

/* Copies the next `count` units of the lane's read slot. False: an access to the spool has failed,
 * and the copy may have zeros. */
static bool writer_slots_take_units(struct writer *writer, const struct malloctape_lane *lane,
                                    size_t count)
{
    const uint16_t *from = lane->writer.read_from;
    writer->taken.segment = spool_segment_of(&writer->spool, lane->writer.read_slot);
    writer->taken.before = (size_t)(from - spool_units(&writer->spool, lane->writer.read_slot));
    memcpy(writer->taken.units, from, count * sizeof *from);
    return !writer_has_read_zeros(writer);
}

/* Puts `count` of the units that have been taken into the sink, from the one at `at` on. */
static void commit_units(struct writer *writer, struct malloctape_lane *lane, size_t at,
                         size_t count, bool packed)
{
    const uint16_t *from = writer->taken.units + at;
    const struct spool_segment *segment = &writer->taken.segment;
    const size_t before = writer->taken.before + at;
    struct chunk_units chunk = {.lane = lane->registry.number,
                                .first_unit = segment->first_unit + before,
                                .first_allocation = segment->first_allocation,
                                .records = {segment->profile, writer->features, from, count}};
    uint8_t *room = sink_room(&writer->sink, CHUNK_BYTES_MAX(count));
    if (writer->windows < atomic_load_relaxed(&writer->watch.until_window))
        watch_units(&writer->watch, segment->profile, writer->features, from, count);
    if (before == 0) chunk.flags = RAW_CHUNK_FLAG_BEGIN | (segment->key ? RAW_CHUNK_FLAG_KEY : 0);
    if (packed && may_pack(writer, segment)) chunk.flags |= RAW_CHUNK_FLAG_PACKED;
    chunk.followed = follow_lane(writer, lane, chunk.flags, segment->serial, count);
    size_t bytes = chunk_write(&writer->packer, &chunk, room);
    bool is_packed = chunk.flags & RAW_CHUNK_FLAG_PACKED;
    if (chunk.followed != NULL && !is_packed) stop_following(writer, lane);
    if (is_packed)
        sink_commit_packed(&writer->sink, bytes, CHUNK_BYTES_PLAIN(count));
    else
        sink_commit(&writer->sink, bytes);
}

/* All units before `read_from` are in the stream then. */
static void units_are_written(const struct writer *writer, struct malloctape_lane *lane,
                              size_t count)
{
    lane->writer.read_from += count;
    atomic_add_own_relaxed(&lane->writer.written, count);
    MUST_HOLD(lane->writer.read_from <=
              spool_units(&writer->spool, lane->writer.read_slot) + SPOOL_SLOT_UNITS);
    MUST_HOLD(
        lane->writer.written ==
        writer->taken.segment.first_unit +
            (size_t)(lane->writer.read_from - spool_units(&writer->spool, lane->writer.read_slot)));
    (void)writer;
}

/* How many of `count` units that have been taken, at most half of them, are whole records. */
static size_t half_of_units(const struct writer *writer, size_t at, size_t count)
{
    return units_whole(writer->taken.segment.profile, writer->features, writer->taken.units + at,
                       count, count / 2);
}

/* Near the limit of bytes each chunk is written by itself. What does not fit is tried again with
 * half of the units: it is the end of the stream. A chunk is packed once only: that changes what
 * the packer knows. */
static void write_units_that_fit(struct writer *writer, struct malloctape_lane *lane, size_t count)
{
    bool packed = sink_wants_packed(&writer->sink);
    size_t at = 0;
    if (writer_flush(writer) < 0) return;
    for (size_t part = count; part > 0;) {
        commit_units(writer, lane, at, part, packed);
        bool fits = sink_flush_within(&writer->sink, bytes_before_end(writer));
        if (fits) {
            units_are_written(writer, lane, part);
            at += part;
            if (at == count) return;
            part = count - at;
        }
        packed = false;
        part = half_of_units(writer, at, part);
    }
    writer->is_full = true;
    writer->end_status = RAW_END_LIMIT;
}

/* After a pause, in whose windows there were no ticks, writes one with the time at which it ended.
 * Otherwise what comes now would seem to have come slowly, over all that time. The tick's other
 * numbers are those of the one before. */
static void end_pause(struct writer *writer)
{
    const uint64_t quiet_ns = writer_since(writer->quiet_ns, writer->start_ns);
    writer->quiet_ns = 0;
    if (writer_since(quiet_ns, writer->tick.since_start_ns) < WRITER_QUIET_NS ||
        writer->ticks == 0 || !writer_fits(writer, CHUNK_TICK_BYTES_MAX))
        return;
    writer->tick.since_start_ns = quiet_ns;
    uint8_t *room = sink_room(&writer->sink, CHUNK_TICK_BYTES_MAX);
    sink_commit(&writer->sink, chunk_write_tick(writer->ticks++, &writer->tick, room));
}

/* Puts the units of the lane's read slot from `lane->writer.read_from` to `to` into the stream. */
static void write_units(struct writer *writer, struct malloctape_lane *lane, const uint16_t *to)
{
    size_t count = (size_t)(to - lane->writer.read_from);
    /* After an error the units stay in the spool. */
    if (count == 0 || writer_error(writer) || writer->is_full ||
        !writer_slots_take_units(writer, lane, count))
        return;
    if (writer->quiet_ns) end_pause(writer);
    if (!writer_fits(writer, CHUNK_BYTES_MAX(count)))
        return write_units_that_fit(writer, lane, count);
    commit_units(writer, lane, 0, count, sink_wants_packed(&writer->sink));
    units_are_written(writer, lane, count);
}

/* The thread has left the lane's read slot: writes the rest of it and goes to the next one. */
static void finish_slot(struct writer *writer, struct malloctape_lane *lane, uint32_t next)
{
    uint32_t slot = lane->writer.read_slot;
    write_units(writer, lane, spool_units(&writer->spool, slot) + writer->spool.notes[slot].units);
    if (writer->is_full) return;
    lane->writer.read_slot = next;
    lane->writer.read_from = spool_units(&writer->spool, next);
    writer_give_back(writer, slot);
}

static bool is_in_slot(const uint16_t *units, const uint16_t *cursor)
{
    return cursor >= units && cursor <= units + SPOOL_SLOT_UNITS;
}

/* The cursor of a thread that has left its slot stays there until it has entered the next one. The
 * old slot may have been written and given back meanwhile: if the thread gets it again, the cursor
 * would be taken for one in the new segment. */
const uint16_t *writer_position_of(const struct writer *writer, const struct malloctape_lane *lane)
{
    const uint16_t *cursor = writer_cursor_of(lane);
    if (cursor == NULL) return NULL;
    const uint16_t *units = spool_units(&writer->spool, lane->writer.read_slot);
    if (is_in_slot(units, cursor)) return cursor;
    if (!atomic_load_acquire(&writer->spool.notes[lane->writer.read_slot].next)) return units;
    return writer_cursor_of(lane); /* it has left this slot, so it is not before it */
}

uint32_t writer_drain_lane(struct writer *writer, struct malloctape_lane *lane,
                           const uint16_t *upto)
{
    uint32_t slots = 0;
    for (;;) {
        const uint16_t *units = spool_units(&writer->spool, lane->writer.read_slot);
        if (upto != NULL && is_in_slot(units, upto)) {
            write_units(writer, lane, upto);
            return slots;
        }
        uint32_t next = atomic_load_acquire(&writer->spool.notes[lane->writer.read_slot].next);
        if (next == 0 || (upto == NULL && slots == WRITER_SLOTS_PER_PASS) || writer->is_full)
            return slots;
        finish_slot(writer, lane, next - 1);
        slots++;
    }
}

/* Of lanes that have said so, because there may be thousands. One that has more says it again. */
uint32_t writer_drain_full_slots(struct writer *writer)
{
    struct lane_registry *registry = writer->registry;
    uint32_t used = atomic_load_acquire(&registry->used), total = 0;
    for (uint32_t first = 0; first < used; first += 64) {
        uint64_t *word = &registry->left_slots[first / 64], lanes;
        if (!atomic_load_relaxed(word)) continue;
        for (lanes = atomic_exchange_relaxed(word, 0); lanes; lanes &= lanes - 1) {
            struct malloctape_lane *lane =
                lane_at(registry, first + (uint32_t)__builtin_ctzll(lanes));
            if (writer_cursor_of(lane) == NULL) continue;
            uint32_t slots = writer_drain_lane(writer, lane, NULL);
            if (slots == WRITER_SLOTS_PER_PASS) lane_left_slot(registry, lane);
            total += slots;
        }
    }
    return total;
}

/* ---- more slots ---- */

/* If there is no space for more slots, the threads go on with those that there are, unless one has
 * found none and most of them are the lanes' own. */
static void writer_slots_grow(struct writer *writer, bool is_starved)
{
    uint32_t lanes = atomic_load_relaxed(&writer->registry->used);
    uint32_t before = writer->spool.mapped, latest;
    int result;
    /* To twice as many: on a busy machine it may be long until the writer runs again. */
    do {
        latest = writer->spool.mapped;
        result = spool_grow(&writer->spool, lanes + SPOOL_SLOTS_AHEAD);
        writer_wake_waiters(writer, writer->spool.mapped - latest);
    } while (writer->spool.mapped > latest && writer->spool.mapped < 2 * before);
    bool grown = writer->spool.mapped > before;
    if (result == -EFAULT || (is_starved && !grown && lanes > before / 2))
        writer_check(writer, result, writer->files.spool_path);
    atomic_store_relaxed(&writer->cannot_grow, !grown);
}

/* A lane keeps its latest slot as long as its thread lives: where one thread begins after the other,
 * each would wait once the slots are used up. */
static bool wants_more_slots(const struct writer *writer)
{
    uint32_t lanes = atomic_load_relaxed(&writer->registry->used);
    uint32_t ahead = lanes < SPOOL_SLOTS_AHEAD / 2 ? lanes : SPOOL_SLOTS_AHEAD / 2;
    return writer->spool.mapped < lanes + ahead && !writer->cannot_grow;
}

void writer_grow_if_needed(struct writer *writer)
{
    bool is_starved = atomic_exchange_acq_rel(&writer->starved, 0);
    if (is_starved) writer_flush(writer);
    if (is_starved || wants_more_slots(writer)) writer_slots_grow(writer, is_starved);
}

void writer_grow_meanwhile(void *argument)
{
    struct writer *writer = argument;
    bool is_starved = atomic_exchange_acq_rel(&writer->starved, 0);
    if (is_starved || wants_more_slots(writer)) writer_slots_grow(writer, is_starved);
}
