/* resident - divides what was resident of a process among those who have it (INSTRUCTIONS.md 4.8):
 * each KiB belongs to one part, and all parts together have the kernel's RSS.
 *
 *   area of the kernel --+-- the recorder's, a file's, a stack's: as it says itself
 *                        `-- memory without a name: by the pieces of the table that lie in it
 *                               own              the heap's
 *                               others           of the code that made them
 *                               none             mapped by libc itself, by a bare system call, or
 *                                                before the recording: resident_unknown.c judges what
 *                                                it may be
 *
 * Of an area that several mappings share, each has the pages that are resident in it, if the
 * residency has them as runs, else a part by its length (`is_estimate`).
 *
 *     wrong = resident_divide(&dividing, &table, &residency, at, end);
 *
 * Memory: what the pieces of the largest area take. One thread. */
#ifndef MALLOCTAPE_READING_RESIDENT_H
#define MALLOCTAPE_READING_RESIDENT_H

#include "reading/mapping_table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(IDENTIFIER, "name"): who has it. */
#define RESIDENT_LIST(X)    \
    X(HEAP, "heap")         \
    X(MAPPED, "mapped")     \
    X(STACK, "stack")       \
    X(FILE, "file")         \
    X(SHARED, "shared")     \
    X(LIBC, "libc")         \
    X(RECORDER, "recorder") \
    X(UNOWNED, "unowned")

enum resident_owner {
#define RESIDENT_ENUM(identifier, name) RESIDENT_##identifier,
    RESIDENT_LIST(RESIDENT_ENUM)
#undef RESIDENT_ENUM
        RESIDENT_OWNERS
};

/* What a file's pages are. */
enum resident_kind { RESIDENT_CODE, RESIDENT_CONSTANTS, RESIDENT_DATA, RESIDENT_KINDS };

struct resident_part {
    enum resident_owner owner;
    enum resident_kind kind; /* of a FILE */
    uint32_t stack;          /* of MAPPED, SHARED: the node of the call that mapped it, or 0 */
    const char *name; /* of FILE; of MAPPED without a stack, what the program calls it. Not ended
                                by a zero byte, and valid during the call */
    uint32_t name_bytes;
    uint64_t start, end;                            /* bytes; what it has lies in there */
    uint64_t resident, proportional, huge, swapped; /* KiB */
};

struct resident_dividing {
    /* What is known of the recorded allocator: */
    bool is_libc;         /* it is part of libc, so its mappings are not recorded */
    bool moves_break;     /* it moves the end of the data segment */
    bool is_glibc;        /* its arenas are where glibc has them */
    uint64_t large_bytes; /* what its large chunks, each in a mapping of its own, have at most */

    void (*put)(void *of, const struct resident_part *part);
    void *of;

    bool is_estimate; /* set: something was divided by length */
    bool no_memory;   /* set: there was not enough */
};

/* Calls put() for each part. NULL, or what is wrong with the residency. */
const char *resident_divide(struct resident_dividing *dividing, const struct mapping_table *table,
                            const struct residency *residency, const uint8_t *at,
                            const uint8_t *end);

#ifdef __cplusplus
}
#endif
#endif
