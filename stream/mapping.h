/* mapping - what a program does to its address space: one record of a chunk of mappings
 * (FORMAT.md 4.5), or of a block of them (INSTRUCTIONS.md 4.7). The encoding is the same.
 *
 *     uint64_t latest = 0;                                  in each payload
 *     at = mapping_record_put(at, &record, &latest);
 *
 *     while (at < end)
 *         if ((wrong = mapping_record_take(&at, end, &latest, &record)) != NULL) ...
 *
 * Memory in, memory out: the recorder writes records in other people's programs. */
#ifndef MALLOCTAPE_MAPPING_H
#define MALLOCTAPE_MAPPING_H

#include "stream/raw_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(number, IDENTIFIER, "name"): what was done, FORMAT.md 4.5. */
#define MAPPING_WHAT_LIST(X)     \
    X(1, MAP, "map")             \
    X(2, UNMAP, "unmap")         \
    X(3, MOVE_FROM, "move_from") \
    X(4, MOVE_TO, "move_to")     \
    X(5, ADVISE, "advise")       \
    X(6, PROTECT, "protect")     \
    X(7, ATTACH, "attach")       \
    X(8, DETACH, "detach")       \
    X(9, BREAK, "break")         \
    X(10, LOST, "lost")          \
    X(11, FOUND, "found")        \
    X(12, TOUCHED, "touched")

enum mapping_what {
#define MAPPING_WHAT_ENUM(number, identifier, name) MAPPING_##identifier = (number),
    MAPPING_WHAT_LIST(MAPPING_WHAT_ENUM)
#undef MAPPING_WHAT_ENUM
};
#define MAPPING_WHAT_LAST MAPPING_TOUCHED

#define MAPPING_NAME_BYTES_MAX 4096u

struct mapping_record {
    uint8_t what; /* enum mapping_what */
    bool failed;  /* it did nothing; what a `failed` voids, mapping_voids() says */
    bool own;     /* the recorded allocator has made the call */
    bool has_file;
    bool has_lane;
    uint32_t thread_id;
    uint64_t address, length; /* bytes; of `lost` the length is how many are missing */
    uint32_t protection;      /* PROT_...; of `advise` the advice */
    uint32_t flags;           /* MAP_..., MREMAP_..., SHM_... */
    uint32_t stack;           /* node (FORMAT.md 2.8), 0: none */
    uint64_t calls;           /* with has_lane: raw_allocations() of the thread's lane, before */
    uint64_t offset;          /* in the file */
    uint64_t device, inode;   /* with has_file */
    const char *name;         /* with has_file; not ended by a zero byte */
    uint32_t name_bytes;      /* 0: not known */
};

/* Bytes that a record takes at most, with room for what varint_put() touches. */
#define MAPPING_BYTES_MAX (16u * 9u + 16u + MAPPING_NAME_BYTES_MAX)

/* Writes the record; returns where the next one goes. */
uint8_t *mapping_record_put(uint8_t *at, const struct mapping_record *record, uint64_t *latest);

/* Reads the record at `*at`, before which VARINT_SLACK bytes after `end` may be touched. NULL: it is
 * good, and `*at` is behind it; else what is wrong. The name stays where it is. */
const char *mapping_record_take(const uint8_t **at, const uint8_t *end, uint64_t *latest,
                                struct mapping_record *record);

/* Whether `record`, a failed one, says that the earlier record of the same thread, written before
 * its call, was in vain. */
bool mapping_voids(const struct mapping_record *record, const struct mapping_record *earlier);

/* NULL: undefined. */
const char *mapping_what_name(unsigned what);

#ifdef __cplusplus
}
#endif
#endif
