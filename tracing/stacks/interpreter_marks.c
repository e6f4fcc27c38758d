/* interpreter_marks - whether what is read of an interpreter is in its place
 * (interpreter_own.h). */
#include "tracing/stacks/interpreter_own.h"

#include "common/atomic.h"
#include "tracing/data/notice.h"

struct interpreter_range interpreter_loop, interpreter_loop_rest;

/* After so many stacks that could not be read it is refused. */
#define INTERPRETER_TRIES_MAX 1024u

static struct {
    uint32_t trust;  /* enum interpreter_trust */
    uint32_t tries;  /* in vain */
    uintptr_t below; /* how far the mark of a run is below the end of the native frame of its loop
                        (before `trust`); 0: not known */
    const struct interpreter_language *language;
} marks;

void interpreter_marks_begin(const struct interpreter_language *language)
{
    if (language == NULL) {
        interpreter_loop.start = interpreter_loop.end = 0;
        interpreter_loop_rest.start = interpreter_loop_rest.end = 0;
    }
    marks.language = language;
    marks.trust = INTERPRETER_UNTRIED;
    marks.tries = 0;
    marks.below = 0;
}

enum interpreter_trust interpreter_trust(void)
{
    return (enum interpreter_trust)atomic_load_acquire(&marks.trust);
}

bool interpreter_place(struct interpreter_walk *walk, uintptr_t mark)
{
    const struct interpreter_native *native = walk->native;
    uint32_t i = 0;
    if (walk->is_placed || interpreter_trust() != INTERPRETER_TRUSTED) return true;
    const uintptr_t below = atomic_load_relaxed(&marks.below);
    walk->is_placed = true;
    while (i < native->count && native->frame[i].end != mark + below)
        i++;
    walk->placed_at = i;
    /* Of a loop whose rarely used code lies elsewhere, or is further out than is known here. */
    if ((i + 1 != native->count || !native->has_loop) && !marks.language->stays)
        walk->reader.is_direct = false;
    return i < native->count || !native->has_loop;
}

uintptr_t interpreter_mark_in_loop(struct interpreter_walk *walk)
{
    walk->reader.is_direct = false;
    return walk->native->frame[walk->native->count - 1].end - atomic_load_relaxed(&marks.below);
}

/* Whether all of a stack was read, and the mark of its innermost run is in this native frame. */
static bool interpreter_has_mark(const struct interpreter_stack *stack,
                                 const struct interpreter_native_frame *frame)
{
    return !stack->is_cut && stack->count > 0 && stack->run[0].mark >= frame->from &&
           stack->run[0].mark < frame->end;
}

void interpreter_learn_rest(struct unwind_memory *memory, const struct interpreter_stack *stack,
                            const struct interpreter_native_frame *frame)
{
    struct unwind_object object;
    struct interpreter_range range;
    if (atomic_load_relaxed(&interpreter_loop_rest.start) || !interpreter_has_mark(stack, frame) ||
        !unwind_find(frame->pc - 1, &object) || !unwind_learn(memory, &object) ||
        !unwind_function(memory, &object, frame->pc - 1, &range.start, &range.end))
        return;
    atomic_store_relaxed(&interpreter_loop_rest.start, range.start);
    atomic_store_release(&interpreter_loop_rest.end, range.end);
}

void interpreter_try(const struct interpreter_stack *stack, const struct interpreter_native *native)
{
    if (native->has_loop && interpreter_has_mark(stack, &native->frame[native->count - 1])) {
        atomic_store_relaxed(&marks.below,
                             native->frame[native->count - 1].end - stack->run[0].mark);
        atomic_store_release(&marks.trust, INTERPRETER_TRUSTED);
    }
    if (!stack->is_cut || stack->count > 0 ||
        atomic_add_relaxed(&marks.tries, 1) + 1 != INTERPRETER_TRIES_MAX)
        return;
    atomic_store_release(&marks.trust, INTERPRETER_REFUSED);
    notice_text("call stacks: functions of this %s are not seen: it is not laid out as others "
                "of its version are, or memory may not be copied",
                marks.language->title);
}
