/* snapshot_file - the file that replay --snapshot writes and report --under reads (REPORT.md,
 * "Snapshot"). */
#ifndef MALLOCTAPE_SNAPSHOT_FILE_H
#define MALLOCTAPE_SNAPSHOT_FILE_H

#include <stdint.h>

/* Numbers of eight bytes: the header, then the addresses of objects, then those of pages. */
#define SNAPSHOT_MAGIC UINT64_C(0x50414e535041544d) /* "MTAPSNAP" */

enum snapshot_header {
    SNAPSHOT_HEADER_MAGIC,
    SNAPSHOT_HEADER_PAGE_BYTES,
    SNAPSHOT_HEADER_OBJECTS,
    SNAPSHOT_HEADER_PAGES,
    SNAPSHOT_HEADER_WORDS
};

#endif
