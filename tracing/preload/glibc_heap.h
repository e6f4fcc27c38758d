/* glibc_heap - what mallinfo2() would say of glibc's heap, without its locks: the program may hold
 * them, and other threads would wait while it walks through all free chunks.
 *
 * The numbers stand in two variables of the C library that have no public names. They are found by
 * what only they have (tried with glibc 2.36; none before 2.27 or after 2.41 is asked); else
 * nothing is known.
 *
 * Threads   any. */
#ifndef MALLOCTAPE_GLIBC_HEAP_H
#define MALLOCTAPE_GLIBC_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct link_map;
struct original_statistics;

/* arena + hblkhd; 0: unknown, or there is no heap yet. */
uint64_t glibc_heap_bytes(const struct link_map *libc, const char *version);

/* Whether the parts of that and the thresholds can be known: not in a C library older than 2.35. */
bool glibc_heap_is_known(const char *version);

/* The values that these names stand for; all 0 as long as there is no heap. The bytes of arenas, and
 * the mapped ones, are together what glibc_heap_bytes() says. */
#define GLIBC_HEAP_STATISTICS                                                                     \
    "arenas main_arena_bytes other_arenas_bytes mapped_chunks mapped_bytes mmap_threshold_bytes " \
    "trim_threshold_bytes"
void glibc_heap_read(const struct link_map *libc, const char *version,
                     struct original_statistics *statistics);

#endif
