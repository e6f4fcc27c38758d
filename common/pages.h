/* pages - memory straight from the system.
 *
 * A replay measures an allocator and must take nothing from it, so the tables and buffers of the
 * offline programs are mappings of their own, made by raw system calls: allocators interpose mmap()
 * too.
 *
 * The first PAGES_RANGES private mappings that exist at a time are remembered, so that a replay
 * knows how much of its resident memory they are.
 *
 * Memory comes zeroed and in whole pages; what is never touched costs address space only.
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

/* Makes the mapping of `bytes_old` bytes at `at` one of `bytes_new` bytes, zeroed where it grew; it
 * may move. On failure the old mapping stays as it is. */
void *pages_grow(void *at, size_t bytes_old, size_t bytes_new);

/* Makes room for `count` entries in the array that `at` points to, of which there are *capacity of
 * `entry_bytes` each, by doubling; at first there is for `least`. False: no memory (ENOMEM), and
 * nothing has changed. */
bool pages_reserve(void *at, uint64_t *capacity, uint64_t count, uint64_t least,
                   size_t entry_bytes);

/* NULL is ignored. */
void pages_unmap(void *at, size_t bytes);

/* Whether an address lies in a private mapping that is remembered. */
bool pages_have(const void *address);

/* Resident bytes of the private mappings that are remembered. */
size_t pages_resident_bytes(void);

#endif
