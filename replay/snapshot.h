/* snapshot - where every live object lies, and which pages of the heap are resident, when the
 * replay ends (REPORT.md, "Snapshot").
 *
 *   engine's row of objects        --> addresses, by index (engine switch)
 *   row of registers, engine       --> the same (engine threads)
 *   /proc/self/maps, .../pagemap   --> resident pages of anonymous memory, except our own and what
 *                                      belongs to a loaded file
 *
 * Takes nothing from the allocator. One thread. */
#ifndef MALLOCTAPE_REPLAY_SNAPSHOT_H
#define MALLOCTAPE_REPLAY_SNAPSHOT_H

#include "common/error.h"
#include "common/snapshot_file.h"
#include "stream/instruction_reader.h"

/* The registers of live objects in the order of their indices, for batches that have registers. */
struct snapshot_row {
    struct snapshot_entry {
        uint32_t object; /* by index: the register of the object; `live` of them */
        uint32_t index;  /* by register */
    } * entries;
    uint64_t capacity, live;
};

/* Updates the row: the first `count` instructions of the batch have been carried out. False: see
 * *error. */
bool snapshot_row_follow(struct snapshot_row *row, const struct instruction_batch *batch,
                         size_t count, struct error *error);
void snapshot_row_close(struct snapshot_row *row);

/* Writes the file. `addresses`: of all `live` objects, by index. False: see *error. */
bool snapshot_write(const char *path, void *const *addresses, uint64_t live, struct error *error);

#endif
