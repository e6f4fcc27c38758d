/* front_end - what a front end (capture.h) tells the capture core. */
#ifndef MALLOCTAPE_FRONT_END_H
#define MALLOCTAPE_FRONT_END_H

#include "stream/original.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* What a front end tells about its allocator. The functions are called by the writer thread or at
 * the start, and must take no lock and no memory. */
struct malloctape_front_end {
    const char *allocator; /* name and version */
    /* Names of environment variables that change it, NULL at the end; `*`: all that begin so. */
    const char *const *settings;
    uint64_t (*heap_bytes)(void); /* address space it has taken from the system, approximately */
    bool (*cover_heap)(void);     /* the shadow table for all that it has; false: no memory */
    void (*divert)(void);         /* recording begins: calls must come to the capture core */
    void (*announce_cache)(const void *cache);    /* malloctape_cached() for each class */
    uint64_t (*class_bytes)(unsigned size_class); /* of its objects */
    uint32_t (*class_of_size)(
        uint64_t size);           /* 0: pages of their own; classes are multiples of 8 */
    uint64_t (*used_bytes)(void); /* of heap_bytes: pages that are not free; or NULL */
    bool opaque; /* nothing is known of it but addresses (FORMAT.md 2.7): it has none of
                    announce_cache, class_bytes, class_of_size */
    /* If opaque: bytes that an object has, at least as many as were asked for; 0: nobody knows. */
    size_t (*usable_bytes)(const void *object);
    /* If opaque: sizes with the same (size + this) / 16 are mostly alike; up to 15. */
    uint8_t (*rounding)(void);
    /* Of an allocator that has to be asked, else NULL. look() is called before a recording begins,
     * and about ten times a second during a recording, by a thread of the program that is about to
     * call the allocator: it fetches the figures that heap_bytes and the functions below return
     * until the next look. False: it cannot be done in this call, but will be in the next. */
    bool (*look)(void);
    const char *path; /* the file that has the allocator */
    /* If opaque: whether the allocator's code is at this address, as far as that is known; or NULL.
     * Any thread. */
    bool (*made_call)(const void *address);
    /* Returns why heap_bytes() is always 0, or NULL if it is not. May itself be NULL. */
    const char *(*heap_unknown)(void);
    /* The allocator's statistics (FORMAT.md 4.3): the names, and the values; or NULL. */
    const char *(*statistics)(void);
    void (*read_statistics)(struct original_statistics *statistics);
};

/* Before the first recorded call: the C++ runtime has taken `bytes` of memory only because this
 * library needs it. */
void malloctape_runtime_took(uint64_t bytes);

/* Defined by the front end. */
extern const struct malloctape_front_end malloctape_front_end;

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
