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

/* Mostly so many are asked for, and defined. */
#define NODES_AHEAD 12u

/* For a stack that is not known: defines the inner nodes that are not. Returns the innermost. */
static uint32_t call_stack_define_nodes(struct malloctape_lane *lane, struct stack_walk *walk,
                                        const uint32_t *codes, const uint64_t *hashes,
                                        uint32_t count, enum stack_end how)
{
    uint32_t known = 0, parent = how, missing = 0;
    for (uint32_t i = 0; i < count && i < NODES_AHEAD; i++)
        stack_table_will_ask_node(hashes[i]);
    while (known < count && !(parent = stack_table_node(hashes[known])))
        known++;
    if (known == count) parent = how;
    for (uint32_t i = known; i > 0; i--) {
        if (!codes[i - 1]) continue;
        walk->missing_codes[missing] = codes[i - 1];
        walk->missing_hashes[missing++] = hashes[i - 1];
    }
    return missing ? stack_table_define(lane, parent, missing, walk->missing_codes,
                                        walk->missing_hashes)
                   : parent;
}

uint32_t call_stack_node_of(struct malloctape_lane *lane, struct stack_walk *walk,
                            const uint32_t *codes, const uint64_t *hashes, uint32_t count,
                            enum stack_end how)
{
    if (count == 0) return 0;
    uint32_t node = stack_table_of_call(hashes[0]);
    if (node) return node;
    node = call_stack_define_nodes(lane, walk, codes, hashes, count, how);
    if (node) stack_table_call(hashes[0], node);
    return node;
}
