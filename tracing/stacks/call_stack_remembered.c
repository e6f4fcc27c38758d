#include "tracing/stacks/call_stack_own.h"

#include <string.h>

static bool call_stack_is_plain(struct unwind_rule rule)
{
    return (rule.how == UNWIND_SP || rule.how == UNWIND_BP) && !rule.bp_at_bp;
}

static bool needs_bp(struct unwind_rule rule, bool caller_needs_bp)
{
    if (rule.how == UNWIND_OUTERMOST || rule.how == UNWIND_UNKNOWN) return false;
    return !call_stack_is_plain(rule) || rule.how == UNWIND_BP || (caller_needs_bp && !rule.bp);
}

static enum check call_stack_check_of(const struct frame *frame, bool caller_needs_bp)
{
    const struct unwind_rule rule = frame->rule;
    /* The other things that a guess checks are properties of the code. */
    if (!(call_stack_is_plain(rule) || unwind_is_guess(rule)) || frame[1].at.sp % 8 != 0)
        return CHECK_BY_RULE;
    return caller_needs_bp && rule.bp ? CHECK_RETURN_AND_BP : CHECK_RETURN;
}

uint32_t call_stack_make_room(struct stack_walk *walk, uint32_t at)
{
    const uint32_t all = REMEMBERED_MAX - at, half = REMEMBERED_MAX / 2;
    const uint32_t count = all < half ? all : half, to = REMEMBERED_MAX - count;
    memmove(&walk->frame[to], &walk->frame[at], count * sizeof *walk->frame);
    memmove(&walk->check[to], &walk->check[at], count * sizeof *walk->check);
    memmove(&walk->needs_bp[to], &walk->needs_bp[at], count * sizeof *walk->needs_bp);
    memmove(&walk->code[to], &walk->code[at], count * sizeof *walk->code);
    memmove(&walk->hash[to], &walk->hash[at], count * sizeof *walk->hash);
    return to;
}

void call_stack_note_checks(struct stack_walk *walk, uint32_t first, uint32_t end)
{
    for (uint32_t i = end; i > first; i--) {
        const struct frame *frame = &walk->frame[i - 1];
        walk->check[i - 1] = call_stack_check_of(frame, walk->needs_bp[i]);
        walk->needs_bp[i - 1] = needs_bp(frame->rule, walk->needs_bp[i]);
    }
}

void call_stack_hash_frames(struct stack_walk *walk, uint32_t first, uint32_t end,
                            uint64_t of_caller)
{
    for (uint32_t i = end; i > first; i--) {
        if (walk->code[i - 1]) of_caller = stack_table_hash(of_caller, walk->code[i - 1]);
        walk->hash[i - 1] = of_caller;
    }
}

/* ---- the nodes ---- */

/* Goes along the path as far as the stack has the same codes, from the outermost one on, and then
 * as far as nodes are known, which it puts there. Returns how many codes, from the innermost one
 * on, are left. */
static uint32_t path_follow(struct stack_path *path, const uint32_t *codes, uint32_t count)
{
    uint32_t known = 0;
    while (count > 0 &&
           (!codes[count - 1] || (known < path->count && path->code[known] == codes[count - 1])))
        known += codes[--count] != 0;
    path->count = known;
    for (; count > 0; count--) {
        const uint32_t code = codes[count - 1];
        if (!code) continue;
        const uint32_t parent = path->count ? path->node[path->count - 1] : path->how;
        const uint32_t child = stack_table_child(parent, code);
        if (!child) break;
        path->code[path->count] = code;
        path->node[path->count++] = child;
    }
    return count;
}

/* For a stack that is not known: defines the inner nodes that are not. Returns the innermost. */
static uint32_t call_stack_define_nodes(struct malloctape_lane *lane, struct stack_walk *walk,
                                        const uint32_t *codes, uint32_t count, enum stack_end how)
{
    struct stack_path *path = &walk->path;
    if (path->how != how) path->count = 0;
    path->how = how;
    count = path_follow(path, codes, count);
    const uint32_t known = path->count, parent = known ? path->node[known - 1] : how;
    uint32_t end = known;
    for (; count > 0; count--)
        if (codes[count - 1]) path->code[end++] = codes[count - 1];
    if (end == known) return parent;
    const uint32_t node = stack_table_define(lane, parent, end - known, &path->code[known]);
    if (!node) return 0;
    for (uint32_t i = known; i < end; i++)
        path->node[i] = node - (end - 1 - i);
    path->count = end;
    return node;
}

uint32_t call_stack_node_of(struct malloctape_lane *lane, struct stack_walk *walk,
                            const uint32_t *codes, const uint64_t *hashes, uint32_t count,
                            enum stack_end how)
{
    if (count == 0) return 0;
    uint32_t node = stack_table_of_call(hashes[0]);
    if (node) return node;
    node = call_stack_define_nodes(lane, walk, codes, count, how);
    if (node) stack_table_call(hashes[0], node);
    return node;
}
