/* sweep/kept - which results of earlier plans still hold, when a plan has other entries than before.
 *
 *   DIR/groups     a line a task, words with a tab between them: KEY ID ENTRY ENTRY ...
 *
 * A key is a checksum of all that a result depends on but the entries. A result of the same key whose
 * entries are all wanted is kept, and the other entries are compared in tasks of their own: they are
 * joined through the recorded allocator, which each result has. */
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
    size_t read; /* those from here on are not in the file yet */
};

/* Of the file at `path`, which need not be there. False: no memory. */
bool kept_read(struct kept *kept, const char *path);
void kept_free(struct kept *kept);

/* One more, unless it is there: entries of the row, by their indexes. False: no memory. */
bool kept_add(struct kept *kept, uint32_t key, const char *id, const struct plan_row *row,
              const size_t *entries, size_t count);

/* Adds those that are new to the file. False: see errno. */
bool kept_write(struct kept *kept, const char *path);

/* The indexes of its entries in the row, to be freed. NULL: some are not in the row, or among those
 * that are taken. */
size_t *kept_indexes(const struct kept_group *group, const struct plan_row *row, const bool *taken);

/* Whether a result has an entry that is the recorded allocator. */
bool kept_has_recorded(const char *result);

#endif
