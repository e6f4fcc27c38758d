#include "stacks.h"

#include "os.h"
#include "recording.h"
#include "slot.h"
#include "stack_table.h"

#include <string.h>

/* A frame, and the rule by which its caller's is found. */
struct frame {
    struct unwind_frame at;
    struct unwind_rule rule;
};

_Static_assert(sizeof(struct frame) == 32, "two in a cache line");

/* The innermost functions are the recorder's: not more than so many. */
#define OWN_MAX    16u
#define FRAMES_MAX (OWN_MAX + STACKS_DEPTH_MAX)

/* The frames of a stack, from the inside to the outside. Their codes and hashes are needed less
 * often. */
struct frames {
    struct frame frame[FRAMES_MAX + 1];
    uint32_t code[FRAMES_MAX];
    uint64_t hash[FRAMES_MAX]; /* of the stack from there on */
};

/* The latest stack of a lane. */
struct stack_walk {
    uint64_t time;             /* of the rules */
    uint32_t recording;        /* of the nodes */
    uint32_t first;            /* the innermost frame; FRAMES_MAX: there is none */
    uint32_t first_of_program; /* from there on */
    uint32_t node;
    uint32_t thread_id;
    struct unwind_stack memory; /* of the thread's stack, that can be read */
    struct frames all;          /* the outermost is the last */
    struct frames fresh;        /* of a new stack: those before the ones that stay */
};

/* Lanes get theirs by blocks, when the first of a block needs one. */
struct walks {
    struct stack_walk *blocks[RAW_LANES_MAX / LANE_BLOCK];
};
static struct walks *walks;

const char *stacks_begin(void)
{
    if (!unwind_can_find()) return "call stacks need glibc 2.35 or newer";
    if (!walks) walks = os_memory_reserve_per_process(sizeof *walks);
    return walks && stack_table_begin() ? NULL : "no memory for call stacks";
}

static struct stack_walk *walk_of(const struct malloctape_lane *lane)
{
    struct stack_walk **place = &walks->blocks[lane->registry.number / LANE_BLOCK];
    struct stack_walk *block = atomic_load_acquire(place), *none = NULL;
    if (!block) {
        block = os_memory_reserve_per_process(LANE_BLOCK * sizeof *block);
        if (!block) return NULL;
        if (!atomic_swap_once(place, &none, block)) {
            os_memory_release(block, LANE_BLOCK * sizeof *block);
            block = none;
        }
    }
    return &block[lane->registry.number % LANE_BLOCK];
}

/* --- the frames --- */

/* Whether the function and the place of its frame are the same: then so is the rule, and what is
 * known of the code. rbp may be another one, and is looked at only where a rule needs it. */
static bool is_same(const struct unwind_frame *a, const struct unwind_frame *b)
{
    return a->pc == b->pc && a->sp == b->sp;
}

/* How far a stack has been followed. The next frame is fresh.frame[fresh]: it is put where it stays,
 * because a copy of what has just been stored in parts makes the processor wait. */
struct at {
    uintptr_t *bx;      /* NULL: it is not followed */
    uint32_t own;       /* frames of the recorder, the innermost ones */
    uint32_t fresh;     /* frames so far, those included */
    uint32_t kept;      /* the frames of the latest stack from here on stay; FRAMES_MAX: none */
    uint32_t candidate; /* the frame of the latest stack that may come next */
    enum stack_end end;
    bool wants_bx; /* the stack ends here only because rbx is not followed */
};

enum step { STEP_ON, STEP_ENDS, STEP_FAILED };

static enum step end_at(struct at *at, enum stack_end end)
{
    at->end = end;
    return STEP_ENDS;
}

/* From a frame to the next one. */
static enum step step(struct stack_walk *walk, struct at *at, const struct frame *frame)
{
    if (frame->rule.how == UNWIND_OUTERMOST) return end_at(at, STACK_END);
    if (unwind_step(frame->rule, &walk->memory, &frame->at, &walk->fresh.frame[at->fresh].at,
                    at->bx))
        return STEP_ON;
    at->wants_bx = frame->rule.how == UNWIND_BX && !at->bx;
    return end_at(at, STACK_CUT_BY_CODE);
}

static void copy(struct frames *to, uint32_t at, const struct frames *from, uint32_t first,
                 uint32_t count)
{
    memcpy(&to->frame[at], &from->frame[first], count * sizeof *to->frame);
    memcpy(&to->code[at], &from->code[first], count * sizeof *to->code);
}

/* Some frames have been added. */
static void count_own(const struct stack_walk *walk, struct at *at)
{
    while (at->own < at->fresh && !walk->fresh.code[at->own])
        at->own++;
}

/* unwind_step() for nearly all frames: whether the caller's is the next one of the latest stack, and
 * its registers. False: that is to be asked there. */
static inline bool leads_on(const struct unwind_stack *memory, const struct frame *frame,
                            uintptr_t *sp, uintptr_t *bp)
{
    const struct unwind_rule rule = frame->rule;
    const uintptr_t end = frame[1].at.sp, bytes = memory->to - memory->from;
    const uintptr_t base = rule.how == UNWIND_SP ? *sp : *bp;
    const uintptr_t bp_at = end + (uintptr_t)(int64_t)rule.bp * 8;
    const uintptr_t return_at = unwind_return_at(rule, end);
    if ((rule.how != UNWIND_SP && rule.how != UNWIND_BP) ||
        base + (uintptr_t)(int64_t)rule.offset != end || return_at - memory->from >= bytes ||
        bp_at - memory->from >= bytes ||
        unwind_code_address(*(const uintptr_t *)return_at) != frame[1].at.pc)
        return false;
    if (rule.bp) *bp = *(const uintptr_t *)bp_at;
    *sp = end;
    return true;
}

/* The frame is one of the latest stack. If all from there on are the same, they stay; else those that
 * are the same are noted as fresh ones, of which the code is known. */
static enum step follow(struct stack_walk *walk, struct at *at)
{
    const struct frame *first = &walk->all.frame[at->candidate], *frame = first;
    const struct frame *last = &walk->all.frame[FRAMES_MAX - 1];
    const struct unwind_frame *here = &walk->fresh.frame[at->fresh].at;
    uintptr_t sp = here->sp, bp = here->bp;
    for (;; frame++) {
        while (frame < last && leads_on(&walk->memory, frame, &sp, &bp))
            frame++;
        if (frame == last) {
            at->kept = at->candidate;
            return end_at(at, STACK_END);
        }
        const struct unwind_frame now = {frame->at.pc, sp, bp};
        struct unwind_frame caller;
        if (!unwind_step(frame->rule, &walk->memory, &now, &caller, NULL) ||
            !is_same(&caller, &frame[1].at))
            break;
        sp = caller.sp;
        bp = caller.bp;
    }
    const uint32_t same = (uint32_t)(frame + 1 - first), room = FRAMES_MAX - at->fresh;
    copy(&walk->fresh, at->fresh, &walk->all, at->candidate, same < room ? same : room);
    at->fresh += same < room ? same : room;
    at->candidate += same;
    count_own(walk, at);
    if (same > room) return end_at(at, STACK_CUT_BY_DEPTH);
    walk->fresh.frame[at->fresh - 1].at.bp = bp;
    return step(walk, at, &walk->fresh.frame[at->fresh - 1]);
}

static enum step next_frame(struct malloctape_lane *lane, struct stack_walk *walk, struct at *at)
{
    struct frame *frame = &walk->fresh.frame[at->fresh];
    const struct frame *latest = walk->all.frame;
    struct stack_code code;
    while (at->candidate < FRAMES_MAX && latest[at->candidate].at.sp < frame->at.sp)
        at->candidate++;
    if (at->candidate < FRAMES_MAX && is_same(&frame->at, &latest[at->candidate].at))
        return follow(walk, at);
    if (at->fresh - at->own >= STACKS_DEPTH_MAX || at->fresh == FRAMES_MAX)
        return end_at(at, STACK_CUT_BY_DEPTH);
    if (!stack_table_code(lane, frame->at.pc, &code))
        return at->own < at->fresh ? end_at(at, STACK_CUT_BY_CODE) : STEP_FAILED;
    frame->rule = code.rule;
    walk->fresh.code[at->fresh++] = code.number;
    count_own(walk, at);
    return step(walk, at, frame);
}

/* The frames from this one on. False: some code has no number. */
static bool find_frames(struct malloctape_lane *lane, struct stack_walk *walk, struct at *at,
                        const struct unwind_frame *here)
{
    enum step result;
    struct unwind_frame *first = &walk->fresh.frame[0].at;
    first->pc = here->pc;
    first->sp = here->sp;
    first->bp = here->bp;
    at->kept = FRAMES_MAX;
    at->candidate = walk->first;
    at->own = at->fresh = 0;
    at->wants_bx = false;
    do
        result = next_frame(lane, walk, at);
    while (result == STEP_ON);
    return result == STEP_ENDS;
}

/* --- the nodes --- */

/* Hashes of the frames first .. end - 1, whose outermost one is called by a function with this one. */
static void hash_frames(struct frames *frames, uint32_t first, uint32_t end, uint64_t of_caller)
{
    for (uint32_t i = end; i > first; i--) {
        if (frames->code[i - 1]) of_caller = stack_table_hash(of_caller, frames->code[i - 1]);
        frames->hash[i - 1] = of_caller;
    }
}

/* Of a stack that is not known, from the frame `first` on: defines the inner nodes that are not. */
static uint32_t define_nodes(struct malloctape_lane *lane, struct stack_walk *walk, uint32_t first,
                             enum stack_end end)
{
    const struct frames *frames = &walk->all;
    struct frames *missing = &walk->fresh; /* which has been copied */
    uint32_t known = first, parent = end, count = 0;
    while (known < FRAMES_MAX && !(parent = stack_table_node(frames->hash[known])))
        known++;
    if (known == FRAMES_MAX) parent = end;
    for (uint32_t i = known; i > first; i--) {
        if (!frames->code[i - 1]) continue;
        missing->code[count] = frames->code[i - 1];
        missing->hash[count++] = frames->hash[i - 1];
    }
    return count ? stack_table_define(lane, parent, count, missing->code, missing->hash) : parent;
}

/* --- the stack --- */

/* How many functions of the program there are. */
static uint32_t depth(const struct stack_walk *walk, const struct at *at)
{
    const uint32_t own = at->kept < walk->first_of_program ? walk->first_of_program - at->kept : 0;
    return at->fresh - at->own + FRAMES_MAX - at->kept - own;
}

/* The stack's frames come to stand before those that stay. */
static uint32_t keep_frames(struct malloctape_lane *lane, struct stack_walk *walk,
                            const struct at *at)
{
    const uint32_t first = at->kept - at->fresh;
    struct frames *all = &walk->all;
    if (at->fresh == 0 && at->kept == walk->first) return walk->node;
    copy(all, first, &walk->fresh, 0, at->fresh);
    hash_frames(all, first, at->kept,
                at->kept < FRAMES_MAX ? all->hash[at->kept] : (uint64_t)at->end);
    uint32_t of_program = first;
    while (of_program < FRAMES_MAX && !all->code[of_program])
        of_program++;
    walk->first_of_program = of_program;
    /* That it ends there is seen again only by the rule. */
    const bool ends =
        at->end == STACK_END && all->frame[FRAMES_MAX - 1].rule.how == UNWIND_OUTERMOST;
    walk->first = ends && of_program < FRAMES_MAX ? first : FRAMES_MAX;
    if (of_program == FRAMES_MAX) return STACK_END;
    walk->node = stack_table_node(all->hash[first]);
    if (!walk->node) walk->node = define_nodes(lane, walk, first, at->end);
    return walk->node;
}

/* Forgets the latest stack. */
static void forget(struct stack_walk *walk)
{
    walk->first = walk->first_of_program = FRAMES_MAX;
}

static __attribute__((noinline)) uint32_t find_stack(struct malloctape_lane *lane,
                                                     struct stack_walk *walk)
{
    struct at at = {.bx = NULL};
    struct unwind_frame here;
    uintptr_t bx, bx_here;
    const uint64_t time = stack_table_time();
    unwind_here(&here, &bx_here);
    if (walk->time != time || !time || walk->recording != recording.number) forget(walk);
    walk->time = time;
    walk->recording = recording.number;
    /* The stack of the thread before may be gone. */
    if (walk->thread_id != (uint32_t)lane->registry.thread_id) {
        forget(walk);
        walk->memory = (struct unwind_stack){0};
        walk->thread_id = (uint32_t)lane->registry.thread_id;
    }
    unwind_stack_at(&walk->memory, here.sp);
    for (;;) {
        bx = bx_here;
        if (!find_frames(lane, walk, &at, &here)) return STACK_END;
        if (!at.wants_bx && at.fresh <= at.kept && depth(walk, &at) <= STACKS_DEPTH_MAX)
            return keep_frames(lane, walk, &at);
        /* Once more, without what is known: to count from the inside, or with rbx. */
        forget(walk);
        if (at.wants_bx) at.bx = &bx;
    }
}

void stacks_put(struct malloctape_lane *lane)
{
    struct stack_walk *walk = walk_of(lane);
    if (!walk || lane->stacks.busy) return;
    lane->stacks.busy = true;
    const uint32_t node = find_stack(lane, walk);
    if (node && slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) units_stack(&lane->units, node);
    lane->stacks.busy = false;
}
