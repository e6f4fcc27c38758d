#include "symbols/code_tree.h"

#include <stdlib.h>

#include "common/array.h"

enum { SLOTS_LEAST = 1024 };

struct planting {
    struct code_tree *tree;
    const struct code_names *names;
    uint32_t *paths; /* by node: its branch, plus 1; 0: not made yet */
    uint32_t *chain; /* of nodes whose branches are being made */
    size_t chain_room;
};

/* ---- branches ---- */

static size_t branch_slot(const struct code_tree *tree, uint32_t parent, uint32_t function)
{
    const uint64_t key = ((uint64_t)parent << 32 | function) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(key >> 32) & (tree->slots_count - 1);
    while (tree->slots[at] != 0) {
        const struct code_branch *branch = &tree->branches[tree->slots[at] - 1];
        if (branch->parent == parent && branch->function == function) break;
        at = (at + 1) & (tree->slots_count - 1);
    }
    return at;
}

static bool branch_slots_grow(struct code_tree *tree)
{
    const size_t count = tree->slots == NULL ? SLOTS_LEAST : 2 * tree->slots_count;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL) return false;
    free(tree->slots);
    tree->slots = slots;
    tree->slots_count = count;
    for (size_t i = 0; i < tree->count; i++)
        slots[branch_slot(tree, tree->branches[i].parent, tree->branches[i].function)] =
            (uint32_t)i + 1;
    return true;
}

/* The branch of a function that `parent` calls; NONE: no memory. */
static uint32_t branch_called(struct code_tree *tree, uint32_t parent,
                              const struct code_frame *frame, uint32_t function)
{
    const uint32_t depth = parent != CODE_BRANCH_NONE ? tree->branches[parent].depth + 1 : 0;
    if (depth == CODE_FRAMES_MAX) return parent;
    if ((tree->count + 1) * 4 > tree->slots_count * 3 && !branch_slots_grow(tree))
        return CODE_BRANCH_NONE;
    uint32_t *slot = &tree->slots[branch_slot(tree, parent, function)];
    if (*slot != 0) return *slot - 1;
    if (!array_reserve(&tree->branches, &tree->room, tree->count + 1, sizeof *tree->branches))
        return CODE_BRANCH_NONE;
    tree->branches[tree->count] =
        (struct code_branch){function, parent, depth, frame->language != 0};
    *slot = (uint32_t)++tree->count;
    return *slot - 1;
}

/* Goes on to the innermost of the frames from `first` to `count`. False: no memory. */
static bool branch_go_on(struct planting *planting, const struct code_frame *frames, unsigned first,
                         unsigned count, uint32_t *branch)
{
    for (unsigned i = count; i-- > first;) {
        const uint32_t *name_of = planting->tree->name_of;
        *branch = branch_called(planting->tree, *branch, &frames[i],
                                name_of != NULL ? name_of[&frames[i] - planting->names->frames]
                                                : frames[i].function);
        if (*branch == CODE_BRANCH_NONE) return false;
    }
    return true;
}

/* ---- stacks ---- */

/* Sets *branch to that of a node, with all its frames and those outside of it; NONE: it has none.
 * Each node is looked at once. False: no memory. */
static bool branch_of_node(struct planting *planting, uint32_t node, uint32_t *branch)
{
    const struct stacks *stacks = planting->names->stacks;
    const struct code_frame *const cut = planting->names->frames, *frames;
    const struct stack_node *entry;
    size_t count = 0;
    for (; (entry = stacks_node(stacks, node)) != NULL && planting->paths[node] == 0;
         node = entry->parent) {
        if (code_names_of_code(planting->names, entry->code, &frames) == 0) break;
        if (!array_reserve(&planting->chain, &planting->chain_room, count + 1, sizeof node))
            return false;
        planting->chain[count++] = node;
    }
    *branch = CODE_BRANCH_NONE;
    if (entry != NULL && planting->paths[node] != 0)
        *branch = planting->paths[node] - 1;
    else if (node != STACK_END && !branch_go_on(planting, cut, 0, 1, branch))
        return false;
    while (count-- > 0) {
        const uint32_t inner = planting->chain[count];
        const unsigned all = code_names_of_code(planting->names, stacks->node[inner].code, &frames);
        if (!branch_go_on(planting, frames, 0, all, branch)) return false;
        planting->paths[inner] = *branch + 1;
    }
    return true;
}

/* The same where what is shown of a node depends on what it calls. */
static uint32_t branch_of_mixed(struct planting *planting, uint32_t stack)
{
    static const struct code_frame unknown;
    uint32_t at[CODE_FRAMES_MAX], branch = CODE_BRANCH_NONE;
    const unsigned count = code_names_walk(planting->names, stack, at);
    if (count == 0) return branch_called(planting->tree, branch, &unknown, 0);
    for (unsigned i = count; i-- > 0;)
        if (!branch_go_on(planting, &planting->names->frames[at[i]], 0, 1, &branch)) break;
    return branch;
}

/* The branch of a stack; NONE: no memory. */
static uint32_t branch_of_stack(struct planting *planting, uint32_t stack)
{
    static const struct code_frame unknown;
    if (planting->names->has_languages) return branch_of_mixed(planting, stack);
    const struct code_names *names = planting->names;
    const uint32_t node = code_names_caller(names, stack);
    const struct stack_node *entry = stacks_node(names->stacks, node);
    const struct code_frame *frames;
    const unsigned count = entry != NULL ? code_names_of_code(names, entry->code, &frames) : 0;
    unsigned first = 0;
    uint32_t branch = CODE_BRANCH_NONE;
    if (count == 0) return branch_called(planting->tree, branch, &unknown, 0);
    while (first + 1 < count && frames[first].allocates)
        first++;
    const bool good = branch_of_node(planting, entry->parent, &branch) &&
                      branch_go_on(planting, frames, first, count, &branch);
    return good ? branch : CODE_BRANCH_NONE;
}

bool code_tree_make(struct code_tree *tree, const struct code_grouping *focus,
                    const struct stack_tally *tally, const struct code_names *names)
{
    struct planting planting = {.tree = tree, .names = names};
    planting.paths = calloc(names->stacks->nodes_end + 1, sizeof *planting.paths);
    tree->of = calloc(tally->stacks_count + 1, sizeof *tree->of);
    bool good = planting.paths != NULL && tree->of != NULL;
    for (uint32_t i = 0; good && i < tally->stacks_count; i++) {
        tree->of[i] = CODE_BRANCH_NONE;
        if (focus != NULL && code_groups_itself(focus, i) == CODE_GROUP_NONE) continue;
        tree->of[i] = branch_of_stack(&planting, tally->stacks[i]);
        good = tree->of[i] != CODE_BRANCH_NONE;
    }
    free(planting.paths);
    free(planting.chain);
    free(tree->slots);
    tree->slots = NULL;
    return good;
}

void code_tree_free(struct code_tree *tree)
{
    free(tree->branches);
    free(tree->of);
    free(tree->slots);
    *tree = (struct code_tree){.count = 0};
}
