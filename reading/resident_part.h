/* resident_part - who has what is resident of a process (resident.h), and what must be known for that. */
#ifndef MALLOCTAPE_READING_RESIDENT_PART_H
#define MALLOCTAPE_READING_RESIDENT_PART_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
