/* resident_unknown - what memory without a name is of which no call was recorded: libc and the
 * dynamic linker map it for themselves, or the program did by bare system calls.
 *
 *   behind the data of a file      its data that is zero at first ("bss")
 *   recorded objects in the area   the heap: its allocator mapped it before the recording
 *   at a multiple of 64 MiB        an arena of glibc
 *   touched from its end on        the stack of a thread
 *   touched at its beginning       large chunks of libc's allocator, as many as it can have
 *   small                          the dynamic linker's, and data of the first thread
 *   anything else                  nobody's that we know */
#ifndef MALLOCTAPE_READING_RESIDENT_UNKNOWN_H
#define MALLOCTAPE_READING_RESIDENT_UNKNOWN_H

#include "reading/resident_part.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of an area, and what is resident of it. */
struct resident_piece {
    uint64_t start, end;      /* bytes */
    uint32_t protection;      /* enum residency_protection */
    bool has_first, has_last; /* whether its first and its last page are resident */
    bool is_heap;             /* recorded objects are in its area, or were */
};

/* The file whose data lie before a piece, if any do. */
struct resident_file {
    uint64_t end; /* where they end; 0: there is none */
};

enum resident_owner resident_unknown(struct resident_dividing *dividing,
                                     const struct resident_piece *piece,
                                     const struct resident_file *before);

#ifdef __cplusplus
}
#endif
#endif
