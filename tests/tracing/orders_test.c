/* orders_test - what the recorder's threads hand to each other without locks, in all orders, on a
 * memory as C11 allows it (weak_memory.h). The code is the recorder's own; what it calls besides
 * stands here.
 *
 *   slots   a thread writes records, takes slots (slot.c, spool.c, units.h); the writer reads what
 *           lies below the cursor, and slots that the thread has left, and gives them back
 *           (writer_slots.c); a third thread reads how many allocations there have been
 *   pause   a thread goes onto the fast path (slot.c) while another one pauses the recording
 *           (recording.c)
 *
 * Then the same with one order less, which must be found each time.
 *
 * It has found that the writer took a cursor in a slot that it had given back for one in the same
 * slot when the lane had got it again (writer_position_of()). */
#include "tests/weak_memory.h"

#include "common/call_kind.h"
#include "stream/units_profile.h"
#include "tracing/data/settings.h"
#include "tracing/data/spool.h"
#include "tracing/data/stack_sample.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/writer/writer_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2, RECORDS_A_SLOT = 1, RECORDS = 3 * RECORDS_A_SLOT };

#define UNSEEN __attribute__((no_sanitize_thread))

static struct malloctape_lane lanes[LANE_BLOCK];
static struct malloctape_lane *const lane = &lanes[0];
static struct lane_registry registry;
static struct spool_note notes[SLOTS];
static _Alignas(64) uint8_t extent[SLOTS * SPOOL_SLOT_BYTES];

/* --- what the code calls --- */

struct settings settings;
const struct malloctape_front_end malloctape_front_end = {.allocator = "none"};

void writer_need(struct writer *writer)
{
    (void)writer;
}

uint32_t writer_slot(struct writer *writer, bool loses_already)
{
    (void)loses_already;
    return spool_take(&writer->spool);
}

/* What has come into the stream: units of allocations of 1, 2, 3, ... bytes. */
UNSEEN size_t chunk_write(struct packer *packer, struct chunk_units *chunk, uint8_t *at)
{
    (void)packer, (void)at;
    for (size_t i = 0; i < chunk->records.count; i++) {
        const uint64_t number = chunk->first_unit + i + 1;
        if (chunk->records.units[i] != RAW_UNIT_ALLOCATION_1_SHORT + number)
            weak_fail("the writer has read a unit that was not written");
    }
    return 0;
}

uint8_t *sink_room(struct sink *sink, size_t bytes)
{
    (void)sink, (void)bytes;
    return NULL;
}

int sink_flush(struct sink *sink)
{
    (void)sink;
    return 0;
}

/* What it does not call here. */
void never_called(void);
void never_called(void)
{
    abort();
}

#define NEVER(name) __asm__(".globl " #name "\n.set " #name ", never_called");
NEVER(checksum_of_two)
NEVER(chunk_write_tick)
NEVER(os_clock_ns)
NEVER(os_file_allocate)
NEVER(os_file_look_at)
NEVER(os_file_map)
NEVER(os_file_read_start)
NEVER(os_file_unmap)
NEVER(os_file_write)
NEVER(os_memory_clear)
NEVER(os_memory_release)
NEVER(os_memory_reserve_per_process)
NEVER(os_wait)
NEVER(os_wake)
NEVER(pack_lane_begin)
NEVER(pack_lane_end)
NEVER(shadow_end)
NEVER(sink_flush_within)
NEVER(stack_sample_leave_slot)
NEVER(stack_sample_limit)
NEVER(watch_units)
NEVER(writer_abort)
NEVER(writer_ask_end)
NEVER(writer_look)
NEVER(writer_report_killed)
NEVER(writer_sync)
NEVER(writer_takes_fault)

/* --- slots --- */

UNSEEN static void begin(void)
{
    memset(lanes, 0, sizeof *lanes);
    memset(notes, 0, sizeof notes);
    memset(&recording.writer.spool, 0, sizeof recording.writer.spool);
    registry.present = registry.used = 1;
    registry.left_slots[0] = 0;
    registry.blocks[0] = lanes;
    recording.registry = recording.writer.registry = &registry;
    recording.writer.pending_count = 0;
    recording.writer.spool.extents[0] = extent;
    recording.writer.spool.notes = notes;
    recording.writer.spool.mapped = SLOTS;
    for (unsigned i = 0; i < SLOTS; i++) {
        memset(extent + (size_t)i * SPOOL_SLOT_BYTES, 0, 256);
        spool_give(&recording.writer.spool, i);
    }
    lane->slot.number = SPOOL_NO_SLOT;
    malloctape_lane = lane;
    malloctape_state = MALLOCTAPE_RECORDING;
}

static void thread(void)
{
    for (unsigned number = 1; number <= RECORDS; number++) {
        if ((number - 1) % RECORDS_A_SLOT == 0 && !slot_take(lane)) return;
        units_fast_allocation(&lane->units, units_cursor(&lane->units), CALL_MALLOC, number);
    }
}

static void writer(void)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        writer_drain_full_slots(&recording.writer);
        const uint16_t *cursor = writer_position_of(&recording.writer, lane);
        if (cursor) writer_drain_lane(&recording.writer, lane, cursor);
        writer_flush(&recording.writer);
    }
}

static void reader(void)
{
    uint64_t first = units_allocations_so_far(&lane->units);
    uint64_t second = units_allocations_so_far(&lane->units);
    if (first > second) weak_fail("allocations have become fewer");
    if (second > RECORDS) weak_fail("there were never so many allocations");
}

static const char *nothing_more(void)
{
    return NULL;
}

/* --- a pause --- */

bool os_is_confined(void)
{
    return false;
}

int os_process_id(void)
{
    return 0;
}

UNSEEN static void begin_pause(void)
{
    begin();
    spool_take(&recording.writer.spool);
    lane->units.cache = lanes;
    lane->slot.room = (uint16_t *)(void *)(extent + 256);
}

static void enable(void)
{
    slot_enable_fast_path(lane);
}

static void pause_all(void)
{
    recording_pause();
}

static const char *has_left(void)
{
    return lane->units.limit ? "the thread stays on the fast path" : NULL;
}

/* --- all of it --- */

static int failures, count;

static void check(const char *name, const struct weak_program *program, bool is_right)
{
    struct weak_result result = weak_run(program);
    const bool good = is_right ? !result.wrong : result.wrong != NULL;
    if (!good) failures++;
    fflush(stdout);
    printf("%sok %d - %s: %s after %llu runs\n", good ? "" : "not ", ++count, name,
           result.wrong ? result.wrong : "nothing wrong", (unsigned long long)result.runs);
}

static struct weak_program weakened(struct weak_program program, const void *object)
{
    program.weakened = object;
    return program;
}

int main(void)
{
    const struct weak_program slots = {.begin = begin,
                                       .end = nothing_more,
                                       .threads = {thread, writer},
                                       .threads_count = 2,
                                       .switches = getenv("MALLOCTAPE_LONG") ? 3 : 2};
    struct weak_program counts = slots, pauses = slots, wrong;
    counts.threads[1] = reader;
    counts.switches--;
    pauses.begin = begin_pause;
    pauses.end = has_left;
    pauses.threads[0] = enable;
    pauses.threads[1] = pause_all;
    check("slots", &slots, true);
    check("counts", &counts, true);
    check("pause", &pauses, true);
    wrong = weakened(slots, &lane->units.head);
    check("slots, the cursor relaxed", &wrong, false);
    wrong = weakened(slots, &notes[SLOTS - 1].next);
    check("slots, the next slot relaxed", &wrong, false);
    wrong = weakened(slots, &recording.writer.spool.free_head);
    check("slots, the free ones relaxed", &wrong, false);
    wrong = pauses;
    wrong.without_fences = true;
    check("pause, without fences", &wrong, false);
    printf("1..%d\n", count);
    return failures > 0;
}
