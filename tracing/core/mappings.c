#include "tracing/core/mappings.h"

#include "tracing/core/capture.h"
#include "tracing/core/recording_begin.h"
#include "tracing/data/large.h"
#include "tracing/data/spool.h"
#include "tracing/os/os.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/call_stack.h"

#include <errno.h>

/* A program may map millions of times: so many of the calls between two ticks have stacks. */
#define STACKS_PER_WINDOW 512u

/* What finding a stack takes of the thread's: a signal handler's may have little more than nothing. */
#define STACK_BYTES_LEFT 12288u

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
        atomic_add_relaxed(&cells->stacks, 1) >= STACKS_PER_WINDOW ||
        os_stack_left(frame) < STACK_BYTES_LEFT)
        return STACK_END;
    slot_asks_nothing = true;
    const uint32_t node = find_stack_of_call(frame, is_own);
    slot_asks_nothing = false;
    return node;
}

/* Whether the program has mapped so much that its memory is worth a look: then the writer's thread is
 * to begin, which may have been deferred. */
static void maps_much(uint64_t bytes)
{
    const uint64_t before = atomic_add_relaxed(&recording.writer.spool.cells.mapped, bytes);
    if (before < MUCH_BYTES && before + bytes >= MUCH_BYTES) writer_need(&recording.writer);
}

/* A forked child has not inherited the cells. It is not made to notice here that it is one: that
 * begins a recording, which asks the allocator, which may be what calls. */
static bool mappings_have_cells(void)
{
    return mappings_are_recorded() && recording_own_registry() &&
           atomic_load_relaxed(&recording.writer.spool.cells.ring.words);
}

/* Nothing of the recording may be used before. */
static struct mappings_place mappings_enter(void)
{
    struct mappings_place place = {.is_entered = mappings_have_cells()};
    if (place.is_entered) atomic_add_seq_cst(&recording.writer.spool.cells.users, 1);
    place.recording = atomic_load_acquire(&recording.number);
    return place;
}

/* In a forked child the count is of no use, and does no harm. */
static void mappings_leave(void)
{
    atomic_add_seq_cst(&recording.writer.spool.cells.users, -1);
}

static void mappings_reserve(struct mappings_place *place, struct mapping_record *record,
                             struct mappings_maker maker)
{
    const bool is_own = is_of_allocator(maker);
    record->own = is_own;
    record->stack = stack_of_call(maker.frame, is_own);
    const struct malloctape_lane *lane = own_lane();
    record->has_lane = lane != NULL;
    record->thread_id =
        (uint32_t)(lane != NULL ? atomic_load_relaxed(&lane->registry.thread_id) : os_thread_id());
    if (lane != NULL)
        record->calls =
            raw_allocations(lane->registry.number, units_allocations_so_far(&lane->units));
    if (record->what == MAPPING_MAP && !record->failed && record->protection & WRITABLE)
        maps_much(record->length);
    place->number =
        writer_cells(&recording.writer, place->recording, cells_of(record), &place->ring);
}

/* In a forked child, and in a later recording, it is for nobody. */
static void mappings_put(const struct mappings_place *place, const struct mapping_record *record)
{
    if (place->number && recording_own_registry() &&
        atomic_load_relaxed(&recording.number) == place->recording)
        cell_put(&place->ring, place->number, record);
}

struct mappings_place mappings_begin(struct mapping_record *record, struct mappings_maker maker)
{
    const int kept_errno = errno;
    struct mappings_place place = {.is_entered = false};
    if (is_ours(maker) && malloctape_front_end.opaque) return place;
    place = mappings_enter();
    if (place.is_entered) mappings_reserve(&place, record, maker);
    errno = kept_errno;
    return place;
}

void mappings_end(const struct mappings_place *place, const struct mapping_record *record)
{
    if (!place->is_entered) return;
    mappings_put(place, record);
    mappings_leave();
}

/* Apart, as the name takes much of a stack, which may be a signal handler's. */
static __attribute__((noinline)) void mappings_record_file(struct mapping_record *record, int file,
                                                           struct mappings_maker maker)
{
    char name[SPOOL_CELL_NAME_BYTES_MAX];
    if (!os_is_confined() &&
        os_program_file(file, &record->device, &record->inode, name, sizeof name)) {
        record->has_file = true;
        record->name = name;
        record->name_bytes = (uint32_t)strlen(name);
    }
    const struct mappings_place place = mappings_begin(record, maker);
    mappings_end(&place, record);
}

void mappings_record(struct mapping_record *record, int file, struct mappings_maker maker)
{
    const int kept_errno = errno;
    if (is_ours(maker) && malloctape_front_end.opaque) return;
    if (file >= 0 && mappings_have_cells()) {
        mappings_record_file(record, file, maker);
    } else {
        const struct mappings_place place = mappings_begin(record, maker);
        mappings_end(&place, record);
    }
    errno = kept_errno;
}

/* Apart, as it takes much of a stack. */
static __attribute__((noinline)) void mappings_put_touched(struct mappings_place *place,
                                                           const struct large_object *object)
{
    struct touched touched;
    uint8_t text[TOUCHED_BYTES_MAX];
    if (!large_look(object, &touched)) return;
    struct mapping_record record = large_record(object, &touched, text);
    record.thread_id = (uint32_t)atomic_load_relaxed(&malloctape_lane->registry.thread_id);
    place->number =
        writer_cells(&recording.writer, place->recording, cells_of(&record), &place->ring);
    mappings_put(place, &record);
}

bool mappings_watch(const struct malloctape_lane *lane, const void *object, uint64_t size)
{
    const uint64_t id =
        raw_allocations(lane->registry.number, units_allocations_so_far(&lane->units));
    if (size / os_page_bytes() < TOUCHED_PAGES_LEAST || !mappings_are_recorded() ||
        !large_put((uintptr_t)object, size, id))
        return false;
    maps_much(size);
    return true;
}

void mappings_record_touched(const struct large_object *object)
{
    const int kept_errno = errno;
    const struct spool_cells *cells = &recording.writer.spool.cells;
    struct mappings_place place = mappings_enter();
    if (place.is_entered &&
        spool_cells_taken(cells) - atomic_load_acquire(&cells->freed) <= SPOOL_CELLS / 2 &&
        !os_is_confined() && os_stack_left(&place) >= STACK_BYTES_LEFT)
        mappings_put_touched(&place, object);
    if (place.is_entered) mappings_leave();
    errno = kept_errno;
}
