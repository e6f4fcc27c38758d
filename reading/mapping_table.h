/* mapping_table - what a program has mapped, and who has mapped it, as records of mappings tell it
 * (FORMAT.md 4.5), and how much of that is resident (4.6).
 *
 *     struct mapping_table table = {.page_bytes = 4096};
 *     reader.mapping:    mapping_table_take(&table, record)
 *     reader.residency:  for each area  mapping_table_divide(&table, &area, page_bytes, took, context)
 *
 *     pieces   [ 0x1000 .. 0x5000 ) made by 0    [ 0x5000 .. 0x6000 ) made by 3    ascending
 *     makers   0: map, stack 17, ...             3: move_to, stack 9, ...
 *
 * A piece is part of what one call has mapped: others may have unmapped the rest, or mapped over it.
 * What was reserved without access belongs to the call that makes it accessible, from then on. Pieces do
 * not overlap. What was mapped by the dynamic linker, or by bare system calls, is not here;
 * of what was there when recording began, only memory without a name is.
 *
 * Memory   24 bytes a piece, 80 a maker with the name of its file; makers of which nothing is left go,
 *          a few thousand at once. Threads: one. */
#ifndef MALLOCTAPE_READING_MAPPING_TABLE_H
#define MALLOCTAPE_READING_MAPPING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/mapping.h"
#include "stream/residency.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a trace does not say how large pages are. */
#define MAPPING_PAGE_BYTES 4096u

/* A call that has mapped something. */
struct mapping_maker {
    uint64_t record; /* its number, from 0 */
    uint64_t bytes;  /* that it has mapped, whole pages */
    uint32_t stack;  /* FORMAT.md 2.8; 0: none */
    uint32_t thread_id;
    uint32_t protection, flags;
    uint8_t what; /* MAPPING_MAP, MAPPING_MOVE_TO, MAPPING_ATTACH or MAPPING_FOUND */
    bool own;     /* of the recorded allocator */
    bool has_file;
    uint64_t offset, device, inode;
    char *name; /* of the file, not ended by a zero byte; NULL: not known */
    uint32_t name_bytes;
};

struct mapping_piece {
    uint64_t start, end; /* addresses, whole pages */
    uint32_t maker;      /* in `makers` */
};

struct mapping_table {
    uint64_t page_bytes; /* set before the first record */

    struct mapping_piece *pieces;
    size_t pieces_count;
    struct mapping_maker *makers;
    size_t makers_count;
    uint64_t bytes;         /* of all pieces */
    uint64_t peak_bytes;    /* the most that they were */
    uint64_t records;       /* taken */
    uint64_t failed;        /* of them */
    uint64_t found;         /* of them: no calls, what was there when recording began */
    uint64_t lost;          /* records that are missing */
    uint64_t own_break;     /* where the allocator has last put the end of the data segment; or 0 */
    uint64_t overlaps;      /* calls that got pages which others had, and had not asked for these */
    uint64_t first_overlap; /* the number of the first such record */
    bool no_memory;         /* nothing more is taken */

    /* From here on: mapping_table.c only. */
    size_t pieces_room, makers_room;
    size_t makers_left; /* when some were last let go */
};

/* Takes the next record. */
void mapping_table_take(struct mapping_table *table, const struct mapping_record *record);
void mapping_table_free(struct mapping_table *table);

/* The piece at the address; NULL: there is none. */
const struct mapping_piece *mapping_table_find(const struct mapping_table *table, uint64_t address);

/* Divides what is resident in an area among the pieces in it, and what is in none: calls `took` for
 * each part in ascending order, with the piece or NULL, its part of the area, and how many KiB of
 * that are resident: exactly where the area has runs, or is empty or full; else in proportion. */
void mapping_table_divide(const struct mapping_table *table, const struct residency_area *area,
                          uint64_t page_bytes,
                          void (*took)(void *context, const struct mapping_piece *piece,
                                       uint64_t start, uint64_t end, uint64_t resident_kib),
                          void *context);

#ifdef __cplusplus
}
#endif
#endif
