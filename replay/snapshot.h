/* snapshot - where every live object lies, and which pages of the heap are resident, when the
 * replay ends (REPORT.md, "Snapshot").
 *
 *   executor's row of objects      --> addresses, by index
 *   /proc/self/maps, .../pagemap   --> resident pages of anonymous memory, but for our own and what
 *                                      belongs to a loaded file
 *
 * Takes nothing from the allocator. One thread. */
#ifndef MALLOCTAPE_REPLAY_SNAPSHOT_H
#define MALLOCTAPE_REPLAY_SNAPSHOT_H

#include "common/error.h"
#include "replay/executor.h"

/* Numbers of eight bytes: the header, then the addresses of objects, then those of pages. */
#define SNAPSHOT_MAGIC UINT64_C(0x50414e535041544d) /* "MTAPSNAP" */

enum snapshot_header {
    SNAPSHOT_HEADER_MAGIC,
    SNAPSHOT_HEADER_PAGE_BYTES,
    SNAPSHOT_HEADER_OBJECTS,
    SNAPSHOT_HEADER_PAGES,
    SNAPSHOT_HEADER_WORDS
};

/* False: see *error. */
bool snapshot_write(const char *path, const struct executor *executor, struct error *error);

#endif
