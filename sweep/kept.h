/* sweep/kept - which results of earlier plans are still valid when the entries of a plan change.
 *
 *   DIR/groups     a line a task, words separated by tabs: KEY ID ENTRY ENTRY ...
 *
 * A key is a checksum of everything that a result depends on except the entries. A result with the
 * same key whose entries are all wanted is kept, and the other entries are compared in separate
 * tasks: they are joined through the recorded allocator, which each result has. */
#ifndef MALLOCTAPE_SWEEP_KEPT_H
#define MALLOCTAPE_SWEEP_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweep/plan.h"

struct kept_group {
    char *text; /* the words, with null bytes between them */
    const char *id;
    char **entries;
    size_t entries_count;
    uint32_t key;
};

struct kept {
    struct kept_group *groups;
    size_t count, room;
    size_t read; /* groups from this index on are not in the file yet */
};

/* Reads the file at `path`, which need not exist. False: no memory. */
bool kept_read(struct kept *kept, const char *path);
void kept_free(struct kept *kept);

/* Adds a group of entries of the row, by their indexes, unless it is there. False: no memory. */
bool kept_add(struct kept *kept, uint32_t key, const char *id, const struct plan_row *row,
              const size_t *entries, size_t count);

/* Appends new groups to the file. False: see errno. */
bool kept_write(struct kept *kept, const char *path);

/* The indexes of the group's entries in the row; the caller frees them. NULL: some are not in the
 * row, or are already taken. */
size_t *kept_indexes(const struct kept_group *group, const struct plan_row *row, const bool *taken);

/* Whether the result in this file has an entry that is the recorded allocator. */
bool kept_has_recorded(const char *result);

#endif
