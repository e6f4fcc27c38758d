/* groups - sites of a survey (survey.h) put together by function.
 *
 *   GROUP_OWN      the function allocates:                        'F itself'
 *   GROUP_CALLED   the same, called by another function:          'C > F itself'
 *   GROUP_WITHIN   the function, or one that it calls, directly or not, allocates:  'W'
 *
 * The unit of a site is the code that a change would concern: its group of GROUP_OWN, or if functions
 * share that (it may be a wrapper of malloc), its group of GROUP_CALLED.
 *
 * Memory: 300 bytes a group, and 48 in an index. One thread. */
#ifndef MALLOCTAPE_ADVISE_GROUPS_H
#define MALLOCTAPE_ADVISE_GROUPS_H

#include "advise/survey.h"
#include "change/change_index.h"

enum group_kind { GROUP_OWN, GROUP_CALLED, GROUP_WITHIN };

/* What most objects of a group have: how many have it at least. */
struct group_most {
    uint64_t value, same;
};

struct advise_group {
    enum group_kind kind;
    uint32_t caller, function; /* texts of code_names; caller: 0 but for GROUP_CALLED */
    uint64_t made, bytes, freed, soon, in_rows, grown_objects, grown_bytes, late;
    struct live live;
    struct group_most size, before; /* before: a unit, see below */
    uint32_t own;                   /* GROUP_CALLED: that of GROUP_OWN */
    uint32_t callers;               /* GROUP_OWN: groups of GROUP_CALLED with this function */
    uint32_t owners;                /* GROUP_WITHIN: functions that allocate in it */
    uint32_t latest;                /* groups.c only: the site counted last, and one more */
    uint32_t latest_own;
};

struct groups {
    struct advise_group *at;
    size_t count, room;
    uint64_t made; /* objects of all */

    /* From here on: groups.c only. */
    struct change_index index;
    uint32_t *own, *called; /* by site: its group of GROUP_OWN, of GROUP_CALLED; SURVEY_NONE */
    struct code_frame *frames;
};

/* Whether the group is the unit of its sites. */
static inline bool group_is_unit(const struct groups *groups, const struct advise_group *group)
{
    if (group->kind == GROUP_OWN) return group->callers < 2;
    return group->kind == GROUP_CALLED && groups->at[group->own].callers >= 2;
}

/* False: no memory. */
bool groups_make(struct groups *groups, const struct survey *survey,
                 const struct code_names *names);
void groups_free(struct groups *groups);

#endif
