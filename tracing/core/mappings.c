#include "tracing/core/mappings.h"

#include "tracing/core/capture.h"
#include "tracing/core/recording_begin.h"
#include "tracing/data/spool.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/call_stack.h"

#include <errno.h>

/* A program may map millions of times: so many of the calls between two ticks have stacks. */
#define STACKS_PER_WINDOW 512u

#define MUCH_BYTES (UINT64_C(32) << 20)
#define WRITABLE   2u /* PROT_WRITE */

/* Made by the linker: where this library is. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* Of an opaque allocator the library is the recorder and nothing else. */
static bool is_ours(struct mappings_maker maker)
{
    return (const char *)maker.code >= __ehdr_start && (const char *)maker.code < _end;
}

static bool is_of_allocator(struct mappings_maker maker)
{
    return malloctape_front_end.opaque ? malloctape_front_end.made_call != NULL &&
                                             malloctape_front_end.made_call(maker.code)
                                       : is_ours(maker);
}

/* The lane of this thread, if it has one in this recording. */
static struct malloctape_lane *own_lane(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane == &recording_no_lane || lane->registry.recording != recording.number ||
        !malloctape_lane_has_slot(lane))
        return NULL;
    return lane;
}

/* Finding a stack writes what is new in it into the thread's lane, and may take a slot; the allocator
 * is not asked anything then, as it may be what calls, with its locks. A call of its own may be the
 * thread's first, in which it gets no lane. */
static uint32_t find_stack_of_call(const void *frame, bool is_own)
{
    struct malloctape_lane *lane = own_lane();
    if (lane != NULL && (lane->slot.busy || stacks_interrupt(lane, (const uintptr_t *)frame + 2)))
        return STACK_END;
    if (lane == NULL && (is_own || !malloctape_makes_room())) return STACK_END;
    lane = own_lane();
    if (lane == NULL || lane->slot.busy || !slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX))
        return STACK_END;
    return stacks_find(lane);
}

static uint32_t stack_of_call(const void *frame, bool is_own)
{
    struct spool_cells *cells = &recording.writer.spool.cells;
    if (!recording.stacks_every_bytes || recording_state() != MALLOCTAPE_RECORDING ||
        atomic_add_relaxed(&cells->stacks, 1) >= STACKS_PER_WINDOW)
        return STACK_END;
    slot_asks_nothing = true;
    const uint32_t node = find_stack_of_call(frame, is_own);
    slot_asks_nothing = false;
    return node;
}

/* Whether the program has mapped so much that its memory is worth a look: then the writer's thread is
 * to begin, which may have been deferred. */
static bool maps_much(const struct mapping_record *record)
{
    if (record->what != MAPPING_MAP || record->failed || !(record->protection & WRITABLE))
        return false;
    const uint64_t before =
        atomic_add_relaxed(&recording.writer.spool.cells.mapped, record->length);
    return before < MUCH_BYTES && before + record->length >= MUCH_BYTES;
}

static uint64_t mappings_reserve(struct mapping_record *record, int file,
                                 struct mappings_maker maker, char *name)
{
    const bool is_own = is_of_allocator(maker);
    record->own = is_own;
    if (file >= 0 && !os_is_confined()) {
        record->has_file =
            os_program_file(file, &record->device, &record->inode, name, SPOOL_CELL_NAME_BYTES_MAX);
        record->name = name;
        record->name_bytes = record->has_file ? (uint32_t)strlen(name) : 0;
    }
    record->stack = stack_of_call(maker.frame, is_own);
    const struct malloctape_lane *lane = own_lane();
    record->has_lane = lane != NULL;
    record->thread_id =
        (uint32_t)(lane != NULL ? atomic_load_relaxed(&lane->registry.thread_id) : os_thread_id());
    if (lane != NULL)
        record->calls =
            raw_allocations(lane->registry.number, units_allocations_so_far(&lane->units));
    if (maps_much(record)) writer_need(&recording.writer);
    return writer_cells(&recording.writer, cells_of(record));
}

/* A forked child has not inherited the cells. It is not made to notice here that it is one: that
 * begins a recording, which asks the allocator, which may be what calls. */
static bool mappings_have_cells(void)
{
    return mappings_are_recorded() && recording_own_registry() &&
           atomic_load_relaxed(&recording.writer.spool.cells.ring.words);
}

uint64_t mappings_begin(struct mapping_record *record, struct mappings_maker maker)
{
    const int kept_errno = errno;
    uint64_t number = 0;
    if (is_ours(maker) && malloctape_front_end.opaque) return 0;
    if (mappings_have_cells()) number = mappings_reserve(record, -1, maker, NULL);
    errno = kept_errno;
    return number;
}

void mappings_end(uint64_t begun, const struct mapping_record *record)
{
    if (begun && mappings_have_cells()) cell_put(&recording.writer.spool.cells.ring, begun, record);
}

void mappings_record(struct mapping_record *record, int file, struct mappings_maker maker)
{
    const int kept_errno = errno;
    char name[SPOOL_CELL_NAME_BYTES_MAX];
    if (is_ours(maker) && malloctape_front_end.opaque) return;
    if (mappings_have_cells()) mappings_end(mappings_reserve(record, file, maker, name), record);
    errno = kept_errno;
}
