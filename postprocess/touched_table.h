/* touched_table - which pages of large objects were ever resident (FORMAT.md 4.5, *touched*), found
 * before anything is ordered: a record comes when its object ends, and is needed where it begins.
 *
 *   the recording's file, read once more --> touched records --> object, or its size --> runs
 *
 * Memory: about 100 bytes for each object that was looked at, up to 2 000 in a second. */
#ifndef MALLOCTAPE_TOUCHED_TABLE_H
#define MALLOCTAPE_TOUCHED_TABLE_H

#include "stream/raw_format.h"
#include "stream/touched.h"

struct touched_entry {
    uint64_t object; /* raw_allocations() */
    uint64_t bytes;
    uint64_t resident; /* pages */
    size_t text;       /* in table->texts: the runs as the record has them */
    uint32_t text_bytes;
};

struct touched_table {
    struct touched_entry *entries;
    size_t count, room;
    uint8_t *texts;
    size_t texts_bytes, texts_room;
    /* By object, and by size: the entry, plus 1. */
    uint32_t *places;
    size_t size; /* a power of two, at least twice as many as are used; or 0 */
    size_t used;
};

/* Takes what the file says, and the spool, if the file was cut; either may be NULL. What cannot be
 * read is not there. */
void touched_table_read(struct touched_table *table, const char *path, const char *spool_path);
void touched_table_free(struct touched_table *table);

/* Of an object that begins; if it was not looked at, of the latest one of its size that was. False:
 * not known. */
bool touched_table_of(const struct touched_table *table, uint64_t object, uint64_t bytes,
                      struct touched *touched);

#endif
