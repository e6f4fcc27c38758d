/* preload_allocator - the allocator behind this library: which one it is, and how large its heap
 * is. */
#ifndef MALLOCTAPE_PRELOAD_ALLOCATOR_H
#define MALLOCTAPE_PRELOAD_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

struct original_statistics;

/* Asks the allocator. To be called outside its functions, by a thread of the program that is about
 * to call it: asking waits for locks of the allocator, as the call may (docs/inside.md). */
void allocator_look(void);

/* jemalloc begins and ends threads of its own while it holds locks that asking takes, too. */
bool allocator_is_jemalloc(void);

/* Whether its code is at this address. Of an allocator in the program's own file nobody knows:
 * false. */
bool allocator_made_call(const void *address);

/* What it said then: its name and version, and the file that has it. Empty: there is none. */
extern char allocator_name[];
extern char allocator_path[];

/* The names of its statistics (FORMAT.md 4.3), and the values: glibc's as of now, those of others
 * as of the latest look. Any thread. */
const char *allocator_statistics(void);
void allocator_read_statistics(struct original_statistics *statistics);

/* The address space that it has taken from the system; 0: it cannot be asked. */
uint64_t allocator_heap_bytes(void);

/* Why not; NULL: it can. */
const char *allocator_heap_unknown(void);

/* What it adds to a size before it rounds that down to a multiple of 16, mostly. */
uint8_t allocator_rounding(void);

/* Environment variables that change some allocator, NULL at the end; `*`: all that begin so. */
extern const char *const allocator_settings[];

#endif
