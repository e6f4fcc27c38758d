/* glibc_heap - what mallinfo2() would say of glibc's heap, without its locks: the program may hold
 * them, and other threads would wait while it walks through all free chunks.
 *
 * The numbers stand in two variables of the C library that have no public names. They are
 * recognized by what they contain (tried with glibc 2.36; none before 2.27 or after 2.41 is asked);
 * otherwise nothing is known. Before the first call of malloc() they are found whatever the program
 * has tuned. */
#ifndef MALLOCTAPE_GLIBC_HEAP_H
#define MALLOCTAPE_GLIBC_HEAP_H

#include <stdint.h>

struct link_map;

/* The last ones: of the oldest arenas but the first one, in the order in which they were made. */
#define GLIBC_HEAP_STATISTICS                                                                     \
    "arenas main_arena_bytes other_arenas_bytes mapped_chunks mapped_bytes mmap_threshold_bytes " \
    "trim_threshold_bytes arena_2_bytes arena_3_bytes arena_4_bytes arena_5_bytes arena_6_bytes " \
    "arena_7_bytes arena_8_bytes"
enum { GLIBC_HEAP_STATISTICS_COUNT = 14, GLIBC_HEAP_ARENAS = 7 };

/* Looks for the variables: to be called once, before all else. Returns how many of the values with
 * these names will be known: all, or none, which is also so in a C library older than 2.35. */
unsigned glibc_heap_find(const struct link_map *libc, const char *version);

/* Why they are not known then; NULL: they are. */
const char *glibc_heap_unknown(void);

/* Stores the values as of now, and returns arena + hblkhd: the bytes of arenas and mapped chunks
 * together. Returns 0, and stores nothing, if the variables were not found. Any thread. */
uint64_t glibc_heap_read(uint64_t values[GLIBC_HEAP_STATISTICS_COUNT]);

#endif
