/* call_stack_mixed - stacks with functions of an interpreter between the native ones. */
#include "tracing/stacks/call_stack_own.h"

#include "common/atomic.h"
#include "tracing/recording/recording.h"

bool call_stack_is_mixed(const struct stack_walk *walk)
{
    const struct interpreter_range range = {atomic_load_relaxed(&interpreter_range.start),
                                            atomic_load_acquire(&interpreter_range.end)};
    if (range.start == range.end) return false;
    for (uint32_t i = walk->first; i < walk->end; i++)
        if (interpreter_has(&range, walk->frame[i].at.pc)) return true;
    return false;
}

/* The native frames that tell where the innermost run is. */
static void find_native(const struct stack_walk *walk, struct interpreter_native *native)
{
    native->count = 0;
    native->has_loop = false;
    for (uint32_t i = walk->first; i + 1 < walk->end && !native->has_loop; i++) {
        const uintptr_t pc = walk->frame[i].at.pc;
        if (!interpreter_has(&interpreter_range, pc)) continue;
        native->has_loop = interpreter_is_loop(pc);
        /* Of too many, the last one is its loop's. */
        if (native->count == INTERPRETER_NATIVE_MAX) native->count--;
        native->frame[native->count++] = (struct interpreter_native_frame){
            .pc = pc, .from = walk->frame[i].at.sp, .end = walk->frame[i + 1].at.sp};
    }
}

static void call_stack_add(struct mixed_stack *mixed, uint32_t code)
{
    if (code) mixed->code[mixed->count++] = code;
}

/* Adds the functions of the runs whose mark lies below `end`. False: the rest of the stack is
 * missing. */
static bool add_runs(struct stack_walk *walk, uintptr_t end, uint32_t *run)
{
    const struct interpreter_stack *stack = &walk->interpreter;
    for (; *run < stack->runs && stack->run[*run].mark < end; ++*run)
        for (uint32_t i = *run ? stack->run[*run - 1].end : 0; i < stack->run[*run].end; i++)
            call_stack_add(&walk->mixed, stack->code[i]);
    return *run < stack->runs || !(stack->is_deeper || stack->is_cut);
}

/* Puts the runs where their native frames are. What the native frames do not reach is further out.
 * Returns how the stack ends. */
static enum stack_end mix_runs(struct stack_walk *walk)
{
    const enum stack_end cut = walk->interpreter.is_deeper ? STACK_CUT_BY_DEPTH : STACK_CUT_BY_CODE;
    uint32_t run = 0;
    walk->mixed.count = 0;
    for (uint32_t i = walk->first; i < walk->end; i++) {
        /* Where the outermost frame ends nobody knows. */
        const bool is_last = i + 1 == walk->end;
        if (!(is_last && walk->how != STACK_END) &&
            !add_runs(walk, is_last ? UINTPTR_MAX : walk->frame[i + 1].at.sp, &run) &&
            walk->interpreter.runs > 0)
            return cut;
        call_stack_add(&walk->mixed, walk->code[i]);
    }
    return add_runs(walk, UINTPTR_MAX, &run) || walk->interpreter.runs == 0 ? walk->how : cut;
}

/* ---- what has been mixed before ---- */

static inline uint64_t add_to_key(uint64_t key, uint64_t word)
{
    key = (key ^ word) * UINT64_C(0x9fb21c651e98df25);
    return key ^ key >> 32;
}

/* Of the native frames: codes, and where they are. Numbers are of a recording. The places are
 * summed up, as the processor can mix several at a time. */
static uint64_t key_of_native(const struct stack_walk *walk)
{
    uint64_t places = 0;
    for (uint32_t i = walk->first; i < walk->end; i++)
        places += add_to_key(i - walk->first, walk->frame[i].at.sp);
    return add_to_key(walk->hash[walk->first] ^ recording.number, places) | 1;
}

/* Where the node of native frames and the functions that have just been found is, if it is
 * known. */
static struct mixed_node *mixed_node_at(struct stack_walk *walk, uint64_t native_key, uint64_t *key)
{
    *key = add_to_key(native_key, walk->interpreter.key);
    return &walk->mixed_nodes[*key % MIXED_NODES];
}

uint32_t call_stack_mix_known(const struct malloctape_lane *lane, struct stack_walk *walk,
                              const struct known *known)
{
    struct interpreter_native native; /* large: what counts of it is filled */
    uint64_t key;
    native.count = 1;
    native.has_loop = true;
    native.frame[0].end = known->loop_end;
    interpreter_frames(lane, &walk->memory, &native, &walk->interpreter);
    if (!walk->interpreter.is_placed) return 0;
    const struct mixed_node *node = mixed_node_at(walk, known->mixed_key, &key);
    return node->key == key ? node->node : 0;
}

/* ---- the latest stack ---- */

static uint32_t mix_anew(struct malloctape_lane *lane, struct stack_walk *walk)
{
    struct mixed_stack *mixed = &walk->mixed;
    if (!interpreter_numbers(lane, &walk->memory, &walk->interpreter)) return 0;
    const enum stack_end how = mix_runs(walk);
    uint64_t hash = stack_table_hash_of_end(how);
    for (uint32_t i = mixed->count; i > 0; i--)
        mixed->hash[i - 1] = hash = stack_table_hash(hash, mixed->code[i - 1]);
    return call_stack_node_of(lane, walk, mixed->code, mixed->hash, mixed->count, how);
}

uint32_t call_stack_mix(struct malloctape_lane *lane, struct stack_walk *walk)
{
    struct interpreter_native native;
    uint64_t key;
    find_native(walk, &native);
    interpreter_frames(lane, &walk->memory, &native, &walk->interpreter);
    walk->mixed.key = key_of_native(walk);
    walk->mixed.loop_end = native.has_loop ? native.frame[native.count - 1].end : 0;
    struct mixed_node *latest = mixed_node_at(walk, walk->mixed.key, &key);
    if (latest->key == key) return latest->node;
    const uint32_t node = mix_anew(lane, walk);
    if (node) *latest = (struct mixed_node){.key = key, .node = node};
    return node;
}
