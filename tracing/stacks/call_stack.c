#include "tracing/stacks/call_stack.h"

#include "tracing/os/os.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/call_stack_own.h"
#include "tracing/stacks/stack_table.h"

#include <errno.h>
#include <string.h>

/* Allocated in blocks, when the first lane of a block needs one. */
struct walks {
    struct stack_walk *blocks[RAW_LANES_MAX / LANE_BLOCK];
};
static struct walks *walks;

const char *stacks_begin(void)
{
    if (!unwind_can_find()) return "call stacks need glibc 2.35 or newer";
    if (walks == NULL) walks = os_memory_reserve_per_process(sizeof *walks);
    interpreter_begin();
    return walks != NULL && stack_table_begin(&interpreter_watcher) ? NULL
                                                                    : "no memory for call stacks";
}

static struct stack_walk *walk_of(const struct malloctape_lane *lane)
{
    struct stack_walk **place = &walks->blocks[lane->registry.number / LANE_BLOCK];
    struct stack_walk *block = atomic_load_acquire(place), *none = NULL;
    if (block == NULL) {
        block = os_memory_reserve_per_process(LANE_BLOCK * sizeof *block);
        if (block == NULL) return NULL;
        if (!atomic_swap_once(place, &none, block)) {
            os_memory_release(block, LANE_BLOCK * sizeof *block);
            block = none;
        }
    }
    return &block[lane->registry.number % LANE_BLOCK];
}

/* ---- out of the recorder ---- */

/* Each word is on the stack if those before it are unchanged. False: this is another way. */
static inline bool leads_out(const struct way *way, const struct unwind_frame *here,
                             struct unwind_frame *first)
{
    const char *sp = (const char *)here->sp;
    if (way->count == 0) return false;
    for (uint32_t i = 0; i < way->count; i++) {
        const struct way_word *word = &way->words[i];
        if (!word->is_place) {
            if (unwind_code_address(*(const uintptr_t *)(const void *)(sp + word->at)) !=
                word->value)
                return false;
        } else if ((word->is_register ? here->bp
                                      : *(const uintptr_t *)(const void *)(sp + word->at)) !=
                   word->value + here->sp) {
            return false;
        }
    }
    first->pc = unwind_code_address(*(const uintptr_t *)(const void *)(sp + way->return_at));
    first->sp = here->sp + (uintptr_t)way->end;
    first->bp = way->saves_bp ? *(const uintptr_t *)(const void *)(sp + way->bp) : here->bp;
    return !stack_table_is_own(first->pc);
}

/* Adds the words that must be the same for a step from a frame of the recorder to its caller's.
 * False: words do not suffice. */
static bool add_to_way(struct way *way, const struct unwind_frame *here,
                       const struct unwind_frame *frame, struct unwind_rule rule,
                       const struct unwind_frame *caller)
{
    if ((rule.how != UNWIND_SP && rule.how != UNWIND_BP) || rule.bp_at_bp) return false;
    if (rule.how == UNWIND_BP)
        way->words[way->count++] = (struct way_word){.at = way->bp,
                                                     .is_register = !way->saves_bp,
                                                     .is_place = true,
                                                     .value = frame->bp - here->sp};
    way->end = (int32_t)(caller->sp - here->sp);
    way->return_at = (int32_t)(unwind_return_at(rule, caller->sp) - here->sp);
    if (rule.bp) way->bp = way->end + rule.bp * 8;
    way->saves_bp = way->saves_bp || rule.bp;
    if (stack_table_is_own(caller->pc))
        way->words[way->count++] = (struct way_word){.at = way->return_at, .value = caller->pc};
    return true;
}

/* Goes by rules, and makes a way of the steps if there can be one. False: a rule is missing. */
static bool walk_out(struct malloctape_lane *lane, struct stack_walk *walk,
                     const struct unwind_frame *here, uintptr_t *bx, struct unwind_frame *first)
{
    struct unwind_frame frame = *here;
    struct way *way = &walk->ways[(walk->latest_way + 1) % WAYS];
    bool is_way = true;
    way->count = 0;
    way->saves_bp = false;
    for (uint32_t i = 0; i < OWN_MAX; i++) {
        struct stack_code code;
        if (!stack_table_code(lane, &walk->memory, frame.pc, &code) ||
            !unwind_step(code.rule, &walk->memory, &frame, first, bx))
            break;
        is_way = is_way && add_to_way(way, here, &frame, code.rule, first);
        frame = *first;
        if (stack_table_is_own(frame.pc)) continue;
        if (is_way)
            walk->latest_way = (walk->latest_way + 1) % WAYS;
        else
            way->count = 0;
        return true;
    }
    way->count = 0;
    return false;
}

/* The frame of the program's function that has called the recorder, by a way that is known. */
static inline bool leave_by_way(struct stack_walk *walk, const struct unwind_frame *here,
                                struct unwind_frame *first)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        const uint32_t at = (walk->latest_way - i) % WAYS;
        if (!leads_out(&walk->ways[at], here, first)) continue;
        walk->latest_way = at;
        return true;
    }
    return false;
}

/* ---- the frames ---- */

/* How far a stack has been followed. The next frame is fresh.frame[fresh]: it is built where it
 * stays, because to copy at once what has just been stored in parts makes the processor wait. */
struct at {
    uintptr_t *bx;      /* NULL: it is not followed */
    uint32_t fresh;     /* frames so far; some may lie beyond the stack's end */
    uint32_t candidate; /* the frame of the latest stack that may come next */
    uint32_t kept, end; /* frames of the latest stack that stay; none: both REMEMBERED_MAX */
    enum stack_end how;
    bool wants_bx; /* the stack ends here only because rbx is not followed */
};

enum step { STEP_ON, STEP_ENDS, STEP_FAILED };

static enum step call_stack_end_at(struct at *at, enum stack_end how)
{
    at->how = how;
    return STEP_ENDS;
}

/* Steps from a frame to the next one. */
static inline enum step step(struct stack_walk *walk, struct at *at, const struct frame *frame)
{
    if (unwind_step(frame->rule, &walk->memory, &frame->at, &walk->fresh.frame[at->fresh].at,
                    at->bx))
        return STEP_ON;
    if (frame->rule.how == UNWIND_OUTERMOST) return call_stack_end_at(at, STACK_END);
    at->wants_bx = frame->rule.how == UNWIND_BX && at->bx == NULL;
    return call_stack_end_at(at, STACK_CUT_BY_CODE);
}

/* Whether a frame is this remembered one: then it has the same rule and code, and everything
 * further out depends only on the words by which it was found. */
static inline bool call_stack_is_same(const struct stack_walk *walk, uint32_t remembered,
                                      const struct unwind_frame *frame)
{
    const struct unwind_frame *latest = &walk->frame[remembered].at;
    return frame->pc == latest->pc && frame->sp == latest->sp &&
           (!walk->needs_bp[remembered] || frame->bp == latest->bp);
}

/* The frame is a remembered one: whether the words by which its caller was found are unchanged.
 * False: only the rule can tell. */
static inline bool leads_on(const struct stack_walk *walk, uint32_t i)
{
    const struct frame *frame = &walk->frame[i];
    const uintptr_t from = walk->memory.from, bytes = walk->memory.to - from;
    const uintptr_t end = frame[1].at.sp, return_at = unwind_return_at(frame->rule, end);
    if (walk->check[i] == CHECK_BY_RULE || return_at - from >= bytes ||
        unwind_code_address(*(const uintptr_t *)return_at) != frame[1].at.pc)
        return false;
    if (walk->check[i] == CHECK_RETURN) return true;
    const uintptr_t bp_at = end + (uintptr_t)(int64_t)frame->rule.bp * 8;
    return bp_at - from < bytes && *(const uintptr_t *)bp_at == frame[1].at.bp;
}

static bool leads_on_by_rule(struct stack_walk *walk, uint32_t i)
{
    const struct frame *frame = &walk->frame[i];
    struct unwind_frame caller;
    return unwind_step(frame->rule, &walk->memory, &frame->at, &caller, NULL) &&
           call_stack_is_same(walk, i + 1, &caller);
}

/* What follows a remembered frame, the outermost one that counts. STEP_ON: the stack goes on. */
static enum step call_stack_behind(struct malloctape_lane *lane, struct stack_walk *walk,
                                   struct at *at, uint32_t i)
{
    const struct frame *frame = &walk->frame[i];
    struct unwind_frame caller;
    struct stack_code code;
    switch (frame->rule.how) {
    case UNWIND_OUTERMOST: return call_stack_end_at(at, STACK_END);
    case UNWIND_BX: return STEP_FAILED;
    case UNWIND_UNKNOWN:
        /* What has no table today may have one tomorrow. */
        if (!stack_table_code(lane, &walk->memory, frame->at.pc, &code) ||
            code.number != walk->code[i] || code.rule.how != UNWIND_UNKNOWN)
            return STEP_FAILED;
        return call_stack_end_at(at, STACK_CUT_BY_CODE);
    default: break;
    }
    if (unwind_step(frame->rule, &walk->memory, &frame->at, &caller, NULL)) return STEP_ON;
    return call_stack_end_at(at, STACK_CUT_BY_CODE);
}

/* The frame is a remembered one, the candidate. If all further out are unchanged, as far as they
 * count, they stay; else those that are unchanged become fresh ones, whose rule and code are
 * known. */
static enum step call_stack_follow(struct malloctape_lane *lane, struct stack_walk *walk,
                                   struct at *at)
{
    const uint32_t deep = at->candidate + (STACKS_DEPTH_MAX - at->fresh) - 1;
    const uint32_t last = deep < LAST ? deep : LAST;
    uint32_t same = at->candidate;
    while (same < last && (leads_on(walk, same) || leads_on_by_rule(walk, same)))
        same++;
    if (same == last) {
        enum step result = call_stack_behind(lane, walk, at, last);
        if (result == STEP_ON && last == deep) result = call_stack_end_at(at, STACK_CUT_BY_DEPTH);
        if (result == STEP_ENDS) {
            at->kept = at->candidate;
            at->end = last + 1;
            return STEP_ENDS;
        }
    }
    enum step result = STEP_ON;
    while (result == STEP_ON && at->candidate <= same && at->fresh < STACKS_DEPTH_MAX) {
        struct frame *frame = &walk->fresh.frame[at->fresh];
        frame->rule = walk->frame[at->candidate].rule;
        walk->fresh.code[at->fresh++] = walk->code[at->candidate++];
        result = step(walk, at, frame);
    }
    return result;
}

/* Looks up the frame's code and goes on by its rule. */
static inline enum step look_up(struct malloctape_lane *lane, struct stack_walk *walk,
                                struct at *at)
{
    struct frame *frame = &walk->fresh.frame[at->fresh];
    struct stack_code code;
    if (!stack_table_code(lane, &walk->memory, frame->at.pc, &code))
        return at->fresh ? call_stack_end_at(at, STACK_CUT_BY_CODE) : STEP_FAILED;
    frame->rule = code.rule;
    walk->fresh.code[at->fresh++] = code.number;
    return step(walk, at, frame);
}

/* The stack is too deep. What is found now is not part of it. */
static __attribute__((noinline)) enum step look_ahead(struct malloctape_lane *lane,
                                                      struct stack_walk *walk, struct at *at)
{
    while (at->fresh < FRESH_MAX && look_up(lane, walk, at) == STEP_ON)
        continue;
    at->wants_bx = false;
    return call_stack_end_at(at, STACK_CUT_BY_DEPTH);
}

static inline enum step next_frame(struct malloctape_lane *lane, struct stack_walk *walk,
                                   struct at *at)
{
    const struct unwind_frame *frame = &walk->fresh.frame[at->fresh].at;
    if (at->fresh == STACKS_DEPTH_MAX) return look_ahead(lane, walk, at);
    /* In a child that a signal handler has forked meanwhile all of them are zero. */
    while (at->candidate < REMEMBERED_MAX && walk->frame[at->candidate].at.sp < frame->sp)
        at->candidate++;
    return call_stack_is_same(walk, at->candidate, frame) ? call_stack_follow(lane, walk, at)
                                                          : look_up(lane, walk, at);
}

/* The frames of the program, of which fresh.frame[0] is the innermost one. False: some code has no
 * number. */
static bool find_frames(struct malloctape_lane *lane, struct stack_walk *walk, struct at *at)
{
    enum step result;
    at->kept = at->end = REMEMBERED_MAX;
    at->candidate = walk->first;
    at->fresh = 0;
    at->wants_bx = false;
    do
        result = next_frame(lane, walk, at);
    while (result == STEP_ON);
    return result == STEP_ENDS;
}

/* ---- stacks that recur ----
 *
 * Most programs allocate by the same calls at the same place of their stack again and again. The
 * innermost frame of such a stack, and the words by which the others were found, determine all its
 * frames, as in the latest stack: leads_on(). */

static inline uint64_t scatter(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

static inline struct known *known_set(struct stack_walk *walk, const struct unwind_frame *first)
{
    return walk->known[scatter(first->pc ^ first->sp << 20) >> (64 - KNOWN_BITS)];
}

static inline bool call_stack_is_known(const struct stack_walk *walk, const struct known *known,
                                       const struct unwind_frame *first)
{
    const uintptr_t *stack = (const uintptr_t *)first->sp;
    if (known->first.pc != first->pc || known->first.sp != first->sp ||
        known->generation != walk->generation || first->sp < walk->memory.from ||
        known->end > walk->memory.to || (known->needs_bp && known->first.bp != first->bp))
        return false;
    for (uint32_t i = 0; i < known->count; i++)
        if (stack[known->at[i]] != known->value[i]) return false;
    return true;
}

/* A recurring stack; NULL: the stack is not known. */
static inline const struct known *known_stack(struct stack_walk *walk,
                                              const struct unwind_frame *first)
{
    const struct known *set = known_set(walk, first);
    for (uint32_t i = 0; i < KNOWN_IN_SET; i++)
        if (call_stack_is_known(walk, &set[i], first)) return &set[i];
    return NULL;
}

/* Whether the latest stack has been seen before: to remember one that does not recur takes longer
 * than it saves. */
static bool comes_again(struct stack_walk *walk)
{
    const uint64_t hash = walk->hash[walk->first] ^ walk->frame[walk->first].at.sp;
    uint32_t *met = &walk->met[scatter(hash) >> (64 - MET_BITS)];
    const bool again = *met == (uint32_t)hash;
    *met = (uint32_t)hash;
    return again;
}

/* False: there are too many words, or it lies too far away, or not in memory that stays. */
static bool know_word(const struct stack_walk *walk, struct known *known, uintptr_t address)
{
    const uintptr_t above = address - known->first.sp, end = address + sizeof(uintptr_t);
    if (above % sizeof(uintptr_t) || above / sizeof(uintptr_t) > UINT16_MAX ||
        end > walk->memory.to || known->count == KNOWN_WORDS)
        return false;
    known->at[known->count] = (uint16_t)(above / sizeof(uintptr_t));
    known->value[known->count++] = *(const uintptr_t *)address;
    if (known->end < end) known->end = end;
    return true;
}

/* Remembers the latest stack, if words lead on from all of its frames but the last one, and that
 * ends it whatever words there are. Generated code does not qualify: it may be replaced
 * unnoticed. */
static void know(struct stack_walk *walk, bool is_mixed)
{
    const struct frame *first = &walk->frame[walk->first], *last = &walk->frame[walk->end - 1];
    struct known *known = &known_set(walk, &first->at)[walk->replaced++ % KNOWN_IN_SET];
    if (last->rule.how != UNWIND_OUTERMOST) return;
    if (is_mixed && !(walk->interpreter.is_placed && walk->mixed.loop_end)) return;
    known->first = first->at;
    known->mixed_key = is_mixed ? walk->mixed.key : 0;
    known->loop_end = walk->mixed.loop_end;
    known->needs_bp = walk->needs_bp[walk->first];
    known->end = known->count = known->generation = 0;
    for (uint32_t i = walk->first; i < walk->end - 1; i++) {
        const struct unwind_rule rule = walk->frame[i].rule;
        const uintptr_t end = walk->frame[i + 1].at.sp;
        const uintptr_t bp_at = end + (uintptr_t)(int64_t)rule.bp * 8;
        if (walk->check[i] == CHECK_BY_RULE || unwind_is_guess(rule) ||
            !know_word(walk, known, unwind_return_at(rule, end)) ||
            (walk->check[i] == CHECK_RETURN_AND_BP && !know_word(walk, known, bp_at)))
            return;
    }
    known->node = walk->node;
    known->generation = walk->generation;
}

/* ---- the stack ---- */

/* Puts the fresh frames before those that stay. False: nothing has changed. */
static bool keep_frames(struct stack_walk *walk, const struct at *at)
{
    const bool ends_as_before =
        at->kept < REMEMBERED_MAX && at->end == walk->end && at->how == walk->how;
    if (ends_as_before && at->fresh == 0 && at->kept == walk->first) return false;
    uint32_t kept = at->kept, end = at->end;
    if (at->fresh > kept) {
        kept = call_stack_make_room(walk, at->kept);
        end += kept - at->kept;
    }
    walk->first = kept - at->fresh;
    memcpy(&walk->frame[walk->first], walk->fresh.frame, at->fresh * sizeof *walk->frame);
    memcpy(&walk->code[walk->first], walk->fresh.code, at->fresh * sizeof *walk->code);
    /* If none stays, the fresh ones may go further out than the stack. */
    if (kept == REMEMBERED_MAX && at->fresh > STACKS_DEPTH_MAX)
        end = walk->first + STACKS_DEPTH_MAX;
    if (ends_as_before)
        call_stack_hash_frames(walk, walk->first, kept, walk->hash[kept]);
    else
        call_stack_hash_frames(walk, walk->first, end, stack_table_hash_of_end(at->how));
    stack_table_will_ask(walk->hash[walk->first]);
    call_stack_note_checks(walk, walk->first, kept);
    walk->end = end;
    walk->how = at->how;
    return true;
}

/* The node of the latest stack, which has just been kept; 0: it has none. */
static uint32_t node_of_kept(struct malloctape_lane *lane, struct stack_walk *walk, bool is_new,
                             bool is_mixed)
{
    if (is_mixed)
        walk->node = call_stack_mix(lane, walk);
    else if (is_new)
        walk->node =
            call_stack_node_of(lane, walk, &walk->code[walk->first], &walk->hash[walk->first],
                               walk->end - walk->first, walk->how);
    if (!walk->node) call_stack_forget(walk);
    return walk->node;
}

/* Forgets all stacks. */
static void forget_all(struct stack_walk *walk)
{
    call_stack_forget(walk);
    walk->path.count = 0;
    walk->generation++;
}

/* Finds the program's frames one by one. `is_out`: fresh.frame[0] has the innermost one already.
 * False: a rule of the recorder's is missing, or some code has no number. */
static bool find_by_frames(struct malloctape_lane *lane, struct stack_walk *walk,
                           const struct unwind_frame *here, uintptr_t *bx, bool is_out,
                           struct at *at)
{
    struct unwind_frame *first = &walk->fresh.frame[0].at;
    at->bx = NULL;
    if (!is_out && !walk_out(lane, walk, here, NULL, first)) return false;
    if (!find_frames(lane, walk, at)) return false;
    if (!at->wants_bx) return true;
    /* Once more, without what is known, but with rbx. */
    call_stack_forget(walk);
    at->bx = bx;
    return walk_out(lane, walk, here, bx, first) && find_frames(lane, walk, at);
}

/* A stack that is not known, or only its native frames are (`is_known`). `first`: NULL if no way
 * out of the recorder is known either. */
static __attribute__((noinline)) uint32_t find_anew(struct malloctape_lane *lane,
                                                    struct stack_walk *walk,
                                                    const struct unwind_frame *here, uintptr_t bx,
                                                    const struct unwind_frame *first, bool is_known)
{
    const int kept_errno = errno;
    struct at at;
    uint32_t node = STACK_END;
    if (first != NULL) walk->fresh.frame[0].at = *first;
    if (find_by_frames(lane, walk, here, &bx, first, &at)) {
        const bool is_new = keep_frames(walk, &at);
        const bool is_mixed = call_stack_is_mixed(walk);
        node = node_of_kept(lane, walk, is_new, is_mixed);
        if (node && !is_known && comes_again(walk)) know(walk, is_mixed);
    }
    errno = kept_errno;
    return node;
}

/* Whether what the lane remembers is of this recording, this thread, and the modules of now. */
static inline bool is_of_now(const struct malloctape_lane *lane, const struct stack_walk *walk)
{
    const uint64_t time = stack_table_time();
    return time && walk->time == time && walk->recording == recording.number &&
           walk->thread_id == (uint32_t)lane->registry.thread_id;
}

static void forget_others(const struct malloctape_lane *lane, struct stack_walk *walk)
{
    const uint32_t thread_id = (uint32_t)lane->registry.thread_id;
    forget_all(walk);
    walk->time = stack_table_time();
    walk->recording = recording.number;
    unwind_memory_forget_objects(&walk->memory);
    /* The stack of the thread before may be gone. */
    if (walk->thread_id != thread_id) unwind_memory_forget(&walk->memory);
    walk->thread_id = thread_id;
}

static inline uint32_t find_stack(struct malloctape_lane *lane, struct stack_walk *walk)
{
    struct unwind_frame here, first;
    uintptr_t bx;
    if (!is_of_now(lane, walk)) forget_others(lane, walk);
    unwind_here(&here, &bx);
    unwind_memory_begin(&walk->memory, here.sp);
    const bool is_out = leave_by_way(walk, &here, &first);
    const struct known *known = is_out ? known_stack(walk, &first) : NULL;
    uint32_t node = 0;
    if (known) node = known->mixed_key ? call_stack_mix_known(lane, walk, known) : known->node;
    return node ? node : find_anew(lane, walk, &here, bx, is_out ? &first : NULL, known);
}

uint32_t stacks_find(struct malloctape_lane *lane)
{
    /* Once: in a child that a signal handler forks from here on it is NULL. */
    struct stack_walk *walk = atomic_load_relaxed(&lane->stacks.walk);
    if (lane->stacks.busy) return 0;
    if (walk == NULL && (walk = lane->stacks.walk = walk_of(lane)) == NULL) return 0;
    atomic_store_relaxed(&lane->stacks.busy, true);
    const uint32_t node = find_stack(lane, walk);
    atomic_store_release(&lane->stacks.busy, false);
    return node;
}

/* How much a handler is expected to need of its stack. */
#define HANDLER_BYTES 16384u

/* The kernel has put the interrupted address on the handler's stack. */
static bool is_in_handler(struct stack_walk *walk, uintptr_t outside)
{
    uintptr_t word, end = outside + HANDLER_BYTES;
    unwind_memory_begin(&walk->memory, outside);
    if (walk->memory.to == walk->memory.own_to && walk->memory.to < end) end = walk->memory.to;
    for (uintptr_t at = outside; at < end && unwind_memory_word(&walk->memory, at, &word);
         at += sizeof word)
        if (stack_table_is_own(word) && unwind_may_be_signal(&walk->memory, at - UNWIND_SIGNAL_PC))
            return true;
    return false;
}

bool stacks_interrupt(struct malloctape_lane *lane, const void *outside)
{
    const int kept_errno = errno;
    struct stack_walk *walk = atomic_load_relaxed(&lane->stacks.walk);
    if (lane->stacks.busy) return true;
    if (walk == NULL && (walk = lane->stacks.walk = walk_of(lane)) == NULL) return true;
    atomic_store_relaxed(&lane->stacks.busy, true);
    if (!is_of_now(lane, walk)) forget_others(lane, walk);
    const bool interrupts = is_in_handler(walk, (uintptr_t)outside);
    atomic_store_release(&lane->stacks.busy, false);
    errno = kept_errno;
    return interrupts;
}

void stacks_put(struct malloctape_lane *lane)
{
    const uint32_t node = stacks_find(lane);
    if (node && slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) units_stack(&lane->units, node);
}
