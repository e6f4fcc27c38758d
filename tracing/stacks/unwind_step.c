#include "tracing/stacks/unwind_own.h"

#include "tracing/os/os.h"

#include <string.h>

/* The largest frame of generated code. */
#define GUESS_BYTES_MAX ((uintptr_t)32 << 10)
/* Generated code calls other such code that is not farther away. */
#define GENERATED_FAR   ((uintptr_t)1 << 30)
/* After so many words without one, a page has no call. */
#define PAGE_ASKED_MAX  16u
/* An address no farther away is on the same stack. */
#define STACK_FAR       ((uintptr_t)8 << 20)

static bool step_out_of_signal(struct unwind_memory *memory, uintptr_t sp,
                               struct unwind_frame *caller, uintptr_t *bx)
{
    if (!unwind_memory_word(memory, sp + UNWIND_SIGNAL_PC, &caller->pc) ||
        !unwind_memory_word(memory, sp + UNWIND_SIGNAL_SP, &caller->sp) ||
        !unwind_memory_word(memory, sp + UNWIND_SIGNAL_BP, &caller->bp) ||
        (bx != NULL && !unwind_memory_word(memory, sp + UNWIND_SIGNAL_BX, bx)))
        return false;
    caller->pc++;
    return caller->pc != 1;
}

/* The caller's registers where the frame's end is known. */
static bool step_to(struct unwind_rule rule, struct unwind_memory *memory, uintptr_t end,
                    const struct unwind_frame *frame, struct unwind_frame *caller, uintptr_t *bx)
{
    const uintptr_t bp_at = rule.bp_at_bp ? frame->bp : end + (uintptr_t)(int64_t)rule.bp * 8;
    if (end <= frame->sp || (rule.bp_at_bp && bp_at < frame->sp) ||
        !unwind_memory_word(memory, unwind_return_at(rule, end), &caller->pc))
        return false;
    caller->pc = unwind_code_address(caller->pc);
    caller->sp = end;
    caller->bp = frame->bp;
    if ((rule.bp || rule.bp_at_bp) && !unwind_memory_word(memory, bp_at, &caller->bp)) return false;
    if (bx != NULL && rule.bx &&
        !unwind_load_bx(rule, memory, rule.how == UNWIND_BP_SAYS ? frame->bp : end, bx))
        return false;
    return caller->pc != 0;
}

/* The return address is still in its register; what the caller's was, nobody knows. */
static bool step_by_register(struct unwind_rule rule, struct unwind_memory *memory,
                             const struct unwind_frame *frame, struct unwind_frame *caller,
                             uintptr_t *bx)
{
    const uintptr_t end = frame->sp + (uintptr_t)(int64_t)rule.offset;
    *caller = (struct unwind_frame){unwind_code_address(*bx), end, frame->bp};
    *bx = 0;
    return end >= frame->sp && caller->pc != 0 &&
           (!rule.bp ||
            unwind_memory_word(memory, end + (uintptr_t)(int64_t)rule.bp * 8, &caller->bp));
}

const struct unwind_rule unwind_guess = UNWIND_GUESS;

/* Copies the code: what is generated may go at any time. */
static bool look_behind(const struct unwind_memory *memory, uintptr_t pc)
{
    uint8_t code[UNWIND_CALL_BYTES_MAX + 1]; /* one more, which may be read, but is not known */
    code[UNWIND_CALL_BYTES_MAX] = 0;
    return os_memory_copy(memory->thread_id, code, (const void *)(pc - UNWIND_CALL_BYTES_MAX),
                          UNWIND_CALL_BYTES_MAX) == UNWIND_CALL_BYTES_MAX &&
           unwind_is_behind_call(code + UNWIND_CALL_BYTES_MAX);
}

static uint32_t known_at(uintptr_t number)
{
    return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) % UNWIND_CALLS;
}

/* Whether the instruction before `pc` is a call. */
static bool is_behind_call(struct unwind_memory *memory, uintptr_t pc)
{
    uintptr_t *known = &memory->calls[known_at(pc)];
    if (memory->calls_asked++ % UNWIND_CALLS_ASKED == 0) {
        memset(memory->calls, 0, sizeof memory->calls);
        memset(memory->pages, 0, sizeof memory->pages);
    }
    if (*known >> 1 != pc || pc == 0) *known = pc << 1 | look_behind(memory, pc);
    return *known & 1;
}

/* The same of any word. If none of some words that point into a page is behind a call, that has no
 * code: most are data, such as objects of JavaScript. */
static bool may_be_behind_call(struct unwind_memory *memory, uintptr_t word)
{
    const uintptr_t page = word & ~(UNWIND_PAGE_BYTES - 1);
    uintptr_t *known = &memory->pages[known_at(page)];
    if ((*known & ~(UNWIND_PAGE_BYTES - 1)) != page) *known = page;
    if (*known - page >= PAGE_ASKED_MAX) return false;
    if (is_behind_call(memory, word)) {
        *known = 0;
        return true;
    }
    ++*known;
    return false;
}

/* Whether this word of the frame may be a return address: then the frame may end there, and the
 * frame pointer belong to a function further out. (An earlier call may also have left it.) */
static bool may_be_return_address(struct unwind_memory *memory, const struct unwind_frame *frame,
                                  uintptr_t at)
{
    struct unwind_object object;
    uintptr_t word;
    if (!unwind_memory_word(memory, at, &word)) return true;
    if (word - frame->sp < STACK_FAR) return false;
    const bool is_near = word - frame->pc < GENERATED_FAR || frame->pc - word < GENERATED_FAR;
    return (is_near || unwind_find(word - 1, &object)) && may_be_behind_call(memory, word);
}

static bool step_by_guess(struct unwind_memory *memory, const struct unwind_frame *frame,
                          struct unwind_frame *caller)
{
    if (frame->sp % 8 || frame->bp % 8 || frame->bp < frame->sp ||
        frame->bp - frame->sp > GUESS_BYTES_MAX ||
        (frame->sp < memory->own_to && frame->bp >= memory->own_to - 16) ||
        !is_behind_call(memory, frame->pc))
        return false;
    for (uintptr_t at = frame->sp; at < frame->bp; at += 8)
        if (may_be_return_address(memory, frame, at)) return false;
    caller->sp = frame->bp + 16;
    return unwind_memory_word(memory, frame->bp, &caller->bp) &&
           unwind_memory_word(memory, frame->bp + 8, &caller->pc) &&
           is_behind_call(memory, caller->pc);
}

bool unwind_step_rarely(struct unwind_rule rule, struct unwind_memory *memory,
                        const struct unwind_frame *frame, struct unwind_frame *caller,
                        uintptr_t *bx)
{
    uintptr_t end = 0;
    switch (rule.how) {
    case UNWIND_SIGNAL: return step_out_of_signal(memory, frame->sp, caller, bx);
    case UNWIND_PLT:
        if (unwind_is_guess(rule)) return bx == NULL && step_by_guess(memory, frame, caller);
        end = frame->sp + ((frame->pc - 1) % 16 >= (uintptr_t)(int64_t)rule.offset ? 16 : 8);
        break;
    case UNWIND_BX:
        if (bx == NULL) return false;
        if (!UNWIND_RETURN_OFFSET) return step_by_register(rule, memory, frame, caller, bx);
        end = *bx + (uintptr_t)(int64_t)rule.offset;
        break;
    case UNWIND_BP_SAYS:
        /* A word below the frame may be on another stack. */
        if (frame->bp + (uintptr_t)(int64_t)rule.offset < frame->sp ||
            !unwind_memory_word(memory, frame->bp + (uintptr_t)(int64_t)rule.offset, &end))
            return false;
        break;
    default: return false;
    }
    return step_to(rule, memory, end, frame, caller, bx);
}
