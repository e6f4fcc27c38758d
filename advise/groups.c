#include "advise/groups.h"

#include <stdlib.h>

#include "common/array.h"
#include "symbols/code_groups.h"

/* The index of a group, made if need be; SURVEY_NONE: no memory. */
static uint32_t group_find(struct groups *groups, enum group_kind kind, uint32_t caller,
                           uint32_t function)
{
    uint32_t *at = change_index_of(&groups->index, (struct change_key){kind, caller, function});
    if (at == NULL) return SURVEY_NONE;
    if (*at != CHANGE_NOWHERE) return *at;
    if (!array_reserve(&groups->at, &groups->room, groups->count + 1, sizeof *groups->at))
        return SURVEY_NONE;
    groups->at[groups->count] =
        (struct advise_group){.kind = kind, .caller = caller, .function = function};
    return *at = (uint32_t)groups->count++;
}

static void group_add_most(struct group_most *most, uint64_t value, uint64_t same)
{
    if (most->value == value)
        most->same += same;
    else if (same > most->same)
        *most = (struct group_most){value, same};
}

static void group_add(struct advise_group *group, const struct survey_site *site)
{
    group->made += site->made;
    group->bytes += site->bytes;
    group->freed += site->freed;
    group->soon += site->soon;
    group->in_rows += site->in_rows;
    group->grown_objects += site->grown_objects;
    group->grown_bytes += site->grown_bytes;
    group->late += site->late;
    live_add(&group->live, &site->live);
    group_add_most(&group->size, site->size.value, site->size.same);
}

/* Adds a site to a group, unless it was counted there. False: no memory. */
static bool group_take(struct groups *groups, uint32_t at, const struct survey *survey, size_t site)
{
    if (at == SURVEY_NONE) return false;
    struct advise_group *group = &groups->at[at];
    if (group->latest == site + 1) return true;
    group->latest = (uint32_t)site + 1;
    group_add(group, &survey->sites[site]);
    return true;
}

/* The function outside of frame `own` that is another one; 0: there is none. */
static uint32_t group_caller(const struct code_frame *frames, unsigned own, unsigned count)
{
    for (unsigned i = own + 1; i < count; i++)
        if (frames[i].function != frames[own].function && frames[i].code != 0)
            return frames[i].function;
    return 0;
}

static bool groups_take_within(struct groups *groups, const struct survey *survey, size_t site,
                               unsigned own, unsigned count)
{
    for (unsigned i = own; i < count; i++) {
        if (groups->frames[i].code == 0) continue;
        const uint32_t at = group_find(groups, GROUP_WITHIN, 0, groups->frames[i].function);
        if (!group_take(groups, at, survey, site)) return false;
        struct advise_group *group = &groups->at[at];
        group->owners += group->latest_own != groups->own[site] + 1;
        group->latest_own = groups->own[site] + 1;
    }
    return true;
}

static bool groups_take_site(struct groups *groups, const struct survey *survey,
                             const struct code_names *names, size_t site)
{
    const unsigned count = code_names_of(names, survey->sites[site].node, groups->frames);
    groups->own[site] = groups->called[site] = SURVEY_NONE;
    if (count == 0) return true;
    const unsigned own = code_groups_own(groups->frames, count);
    const uint32_t function = groups->frames[own].function,
                   caller = group_caller(groups->frames, own, count);
    if (groups->frames[own].code == 0) return true;
    groups->own[site] = group_find(groups, GROUP_OWN, 0, function);
    if (!group_take(groups, groups->own[site], survey, site)) return false;
    const size_t before = groups->count;
    if (caller != 0) {
        const uint32_t called = group_find(groups, GROUP_CALLED, caller, function);
        groups->called[site] = called;
        if (!group_take(groups, called, survey, site)) return false;
        groups->at[called].own = groups->own[site];
    }
    groups->at[groups->own[site]].callers += (uint32_t)(groups->count - before);
    return groups_take_within(groups, survey, site, own, count);
}

/* SURVEY_NONE: the site has no stack. */
static uint32_t groups_unit(const struct groups *groups, uint64_t site)
{
    const uint32_t own = groups->own[site], called = groups->called[site];
    if (own == SURVEY_NONE || called == SURVEY_NONE) return own;
    return groups->at[own].callers < 2 ? own : called;
}

/* Which unit's object was made before, mostly. */
static void groups_find_before(struct groups *groups, const struct survey *survey)
{
    for (size_t i = 0; i < survey->count; i++) {
        const struct survey_majority *before = &survey->sites[i].before;
        if (before->value >= survey->count) continue;
        const uint32_t unit = groups_unit(groups, i), other = groups_unit(groups, before->value);
        if (unit != SURVEY_NONE && other != SURVEY_NONE)
            group_add_most(&groups->at[unit].before, other, before->same);
    }
}

bool groups_make(struct groups *groups, const struct survey *survey, const struct code_names *names)
{
    *groups = (struct groups){.count = 0};
    groups->own = calloc(survey->count + 1, sizeof *groups->own);
    groups->called = calloc(survey->count + 1, sizeof *groups->called);
    groups->frames = calloc(CODE_FRAMES_MAX, sizeof *groups->frames);
    bool good = groups->own != NULL && groups->called != NULL && groups->frames != NULL;
    for (size_t i = 0; good && i < survey->count; i++)
        good = groups_take_site(groups, survey, names, i);
    groups->made = survey->objects;
    if (good) groups_find_before(groups, survey);
    return good;
}

void groups_free(struct groups *groups)
{
    change_index_free(&groups->index);
    free(groups->at);
    free(groups->own);
    free(groups->called);
    free(groups->frames);
    *groups = (struct groups){.count = 0};
}
