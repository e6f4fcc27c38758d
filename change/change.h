/* change - what a program would do if its code were changed: a text becomes changes.
 *
 *   WHAT-IF   CHANGE; CHANGE; ...           of each object, the first that matches it counts
 *   CHANGE    PATTERN: ACTION
 *   PATTERN   [NAME [> NAME ...] [itself]] [of SIZE[-SIZE]]
 *   ACTION    remove[=SHARE%]               they are not needed, and neither is what frees them
 *             size=-N, size=+N, size=xF, size=N
 *             until=60s, until=1000calls, until=1000objects, until=64MiB
 *                                           freed that much later than made, not when they were
 *             reserve                       one that grows is made with its last size at once
 *             shared=SHARE%                 so many are equal to the latest one of their size and
 *                                           stack that is alive, and are that one
 *             pool, pool=64KiB              those of a size lie in chunks, with a list of free ones
 *             arena, arena=64KiB            those of a call, or thread, lie in chunks, which are given
 *                                           back when the last of them ends (change_chunks.h)
 *             separate, separate=64KiB      they lie in a heap of their own (change_chunks.h)
 *
 * NAME is a function, file:line, file or module; of a name with parts, the last ones are enough
 * (insert, Cache::insert; of Python app.insert), without the arguments of templates, and * stands for
 * any characters. A pattern matches the stacks that have NAME in any place, and with several NAMEs in
 * this order, the outermost first. With "itself" the last one is the function that allocates
 * (symbols/code_groups.h). Memory: from malloc(). */
#ifndef MALLOCTAPE_CHANGE_CHANGE_H
#define MALLOCTAPE_CHANGE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CHANGES_MAX = 16, CHANGE_NAMES_MAX = 8 };

struct change_pattern {
    char *names[CHANGE_NAMES_MAX]; /* outermost first */
    unsigned names_count;          /* 0: all code */
    bool itself;
    uint64_t least, most; /* the size of an object when it is made */
};

enum change_action {
    CHANGE_REMOVE,
    CHANGE_SIZE,
    CHANGE_UNTIL,
    CHANGE_RESERVE,
    CHANGE_SHARED,
    CHANGE_POOL, /* from here on: in chunks */
    CHANGE_ARENA,
    CHANGE_SEPARATE
};

/* What `until` counts. Objects and bytes: those made by the code of the pattern. */
enum change_unit { CHANGE_NS, CHANGE_CALLS, CHANGE_OBJECTS, CHANGE_BYTES };

struct change {
    char *text; /* as it was given */
    struct change_pattern pattern;
    enum change_action action;
    double share;          /* remove, shared: of the objects, up to 1 */
    double times;          /* size: a factor, and */
    int64_t more;          /* what is added then */
    enum change_unit unit; /* until */
    uint64_t limit;        /* until; in chunks: bytes of one */
    bool has_limit;        /* in chunks: it was given */
};

/* Whether each call of a function has an arena of its own. */
static inline bool change_is_by_call(const struct change *change)
{
    return change->action == CHANGE_ARENA && change->pattern.names_count > 0 &&
           !change->pattern.itself;
}

struct change_list {
    char *text; /* all of it */
    struct change at[CHANGES_MAX];
    size_t count;
};

/* False: `why` says what is wrong. To be freed in either case. */
bool change_list_parse(struct change_list *list, const char *text, char *why, size_t why_bytes);
void change_list_free(struct change_list *list);

/* Whether one of them puts objects into chunks. */
static inline bool change_list_makes_chunks(const struct change_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].action >= CHANGE_POOL) return true;
    return false;
}

/* The size that a change of sizes makes of one; *is_clamped: it would be less than 0. */
uint64_t change_size(const struct change *change, uint64_t size, bool *is_clamped);

#ifdef __cplusplus
}
#endif
#endif
