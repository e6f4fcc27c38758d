/* release - has the allocator give unused memory back to the system, as programs do now and then.
 *
 * Each allocator has a call of its own for it; REPORT.md, "Giving memory back", has the table.
 *
 * Threads: as the call of the allocator. */
#ifndef MALLOCTAPE_REPLAY_RELEASE_H
#define MALLOCTAPE_REPLAY_RELEASE_H

#include <stdbool.h>
#include <stddef.h>

struct release {
    const char *means;                 /* in words; NULL: the allocator has none */
    void (*release_free_memory)(void); /* tcmalloc */
    int (*control)(const char *name, void *old, size_t *old_bytes, void *set,
                   size_t);      /* jemalloc */
    void (*collect)(bool force); /* mimalloc */
    int (*trim)(size_t padding); /* glibc */
};

void release_find(struct release *release);

/* Only with means. */
void release_call(const struct release *release);

#endif
