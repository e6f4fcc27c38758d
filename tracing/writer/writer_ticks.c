#include "tracing/writer/writer.h"
#include "tracing/writer/writer_own.h"

#include "common/check.h"
#include "common/text.h"
#include "stream/chunk_seal.h"
#include "stream/units.h"
#include "tracing/data/lane.h"
#include "tracing/data/large.h"

#include <string.h>

/* VmSize, RSS, and what of it is of files or of shared memory, in pages. */
static void writer_ticks_read_statm(struct writer *writer)
{
    char text[128];
    long bytes = os_file_read_start(writer->statm, text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *resident = strchr(text, ' ');
    const char *shared = resident != NULL ? strchr(resident + 1, ' ') : NULL;
    const uint64_t page_bytes = os_page_bytes();
    writer->vm_size_bytes = resident != NULL ? text_read_decimal(text) * page_bytes : 0;
    writer->tick.rss_bytes = resident != NULL ? text_read_decimal(resident + 1) * page_bytes : 0;
    writer->rss_shared_bytes = shared != NULL ? text_read_decimal(shared + 1) * page_bytes : 0;
    writer->residency.shared_bytes = writer->rss_shared_bytes;
}

static void look_at_memory(struct writer *writer)
{
    uint64_t own_files, library_files;
    writer_ticks_read_statm(writer);
    uint64_t own = os_memory_resident_bytes(&own_files);
    if (own > 0) own += writer_library_bytes(writer, &library_files);
    atomic_store_relaxed(&writer->tick.usage.recorder_bytes, own);
    if (own > 0) own_files += library_files;
    writer->rss_shared_bytes = original_net_bytes(writer->rss_shared_bytes, own_files);
    atomic_store_relaxed(&writer->look_wanted, 1);
}

/* The kernel divides a time into user and system by samples, so either may seem to go back. */
static void look_at_usage(struct writer *writer)
{
    struct os_usage usage = os_process_usage(true);
    writer->tick.usage.user_ns = writer_since(usage.user_ns, writer->usage_before.user_ns);
    writer->tick.usage.system_ns = writer_since(usage.system_ns, writer->usage_before.system_ns);
}

static void look_at_calls(struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    writer->null_frees = 0;
    writer->sizes_asked = atomic_load_relaxed(&recording_no_lane.sizes_asked);
    for (uint32_t i = 0; i < used; i++) {
        const struct malloctape_lane *lane = lane_at(writer->registry, i);
        writer->null_frees += atomic_load_relaxed(&lane->null_frees);
        writer->sizes_asked += atomic_load_relaxed(&lane->sizes_asked);
    }
}

/* The allocator's statistics, and the recorder's own. */
static void writer_ticks_put_statistics(struct writer *writer)
{
    struct original_statistics *statistics = &writer->tick.statistics;
    statistics->count = 0;
    if (malloctape_front_end.read_statistics != NULL)
        malloctape_front_end.read_statistics(statistics);
    statistics->values[statistics->count++] = writer->rss_shared_bytes;
    statistics->values[statistics->count++] = writer->vm_size_bytes;
    statistics->values[statistics->count++] = writer->null_frees;
    statistics->values[statistics->count++] = writer->sizes_asked;
}

/* How many nanoseconds 2^32 cycles of the processor's clock take. */
static uint64_t measure_cycles(const struct writer *writer, uint64_t now_ns)
{
    uint64_t cycles = arch_clock() - writer->start_cycles;
    return (uint64_t)((double)writer_since(now_ns, writer->start_ns) / (double)cycles * 0x1p32);
}

/* Uses the rate that ticks have measured, because reading the time takes a system call. */
uint64_t writer_cycles_ns(const struct writer *writer, uint64_t cycles)
{
    uint64_t ns = atomic_load_relaxed(&writer->ns_of_2_32_cycles);
    if (ns == 0) ns = measure_cycles(writer, os_clock_ns());
    return (uint64_t)((double)cycles * (double)ns / 0x1p32);
}

/* What this costs grows with the number of threads, and with the spool that they need. */
static void writer_ticks_look(struct writer *writer, uint64_t now)
{
    uint64_t run_ns = os_thread_run_ns();
    if (writer->ticks < WRITER_TICKS_THAT_LOOK || writer->ticks % WRITER_TICKS_PER_MEMORY_LOOK == 0)
        look_at_memory(writer);
    look_at_usage(writer);
    look_at_calls(writer);
    writer->next_look_ns = now + (os_thread_run_ns() - run_ns) * WRITER_LOOKS_ONE_IN;
}

static void writer_ticks_put_tick(struct writer *writer, uint64_t now)
{
    large_allow(writer_since(now, writer->start_ns + writer->tick.since_start_ns));
    if (!writer_fits(writer, CHUNK_TICK_BYTES_MAX)) return;
    if (now >= writer->next_look_ns) writer_ticks_look(writer, now);
    writer_look_at_residency(writer, now);
    writer->tick.since_start_ns = now - writer->start_ns;
    writer->tick.heap_bytes = malloctape_front_end.heap_bytes();
    writer_ticks_put_statistics(writer);
    uint8_t *room = sink_room(&writer->sink, CHUNK_TICK_BYTES_MAX);
    sink_commit(&writer->sink, chunk_write_tick(writer->ticks++, &writer->tick, room));
}

void writer_put_last_tick(struct writer *writer)
{
    look_at_memory(writer);
    writer->next_look_ns = 0;
    writer->tick.usage.peak_rss_bytes = os_process_peak_bytes();
    writer_residency_now(writer, RESIDENCY_END);
    writer_ticks_put_tick(writer, os_clock_ns());
}

/* A lane without a thread gives its slot back. Whoever continues the lane takes a new one, and
 * records the end of the thread if there was no room for that here. */
static void retire_lane(struct writer *writer, struct malloctape_lane *lane)
{
    if (atomic_load_relaxed(&lane->registry.ended) || writer->is_full ||
        writer_cursor_of(lane) == NULL || !lane_take_over(writer->registry, lane))
        return;
    uint32_t slot = lane->slot.number;
    bool ended = units_cursor(&lane->units) < lane->slot.end;
    if (ended) units_thread(&lane->units, RAW_THREAD_END, 0);
    uint16_t *cursor = units_cursor(&lane->units);
    writer_drain_lane(writer, lane, cursor);
    if (writer->is_full) return lane_put_back(writer->registry, lane);
    uint32_t units = (uint32_t)(cursor - lane->slot.start);
    writer->spool.notes[slot].units = units;
    writer_give_back(writer, slot);
    lane->slot.earlier_units += units;
    /* Produced = written, as nothing is in flight. */
    MUST_HOLD(writer_error(writer) || lane->writer.written == lane->slot.earlier_units);
    atomic_store_relaxed(&lane->units.limit, 0);
    atomic_store_relaxed(&lane->slot.room, NULL);
    atomic_store_relaxed(&lane->slot.number, SPOOL_NO_SLOT);
    lane->registry.ended = ended;
    atomic_store_release(&lane->units.head, units_head(NULL, lane->units.head));
    lane_put_back(writer->registry, lane);
}

bool writer_close_window(struct writer *writer)
{
    uint32_t used = atomic_load_acquire(&writer->registry->used);
    uint64_t now = os_clock_ns();
    bool progress = false;
    /* Both clocks at once: what follows takes milliseconds. */
    atomic_store_relaxed(&writer->ns_of_2_32_cycles, measure_cycles(writer, now));
    /* What their threads have done before is below the cursors that are read next. */
    const uint64_t cells = spool_cells_taken(&writer->spool.cells);
    for (uint32_t i = 0; i < used; i++) {
        struct malloctape_lane *lane = lane_at(writer->registry, i);
        lane->writer.tick_cursor = writer_position_of(writer, lane);
    }
    for (uint32_t i = 0; i < used; i++) {
        struct malloctape_lane *lane = lane_at(writer->registry, i);
        if (lane->writer.tick_cursor == NULL) continue;
        if (lane->writer.tick_cursor != lane->writer.read_from) {
            writer_drain_lane(writer, lane, lane->writer.tick_cursor);
            progress = true;
        } else if (writer->windows % WRITER_WINDOWS_PER_THREAD_LOOK == 0) {
            lane_notice_gone(writer->registry, lane);
            retire_lane(writer, lane);
            if (writer->packer.followed == PACK_LANES_MAX) writer_leave_lane(writer, lane);
        }
    }
    progress |= writer_drain_cells(writer, cells);
    atomic_store_relaxed(&writer->spool.cells.stacks, 0);
    /* Memory grows without a call when it is touched. */
    if (!progress && writer->windows % WRITER_WINDOWS_PER_PEAK_LOOK == 0) {
        writer_ticks_read_statm(writer);
        progress = writer_residency_is_due(writer, now);
    }
    sink_rate(&writer->sink, now);
    atomic_add_own_relaxed(&writer->windows, 1);
    writer->quiet_ns = now;
    /* After an error, the stream lacks some of what comes before the tick. */
    if (progress && !writer_has_read_zeros(writer)) writer_ticks_put_tick(writer, now);
    return progress;
}

void writer_tick(struct writer *writer, uint64_t now)
{
    bool progress = writer_close_window(writer);
    if (!progress || writer->ticks % WRITER_TICKS_PER_FLUSH == 0) writer_flush(writer);
    writer->next_tick_ns = now + WRITER_TICK_NS;
}
