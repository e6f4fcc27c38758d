/* glibc_heap - what mallinfo2() would say of glibc's heap, without its locks: the program may hold
 * them, and other threads would wait while it walks through all free chunks.
 *
 * The numbers stand in two variables of the C library that have no public names. They are found by
 * what only they have (tried with glibc 2.36); else nothing is known.
 *
 * Threads   one. */
#ifndef MALLOCTAPE_GLIBC_HEAP_H
#define MALLOCTAPE_GLIBC_HEAP_H

#include <stdint.h>

struct link_map;

/* arena + hblkhd; 0: unknown, or there is no heap yet. */
uint64_t glibc_heap_bytes(const struct link_map *libc);

#endif
