/* pages - memory directly from the system.
 *
 * A replay measures an allocator and must take nothing from it, so the tables and buffers of the
 * offline programs are separate mappings, made by raw system calls, because allocators interpose
 * mmap(), too.
 *
 * Up to PAGES_RANGES private mappings are remembered, so that a replay knows how much of its
 * resident memory is theirs.
 *
 * Memory is zeroed and comes in whole pages; what is never touched costs address space only.
 *
 * Threads     any. Errors: NULL, with errno set; the caller reports it. */
#ifndef MALLOCTAPE_PAGES_H
#define MALLOCTAPE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGES_RANGES 256u

void *pages_map(size_t bytes);

/* The same, but a child of fork() shares it. Cannot grow. */
void *pages_map_shared(size_t bytes);

/* Resizes the mapping of `bytes_old` bytes at `at` to `bytes_new` bytes; the new part is zero. It
 * may move. On failure the old mapping stays as it is. */
void *pages_grow(void *at, size_t bytes_old, size_t bytes_new);

/* Makes room for `count` entries of `entry_bytes` each in an array, by doubling; at first for
 * `least`. `at` points to the pointer to it; *capacity is its size in entries. False: no memory
 * (ENOMEM), and nothing has changed. */
bool pages_reserve(void *at, uint64_t *capacity, uint64_t count, uint64_t least,
                   size_t entry_bytes);

/* NULL is ignored. */
void pages_unmap(void *at, size_t bytes);

/* Whether an address lies in a private mapping that is remembered. */
bool pages_have(const void *address);

/* Resident bytes of the private mappings that are remembered. */
size_t pages_resident_bytes(void);

#endif
