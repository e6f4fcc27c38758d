#include "symbols/code_groups.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum { SLOTS_LEAST = 1024 };

struct making {
    struct code_grouping *grouping;
    const struct stack_tally *tally;
    const struct code_names *names;
    uint32_t frames[CODE_FRAMES_MAX]; /* of the stack at hand */
    uint32_t groups[CODE_FRAMES_MAX]; /* of these, each once */
    unsigned count, groups_count;
    uint32_t stack; /* its index */
};

/* ---- groups by key ---- */

static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static size_t code_groups_slot_of(const struct code_grouping *grouping, uint64_t key)
{
    size_t at = (size_t)mix(key, 0) & (grouping->slots_count - 1);
    while (grouping->slots[at] != 0 && grouping->groups[grouping->slots[at] - 1].key != key)
        at = (at + 1) & (grouping->slots_count - 1);
    return at;
}

static bool code_groups_slots_grow(struct code_grouping *grouping)
{
    uint32_t *old = grouping->slots;
    const size_t count = old == NULL ? SLOTS_LEAST : 2 * grouping->slots_count;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL) return false;
    grouping->slots = slots;
    grouping->slots_count = count;
    for (size_t i = 0; i < grouping->count; i++)
        slots[code_groups_slot_of(grouping, grouping->groups[i].key)] = (uint32_t)i + 1;
    free(old);
    return true;
}

/* The number of the group with this key; NONE: no memory. Keys are 64-bit hashes: with a million of
 * them, two collide in one of 37 million reports. */
static uint32_t group_of_key(struct making *making, uint64_t key, const struct code_frame *frame)
{
    struct code_grouping *grouping = making->grouping;
    if ((grouping->count + 1) * 2 > grouping->slots_count && !code_groups_slots_grow(grouping))
        return CODE_GROUP_NONE;
    uint32_t *slot = &grouping->slots[code_groups_slot_of(grouping, key)];
    if (*slot != 0) return *slot - 1;
    if (!array_reserve(&grouping->groups, &grouping->room, grouping->count + 1,
                       sizeof *grouping->groups))
        return CODE_GROUP_NONE;
    grouping->groups[grouping->count] =
        (struct code_group){.key = key, .frame = *frame, .stack = making->stack};
    *slot = (uint32_t)++grouping->count;
    return *slot - 1;
}

/* ---- what a stack belongs to ---- */

/* A frame of a stack: of `at`, which says where it is in names->frames, or of `frames`. */
struct own_frames {
    const struct code_names *names;
    const uint32_t *at; /* NULL: `frames` */
    const struct code_frame *frames;
    unsigned count;
};

static const struct code_frame *own_candidate(const struct own_frames *of, unsigned i)
{
    return of->at != NULL ? &of->names->frames[of->at[i]] : &of->frames[i];
}

/* Where functions with a language are, what is native of their interpreter works for them, and libc
 * outside of them has only begun the thread. */
static unsigned own_among(const struct own_frames *of)
{
    unsigned first = 0;
    while (first < of->count && own_candidate(of, first)->language == 0)
        first++;
    for (unsigned i = 0; i < of->count; i++) {
        const struct code_frame *frame = own_candidate(of, i);
        const bool works_for_it =
            first < of->count && (frame->is_of_interpreter || (i > first && frame->is_of_libc));
        if (!frame->is_library && !works_for_it && frame->code != 0) return i;
    }
    return first < of->count ? first : 0;
}

unsigned code_groups_own(const struct code_frame *frames, unsigned count)
{
    return own_among(&(struct own_frames){.frames = frames, .count = count});
}

unsigned code_groups_with_source(const struct code_names *names, const uint32_t *at, unsigned count)
{
    const struct own_frames of = {.names = names, .at = at, .count = count};
    const unsigned own = own_among(&of);
    unsigned i = own;
    while (i < count && i <= own + CODE_LIBRARY_DEPTH && own_candidate(&of, i)->file == 0)
        i++;
    const struct code_frame *caller = i < count ? own_candidate(&of, i) : NULL;
    const bool is_called = caller != NULL && caller->file != 0 && !caller->is_library &&
                           !caller->is_of_libc; /* which has only begun the program */
    return is_called ? i : own;
}

/* 0: nothing is known of the stack. */
static uint64_t key_of_frame(const struct making *making, const struct code_frame *frame)
{
    if (frame->code == 0 && frame->function == 0) return 0;
    switch (making->grouping->by) {
    case CODE_BY_LINE: return mix(mix(mix(1, frame->function), frame->file), frame->line);
    case CODE_BY_FILE:
        return frame->file != 0 ? 1 + (uint64_t)frame->file : UINT64_MAX - frame->module;
    case CODE_BY_MODULE: return 1 + (uint64_t)frame->module;
    default:
        if (frame->language != 0) return mix(mix(2, frame->function), frame->file);
        return 1 + (uint64_t)frame->function;
    }
}

static const struct code_frame *frame_at(const struct making *making, unsigned i)
{
    return &making->names->frames[making->frames[i]];
}

/* The group of a frame of the stack; NONE: no memory. */
static uint32_t group_of_frame(struct making *making, unsigned i)
{
    uint32_t *known = &making->grouping->of_frame[making->frames[i]];
    if (*known == 0) {
        const struct code_frame *frame = frame_at(making, i);
        *known = group_of_key(making, key_of_frame(making, frame), frame) + 1;
    }
    return *known - 1;
}

/* The frame that allocates. */
static unsigned own_frame(const struct making *making)
{
    return own_among(
        &(struct own_frames){.names = making->names, .at = making->frames, .count = making->count});
}

static uint64_t key_of_stack(const struct making *making, unsigned first)
{
    const unsigned depth = making->grouping->depth;
    uint64_t key = 1;
    for (unsigned i = first; i < making->count && (depth == 0 || i < first + depth); i++)
        key = mix(mix(key, frame_at(making, i)->function), frame_at(making, i)->line);
    return key;
}

/* ---- focus ---- */

enum { IS_MATCHED = 1, IS_FOCUSED = 2, IS_IGNORED = 4 };

static bool frame_fits(const struct making *making, const regex_t *regex,
                       const struct code_frame *frame)
{
    return regex != NULL &&
           (regexec(regex, code_names_text(making->names, frame->function), 0, NULL, 0) == 0 ||
            regexec(regex, code_names_text(making->names, frame->file), 0, NULL, 0) == 0);
}

/* Which of the two expressions match a frame; each is asked once. */
static unsigned matches_of(const struct making *making, unsigned i)
{
    const struct code_grouping *grouping = making->grouping;
    uint8_t *known = &grouping->matches[making->frames[i]];
    if (*known == 0) {
        const struct code_frame *frame = frame_at(making, i);
        *known =
            (uint8_t)(IS_MATCHED | (frame_fits(making, grouping->focus, frame) ? IS_FOCUSED : 0) |
                      (frame_fits(making, grouping->ignore, frame) ? IS_IGNORED : 0));
    }
    return *known;
}

static bool is_in_focus(const struct making *making)
{
    const struct code_grouping *grouping = making->grouping;
    unsigned matches = 0;
    if (grouping->focus == NULL && grouping->ignore == NULL) return true;
    for (unsigned i = 0; i < making->count; i++)
        matches |= matches_of(making, i);
    return (grouping->focus == NULL || (matches & IS_FOCUSED) != 0) && (matches & IS_IGNORED) == 0;
}

/* ---- stacks ---- */

/* Lists the groups of the frames, each once. False: no memory. */
static bool list_groups(struct making *making)
{
    struct code_grouping *grouping = making->grouping;
    making->groups_count = 0;
    for (unsigned i = 0; i < making->count; i++) {
        if (frame_at(making, i)->code == 0) continue; /* CODE_NAMES_CUT */
        const uint32_t group = group_of_frame(making, i);
        if (group == CODE_GROUP_NONE) return false;
        if (grouping->groups[group].counted == making->stack + 1) continue;
        grouping->groups[group].counted = making->stack + 1;
        making->groups[making->groups_count++] = group;
    }
    return true;
}

/* False: no memory. */
static bool put_totals(struct making *making)
{
    struct code_grouping *grouping = making->grouping;
    const size_t count = grouping->total_count + making->groups_count;
    if (!array_reserve(&grouping->total_groups, &grouping->total_room, count,
                       sizeof *grouping->total_groups))
        return false;
    for (unsigned i = 0; i < making->groups_count; i++)
        grouping->total_groups[grouping->total_count++] = making->groups[i];
    return true;
}

/* The group of the stack itself; NONE: no memory. */
static uint32_t group_itself(struct making *making)
{
    static const struct code_frame unknown;
    const unsigned own = own_frame(making);
    if (making->count == 0) return group_of_key(making, 0, &unknown);
    if (making->grouping->by == CODE_BY_STACK)
        return group_of_key(making, key_of_stack(making, own), frame_at(making, own));
    return group_of_frame(making, own);
}

static void take_frames(struct making *making)
{
    const uint32_t node = making->tally->stacks[making->stack];
    making->count = code_names_walk(making->names, node, making->frames);
}

static bool code_groups_add_stack(struct making *making)
{
    struct code_grouping *grouping = making->grouping;
    const uint32_t stack = making->stack;
    uint32_t self = grouping->self_first[stack];
    bool good = true;
    take_frames(making);
    if (is_in_focus(making)) {
        const uint32_t group = group_itself(making);
        grouping->self_groups[self++] = group;
        good = group != CODE_GROUP_NONE;
        const bool is_listed = grouping->listed != NULL && grouping->listed[stack] != 0;
        if (good && grouping->by < CODE_BY_STACK && (is_listed || grouping->take != NULL))
            good = list_groups(making) && (!is_listed || put_totals(making)) &&
                   (grouping->take == NULL ||
                    grouping->take(grouping->take_of, stack, making->groups, making->groups_count));
    } else {
        grouping->left_out++;
    }
    grouping->self_first[stack + 1] = self;
    grouping->total_first[stack + 1] = (uint32_t)grouping->total_count;
    return good;
}

bool code_groups_make(struct code_grouping *grouping, const struct stack_tally *tally,
                      const struct code_names *names)
{
    struct making making = {.grouping = grouping, .tally = tally, .names = names};
    const size_t stacks = tally->stacks_count;
    grouping->self_first = calloc(stacks + 1, sizeof(uint32_t));
    grouping->total_first = calloc(stacks + 1, sizeof(uint32_t));
    grouping->self_groups = calloc(stacks + 1, sizeof(uint32_t));
    grouping->of_frame = calloc(names->count + 1, sizeof(uint32_t));
    grouping->matches = calloc(names->count + 1, 1);
    bool good = grouping->self_first != NULL && grouping->total_first != NULL &&
                grouping->self_groups != NULL && grouping->of_frame != NULL &&
                grouping->matches != NULL;
    for (; making.stack < stacks && good; making.stack++)
        good = code_groups_add_stack(&making);
    grouping->self =
        (struct stack_groups){grouping->self_first, grouping->self_groups, grouping->count};
    grouping->total =
        (struct stack_groups){grouping->total_first, grouping->total_groups, grouping->count};
    return good;
}

bool code_groups_walk(struct code_grouping *grouping, const struct stack_tally *tally,
                      const struct code_names *names, code_groups_take *take, void *of)
{
    struct making making = {.grouping = grouping, .tally = tally, .names = names};
    for (size_t i = 0; i < grouping->count; i++)
        grouping->groups[i].counted = 0;
    for (; making.stack < tally->stacks_count; making.stack++) {
        if (code_groups_itself(grouping, making.stack) == CODE_GROUP_NONE) continue;
        take_frames(&making);
        if (!list_groups(&making) || !take(of, making.stack, making.groups, making.groups_count))
            return false;
    }
    return true;
}

void code_groups_free(struct code_grouping *grouping)
{
    free(grouping->groups);
    free(grouping->slots);
    free(grouping->of_frame);
    free(grouping->matches);
    free(grouping->self_first);
    free(grouping->total_first);
    free(grouping->self_groups);
    free(grouping->total_groups);
    grouping->groups = NULL;
    grouping->slots = NULL;
    grouping->of_frame = NULL;
    grouping->matches = NULL;
    grouping->self_first = grouping->total_first = NULL;
    grouping->self_groups = grouping->total_groups = NULL;
}
