#include "stream/cell.h"

#include "stream/stack_definition.h"

#include <string.h>

static uint64_t *cell_at(const struct cell_ring *ring, uint64_t number)
{
    return ring->words + (number - 1) % ring->count * SPOOL_CELL_WORDS;
}

/* How many bytes of the name the `i`th cell of a mapping has, and where. */
static uint32_t cell_name_part(const struct cell_ring *ring, uint64_t number, uint32_t i,
                               uint32_t left, uint64_t **at)
{
    const uint32_t from = i == 0 ? SPOOL_CELL_NAME : SPOOL_CELL_MORE_NAME;
    const uint32_t room = 8 * (SPOOL_CELL_WORDS - from);
    *at = cell_at(ring, number + i) + from;
    return left < room ? left : room;
}

void cell_put(const struct cell_ring *ring, uint64_t number, const struct mapping_record *record)
{
    uint64_t *first = cell_at(ring, number), *at;
    const uint32_t cells = cells_of(record);
    const unsigned flags = (record->failed ? 1u : 0) | (record->own ? 2u : 0) |
                           (record->has_file ? 4u : 0) | (record->has_lane ? 8u : 0);
    const char *name = record->name;
    first[SPOOL_CELL_WHAT] =
        record->what | flags << 8 | (uint64_t)cells << 16 | (uint64_t)record->name_bytes << 32;
    first[SPOOL_CELL_ADDRESS] = record->address;
    first[SPOOL_CELL_LENGTH] = record->length;
    first[SPOOL_CELL_PROTECTION] = record->protection | (uint64_t)record->flags << 32;
    first[SPOOL_CELL_OFFSET] = record->offset;
    first[SPOOL_CELL_DEVICE] = record->device;
    first[SPOOL_CELL_INODE] = record->inode;
    first[SPOOL_CELL_CALLS] = record->calls;
    first[SPOOL_CELL_NODE] = record->stack | (uint64_t)record->thread_id << 32;
    for (uint32_t i = 0, left = record->name_bytes; left > 0; i++) {
        const uint32_t bytes = cell_name_part(ring, number, i, left, &at);
        memcpy(at, name, bytes);
        name += bytes;
        left -= bytes;
    }
    for (uint32_t i = 1; i < cells; i++)
        atomic_store_relaxed(&cell_at(ring, number + i)[SPOOL_CELL_NUMBER],
                             (number + i) | SPOOL_CELL_CONTINUES);
    atomic_store_release(&first[SPOOL_CELL_NUMBER], number);
}

static void cell_take_name(const struct cell_ring *ring, uint64_t number,
                           struct mapping_record *record, char *name)
{
    uint64_t *at;
    record->name = name;
    for (uint32_t i = 0, left = record->name_bytes; left > 0; i++) {
        const uint32_t bytes = cell_name_part(ring, number, i, left, &at);
        memcpy(name, at, bytes);
        name += bytes;
        left -= bytes;
    }
}

uint32_t cell_take(const struct cell_ring *ring, uint64_t number, struct mapping_record *record,
                   char *name)
{
    const uint64_t *first = cell_at(ring, number);
    if (atomic_load_acquire(&first[SPOOL_CELL_NUMBER]) != number) return 0;
    const uint64_t what = first[SPOOL_CELL_WHAT];
    *record = (struct mapping_record){
        .what = (uint8_t)what,
        .failed = what >> 8 & 1,
        .own = what >> 8 & 2,
        .has_file = what >> 8 & 4,
        .has_lane = what >> 8 & 8,
        .address = first[SPOOL_CELL_ADDRESS],
        .length = first[SPOOL_CELL_LENGTH],
        .protection = (uint32_t)first[SPOOL_CELL_PROTECTION],
        .flags = (uint32_t)(first[SPOOL_CELL_PROTECTION] >> 32),
        .offset = first[SPOOL_CELL_OFFSET],
        .device = first[SPOOL_CELL_DEVICE],
        .inode = first[SPOOL_CELL_INODE],
        .calls = first[SPOOL_CELL_CALLS],
        .stack = (uint32_t)first[SPOOL_CELL_NODE],
        .thread_id = (uint32_t)(first[SPOOL_CELL_NODE] >> 32),
        .name_bytes = (uint32_t)(what >> 32),
    };
    /* The memory of a process that died may hold anything. */
    if (record->name_bytes > SPOOL_CELL_NAME_BYTES_MAX || !record->has_file) record->name_bytes = 0;
    if (mapping_what_name(record->what) == NULL || record->stack >= STACK_NUMBERS_LIMIT ||
        cells_of(record) != (what >> 16 & 0xff))
        return 0;
    cell_take_name(ring, number, record, name);
    return cells_of(record);
}
