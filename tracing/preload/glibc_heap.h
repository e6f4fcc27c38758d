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

#include <stdint.h>

struct link_map;
struct watch_glibc;

/* arena + hblkhd; 0: unknown, or there is no heap yet. */
uint64_t glibc_heap_bytes(const struct link_map *libc, const char *version);

/* The parts of that, and the thresholds; nothing, if they are unknown, or the C library is older
 * than 2.35. */
void glibc_heap_look(const struct link_map *libc, const char *version, struct watch_glibc *glibc);

#endif
