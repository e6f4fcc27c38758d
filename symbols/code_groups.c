#include "symbols/code_groups.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum { SLOTS_LEAST = 1024 };

struct making {
    struct code_grouping *grouping;
    const struct stack_tally *tally;
    const struct code_names *names;
    struct code_frame *frames; /* of the stack at hand */
    unsigned count;
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
static uint32_t group_of_frame(struct making *making, uint64_t key, const struct code_frame *frame,
                               uint32_t parent)
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
        (struct code_group){.key = key, .frame = *frame, .stack = making->stack, .parent = parent};
    if (parent != CODE_GROUP_NONE)
        grouping->groups[grouping->count].depth = grouping->groups[parent].depth + 1;
    *slot = (uint32_t)++grouping->count;
    return *slot - 1;
}

/* ---- what a stack belongs to ---- */

unsigned code_groups_own(const struct code_frame *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!frames[i].is_library && frames[i].code != 0) return i;
    return 0;
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
    default: return 1 + (uint64_t)frame->function;
    }
}

static uint64_t key_of_stack(const struct making *making, unsigned first)
{
    const unsigned depth = making->grouping->depth;
    uint64_t key = 1;
    for (unsigned i = first; i < making->count && (depth == 0 || i < first + depth); i++)
        key = mix(mix(key, making->frames[i].function), making->frames[i].line);
    return key;
}

static bool code_groups_fits(const struct making *making, const regex_t *regex, uint32_t text)
{
    return regexec(regex, code_names_text(making->names, text), 0, NULL, 0) == 0;
}

/* Whether a frame matches. */
static bool has_match(const struct making *making, const regex_t *regex)
{
    for (unsigned i = 0; i < making->count; i++)
        if (code_groups_fits(making, regex, making->frames[i].function) ||
            code_groups_fits(making, regex, making->frames[i].file))
            return true;
    return false;
}

static bool is_in_focus(const struct making *making)
{
    const regex_t *focus = making->grouping->focus, *ignore = making->grouping->ignore;
    return (focus == NULL || has_match(making, focus)) &&
           (ignore == NULL || !has_match(making, ignore));
}

/* ---- lists ---- */

/* False: no memory. */
static bool add_total(struct making *making, uint32_t group)
{
    struct code_grouping *grouping = making->grouping;
    if (group == CODE_GROUP_NONE) return false;
    if (grouping->groups[group].counted == making->stack + 1) return true;
    grouping->groups[group].counted = making->stack + 1;
    if (!array_reserve(&grouping->total_groups, &grouping->total_room, grouping->total_count + 1,
                       sizeof *grouping->total_groups))
        return false;
    grouping->total_groups[grouping->total_count++] = group;
    return true;
}

static bool add_totals(struct making *making)
{
    bool good = true;
    for (unsigned i = 0; i < making->count && good; i++)
        if (making->frames[i].code != 0) /* 0: CODE_NAMES_CUT */
            good =
                add_total(making, group_of_frame(making, key_of_frame(making, &making->frames[i]),
                                                 &making->frames[i], CODE_GROUP_NONE));
    return good;
}

/* ---- the tree ---- */

/* The group of a function that `parent` calls; NONE: no memory. */
static uint32_t called_by(struct making *making, uint32_t parent, const struct code_frame *frame)
{
    const struct code_group *groups = making->grouping->groups;
    if (parent != CODE_GROUP_NONE && groups[parent].depth + 1 == CODE_FRAMES_MAX) return parent;
    const uint64_t key = parent != CODE_GROUP_NONE ? groups[parent].key : 1;
    return group_of_frame(making, mix(key, frame->function), frame, parent);
}

/* The group of the innermost of the frames from `first` to `count`, called by `parent`. */
static bool call_frames(struct making *making, const struct code_frame *frames, unsigned first,
                        unsigned count, uint32_t *parent)
{
    for (unsigned i = count; i-- > first;) {
        *parent = called_by(making, *parent, &frames[i]);
        if (*parent == CODE_GROUP_NONE) return false;
    }
    return true;
}

/* Sets *group to that of a node, with all its frames and those outside of it; NONE: it has none.
 * Each node is looked at once. False: no memory. */
static bool code_groups_path_of(struct making *making, uint32_t node, uint32_t *group)
{
    struct code_grouping *grouping = making->grouping;
    const struct stacks *stacks = making->names->stacks;
    const struct code_frame cut = {.function = making->names->cut}, *frames;
    const struct stack_node *entry;
    size_t count = 0;
    for (; (entry = stacks_node(stacks, node)) != NULL && grouping->paths[node] == 0;
         node = entry->parent) {
        if (code_names_of_code(making->names, entry->code, &frames) == 0) break;
        if (!array_reserve(&grouping->chain, &grouping->chain_room, count + 1, sizeof node))
            return false;
        grouping->chain[count++] = node;
    }
    *group = CODE_GROUP_NONE;
    if (entry != NULL && grouping->paths[node] != 0)
        *group = grouping->paths[node] - 1;
    else if (node != STACK_END && !call_frames(making, &cut, 0, 1, group))
        return false;
    while (count-- > 0) {
        const uint32_t inner = grouping->chain[count];
        const unsigned all = code_names_of_code(making->names, stacks->node[inner].code, &frames);
        if (!call_frames(making, frames, 0, all, group)) return false;
        grouping->paths[inner] = *group + 1;
    }
    return true;
}

/* Makes the groups of a stack in the tree, from the outside in; returns the innermost. NONE: no
 * memory. */
static uint32_t tree_of(struct making *making)
{
    const struct code_names *names = making->names;
    const uint32_t node = code_names_caller(names, making->tally->stacks[making->stack]);
    const struct stack_node *entry = stacks_node(names->stacks, node);
    const struct code_frame *frames;
    const unsigned count = entry != NULL ? code_names_of_code(names, entry->code, &frames) : 0;
    unsigned first = 0;
    uint32_t group = CODE_GROUP_NONE;
    if (count == 0) return called_by(making, group, &making->frames[0]);
    while (first + 1 < count && frames[first].allocates)
        first++;
    const bool good = code_groups_path_of(making, entry->parent, &group) &&
                      call_frames(making, frames, first, count, &group);
    return good ? group : CODE_GROUP_NONE;
}

/* The group of the stack itself; NONE: no memory. */
static uint32_t group_itself(struct making *making)
{
    const unsigned own = code_groups_own(making->frames, making->count);
    const struct code_frame *frame = &making->frames[own];
    switch (making->grouping->by) {
    case CODE_BY_TREE: return tree_of(making);
    case CODE_BY_STACK:
        return group_of_frame(making, key_of_stack(making, own), frame, CODE_GROUP_NONE);
    default: return group_of_frame(making, key_of_frame(making, frame), frame, CODE_GROUP_NONE);
    }
}

/* Gets the frames of the current stack. If nothing is known of it, it gets one frame without a
 * function. */
static void take_frames(struct making *making)
{
    making->count =
        code_names_of(making->names, making->tally->stacks[making->stack], making->frames);
    if (making->count > 0) return;
    making->frames[0] = (struct code_frame){.function = 0};
    making->count = 1;
}

static bool code_groups_add_stack(struct making *making)
{
    struct code_grouping *grouping = making->grouping;
    const uint32_t stack = making->stack;
    uint32_t self = grouping->self_first[stack];
    bool good = true;
    take_frames(making);
    if (is_in_focus(making)) {
        grouping->self_groups[self] = group_itself(making);
        good = grouping->self_groups[self++] != CODE_GROUP_NONE;
        if (grouping->by < CODE_BY_STACK) good = good && add_totals(making);
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
    making.frames = calloc(CODE_FRAMES_MAX, sizeof *making.frames);
    grouping->self_first = calloc(stacks + 1, sizeof(uint32_t));
    grouping->total_first = calloc(stacks + 1, sizeof(uint32_t));
    grouping->self_groups = calloc(stacks + 1, sizeof(uint32_t));
    if (grouping->by == CODE_BY_TREE)
        grouping->paths = calloc(names->stacks->nodes_end + 1, sizeof(uint32_t));
    bool good = making.frames != NULL && grouping->self_first != NULL &&
                (grouping->paths != NULL || grouping->by != CODE_BY_TREE) &&
                grouping->total_first != NULL && grouping->self_groups != NULL;
    for (; making.stack < stacks && good; making.stack++)
        good = code_groups_add_stack(&making);
    free(making.frames);
    grouping->self =
        (struct stack_groups){grouping->self_first, grouping->self_groups, grouping->count};
    grouping->total =
        (struct stack_groups){grouping->total_first, grouping->total_groups, grouping->count};
    return good;
}

void code_groups_free(struct code_grouping *grouping)
{
    free(grouping->groups);
    free(grouping->slots);
    free(grouping->paths);
    free(grouping->chain);
    free(grouping->self_first);
    free(grouping->total_first);
    free(grouping->self_groups);
    free(grouping->total_groups);
    grouping->groups = NULL;
    grouping->slots = NULL;
    grouping->paths = grouping->chain = NULL;
    grouping->chain_room = 0;
    grouping->self_first = grouping->total_first = NULL;
    grouping->self_groups = grouping->total_groups = NULL;
}
