#include "tracing/data/spool.h"

#include "common/atomic.h"
#include "common/bytes.h"
#include "common/check.h"
#include "stream/checksum.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <string.h>

/* Where the slots begin. */
#define SLOTS_OFFSET (SPOOL_CELLS_OFFSET + SPOOL_CELLS_BYTES)
_Static_assert(SPOOL_CELLS % SPOOL_CELLS_ALIGNMENT == 0 && SPOOL_CELLS <= SPOOL_CELLS_MAX,
               "FORMAT.md 8");

static int write_header(int file, const uint8_t *recording_id, int process_id, uint64_t features)
{
    uint8_t header[SPOOL_CELLS_OFFSET] = {0};
    bytes_put64(header + SPOOL_HEADER_MAGIC, SPOOL_MAGIC);
    header[SPOOL_HEADER_VERSION_MAJOR] = SPOOL_VERSION_MAJOR;
    header[SPOOL_HEADER_VERSION_MINOR] = SPOOL_VERSION_MINOR;
    bytes_put32(header + SPOOL_HEADER_SLOT_BYTES, SPOOL_SLOT_BYTES);
    memcpy(header + SPOOL_HEADER_RECORDING_ID, recording_id, RAW_RECORDING_ID_BYTES);
    bytes_put32(header + SPOOL_HEADER_PID, (uint32_t)process_id);
    bytes_put64(header + SPOOL_HEADER_FEATURES, features);
    bytes_put32(header + SPOOL_HEADER_CHECKSUM,
                checksum_of_two(header, SPOOL_HEADER_CHECKSUM, NULL, 0));
    bytes_put32(header + SPOOL_HEADER_CELLS, SPOOL_CELLS);
    long written = os_file_write(file, header, sizeof header);
    return written == (long)sizeof header ? 0 : written < 0 ? (int)written : -ENOSPC;
}

/* The head of the stack has a change count. So a thread that has read the head notices at its swap
 * if the slot was taken and given back meanwhile. */
static void push_free(struct spool *spool, uint32_t slot)
{
    uint64_t head = atomic_load_relaxed(&spool->free_head);
    uint64_t next;
    MUST_HOLD(slot < spool->mapped);
    do {
        atomic_store_relaxed(&spool->notes[slot].next_free, (uint32_t)head);
        next = ((head >> 32) + 1) << 32 | (slot + 1);
    } while (!atomic_swap_release(&spool->free_head, &head, next));
    atomic_add_relaxed(&spool->free_count, 1);
}

uint32_t spool_take(struct spool *spool)
{
    uint64_t head = atomic_load_acquire(&spool->free_head);
    uint64_t next;
    do {
        if ((uint32_t)head == 0) return SPOOL_NO_SLOT;
        next = ((head >> 32) + 1) << 32 |
               atomic_load_relaxed(&spool->notes[(uint32_t)head - 1].next_free);
    } while (!atomic_swap_acquire(&spool->free_head, &head, next));
    atomic_add_relaxed(&spool->free_count, -1);
    MUST_HOLD(!atomic_exchange_relaxed(&spool->notes[(uint32_t)head - 1].taken, 1));
    return (uint32_t)head - 1;
}

static int open_cells(struct spool *spool, uint32_t of_recording)
{
    struct spool_cells *cells = &spool->cells;
    uint64_t *words = atomic_load_seq_cst(&cells->users) ? NULL : cells->ring.words;
    int result = os_file_allocate(spool->file, SPOOL_CELLS_OFFSET, SPOOL_CELLS_BYTES);
    if (result < 0) return result;
    words = os_file_map(spool->file, SPOOL_CELLS_OFFSET, SPOOL_CELLS_BYTES, words, false);
    if (words == NULL) return -ENOMEM;
    cells->read = cells->limit = cells->stuck = cells->stuck_ns = cells->lost_said = 0;
    cells->is_last = false;
    atomic_store_relaxed(&cells->freed, 0);
    atomic_store_relaxed(&cells->lost, 0);
    atomic_store_relaxed(&cells->late, 0);
    atomic_store_relaxed(&cells->mapped, 0);
    atomic_store_relaxed(&cells->stacks, 0);
    atomic_store_relaxed(&cells->wanted, 0);
    atomic_store_relaxed(&cells->ring.count, SPOOL_CELLS);
    atomic_store_relaxed(&cells->ring.words, words);
    atomic_store_seq_cst(&cells->taken, spool_cells_first(of_recording));
    return 0;
}

int spool_open(struct spool *spool, int file, const uint8_t *recording_id, int process_id,
               uint64_t features, uint32_t of_recording)
{
    if (spool->notes == NULL)
        spool->notes = os_memory_reserve_per_process(SPOOL_SLOTS_MAX * sizeof *spool->notes);
    if (spool->notes == NULL) return -ENOMEM;
    spool->file = file;
    int result = write_header(file, recording_id, process_id, features);
    if (result == 0) result = open_cells(spool, of_recording);
    return result < 0 ? result : spool_grow(spool, SPOOL_SLOTS_MAX);
}

bool spool_is_cut(const struct spool *spool)
{
    uint8_t magic[sizeof(uint64_t)] = {0};
    long got = os_file_read_start(spool->file, magic, sizeof magic);
    return got >= 0 && bytes_get64(magic) != SPOOL_MAGIC;
}

int spool_grow(struct spool *spool, uint32_t slots_max)
{
    uint32_t first = spool->mapped;
    if (first + SPOOL_EXTENT_SLOTS > slots_max) return 0;
    uint64_t offset = SLOTS_OFFSET + (uint64_t)first * SPOOL_SLOT_BYTES;
    const size_t bytes = SPOOL_EXTENT_BYTES;
    struct os_file_status status;
    int result = os_file_look_at(spool->file, &status);
    if (result < 0) return result;
    /* Somebody has cut the file: made longer again, it would have zeros where slots were. */
    if (status.bytes < offset) return -EFAULT;
    result = os_file_allocate(spool->file, offset, bytes);
    if (result < 0) return result;
    /* Cut just before. */
    if (spool_is_cut(spool)) return -EFAULT;
    uint8_t *place = spool->extents[first / SPOOL_EXTENT_SLOTS];
    bool touched = first < SPOOL_SLOTS_TOUCHED;
    uint8_t *extent = os_file_map(spool->file, offset, bytes, place, touched);
    if (extent == NULL) return -ENOMEM;
    atomic_store_relaxed(&spool->extents[first / SPOOL_EXTENT_SLOTS], extent);
    spool->mapped = first + SPOOL_EXTENT_SLOTS;
    for (uint32_t slot = spool->mapped; slot-- > first;)
        push_free(spool, slot);
    return 0;
}

void spool_close(struct spool *spool)
{
    atomic_store_relaxed(&spool->free_head, 0);
    spool->free_count = 0;
    atomic_store_seq_cst(&spool->cells.taken, 0);
    for (uint32_t i = 0; i < spool->mapped / SPOOL_EXTENT_SLOTS; i++)
        os_file_unmap(spool->extents[i], SPOOL_EXTENT_BYTES);
    if (spool->cells.ring.words != NULL) os_file_unmap(spool->cells.ring.words, SPOOL_CELLS_BYTES);
    spool->mapped = 0;
    if (spool->notes != NULL) os_memory_clear(spool->notes, SPOOL_SLOTS_MAX * sizeof *spool->notes);
}

void *spool_extent_at(const struct spool *spool, uintptr_t address, size_t *bytes)
{
    uint64_t *words = atomic_load_relaxed(&spool->cells.ring.words);
    *bytes = SPOOL_CELLS_BYTES;
    if (words != NULL && address - (uintptr_t)words < SPOOL_CELLS_BYTES) return words;
    *bytes = SPOOL_EXTENT_BYTES;
    for (uint32_t i = 0; i < SPOOL_EXTENTS_MAX; i++) {
        uint8_t *extent = atomic_load_relaxed(&spool->extents[i]);
        if (extent == NULL || address - (uintptr_t)extent < SPOOL_EXTENT_BYTES) return extent;
    }
    return NULL;
}

void spool_forget(struct spool *spool)
{
    if (spool->notes != NULL)
        os_memory_release(spool->notes, SPOOL_SLOTS_MAX * sizeof *spool->notes);
    memset(spool, 0, sizeof *spool);
}

void spool_begin(struct spool *spool, uint32_t slot, const struct spool_segment *segment)
{
    uint8_t *header = spool_slot(spool, slot);
    MUST_HOLD(spool->notes[slot].taken && spool->notes[slot].units <= SPOOL_SLOT_UNITS);
    /* Cleared here, not where the slot is given back: cache lines that are cleared whole are not
     * fetched from the writer's processor. Otherwise the first unit in each line would fetch it. */
    memset(spool_units(spool, slot), 0, (size_t)spool->notes[slot].units * sizeof(uint16_t));
    spool->notes[slot].units = 0;
    spool->notes[slot].extra_units = segment->extra_units;
    atomic_store_relaxed(&spool->notes[slot].next, 0);
    spool_segment_put(header, segment);
    atomic_store_release((uint32_t *)(void *)(header + SPOOL_SLOT_STATE), SPOOL_SLOT_IN_USE);
}

struct spool_segment spool_segment_of(const struct spool *spool, uint32_t slot)
{
    struct spool_segment segment = spool_segment_in(spool_slot(spool, slot));
    segment.extra_units = spool->notes[slot].extra_units;
    return segment;
}

void spool_end(struct spool *spool, uint32_t slot, uint32_t units, uint32_t next)
{
    spool->notes[slot].units = units;
    atomic_store_release(&spool->notes[slot].next, next + 1);
}

void spool_give(struct spool *spool, uint32_t slot)
{
    uint8_t *header = spool_slot(spool, slot);
    MUST_HOLD(atomic_exchange_relaxed(&spool->notes[slot].taken, 0));
    atomic_store_release((uint32_t *)(void *)(header + SPOOL_SLOT_STATE), SPOOL_SLOT_FREE);
    push_free(spool, slot);
}

void spool_note_incomplete(struct spool *spool, uint32_t slot)
{
    uint8_t *header = spool_slot(spool, slot);
    bytes_put32(header + SPOOL_SLOT_FLAGS,
                bytes_get32(header + SPOOL_SLOT_FLAGS) | SPOOL_SLOT_FLAG_INCOMPLETE);
}
