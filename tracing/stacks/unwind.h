/* unwind - from a function's frame to that of its caller, by the rules that compilers leave in
 * .eh_frame.
 *
 *   an address of code --unwind_compile()--> struct unwind_rule --unwind_step()--> the caller's frame
 *
 * A rule says for one address where the frame ends and which registers are saved there. Only the
 * registers that rules refer to are followed: the stack pointer, rbp, and, where a rule asks for
 * it, rbx. Names are those of x86-64; unwind_aarch64.h has the registers there.
 *
 * Any address may come from a frame that is none, and any file may have a table that is wrong. So
 * the stack, and all that an object has, is read by unwind_memory.h, which never faults; but for the
 * program's own table, which nobody unloads.
 *
 * Threads   any, also in signal handlers: there are no locks, no memory is taken, and the functions
 *           need less than 1 KiB of stack. */
#ifndef MALLOCTAPE_UNWIND_H
#define MALLOCTAPE_UNWIND_H

#include "common/arch.h"
#include "tracing/stacks/unwind_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum unwind_how {
    UNWIND_UNKNOWN = 0, /* no table has this address, or its rule is not understood here */
    UNWIND_OUTERMOST,   /* nobody has called this function */
    /* The frame ends `offset` bytes above: */
    UNWIND_SP,
    UNWIND_BP,
    UNWIND_BX,
    /* or where the word that is `offset` bytes above rbp says: */
    UNWIND_BP_SAYS,
    UNWIND_SIGNAL, /* a signal: the kernel has saved the registers of the interrupted function */
    UNWIND_PLT     /* 8 bytes above, or 16 from byte `offset` of each 16 bytes of code on */
    /* With bp_at_bp, UNWIND_PLT is a guess (unwind_guess). */
};

struct unwind_rule {
    uint64_t how : 3;         /* enum unwind_how */
    uint64_t bp_at_bp : 1;    /* the caller's rbp is where rbp points */
    int64_t offset : 28;      /* in bytes */
    int64_t bp : 16, bx : 16; /* where the caller's registers are: words above the frame's end (rbx
                                 with UNWIND_BP_SAYS: above rbp); 0: they are the same */
};

/* rbx is saved somewhere else. */
#define UNWIND_BX_ELSEWHERE (-0x8000)

/* A function that has called another one, or has been interrupted. */
struct unwind_frame {
    uintptr_t pc; /* where it goes on; one more if it has been interrupted: so the instruction that
                     it is in is at or before pc - 1 */
    uintptr_t sp, bp;
};

#include ARCH_FILE(unwind)

/* An object that the dynamic linker has loaded. */
struct unwind_object {
    uintptr_t start, end; /* as mapped */
    const void *id;       /* other objects that are there at the same time have another one */
    uintptr_t table;      /* .eh_frame_hdr; 0: none */
    /* What unwind_learn() adds. */
    uintptr_t bias;                 /* addresses in memory less those in the file */
    uintptr_t path;                 /* as the linker has it; 0: this is the program */
    uintptr_t stays_from, stays_to; /* of its tables, what can be read as it is */
    uint32_t functions;             /* that the table's index has */
};

/* Whether the system can find objects without a lock: glibc 2.35. */
bool unwind_can_find(void);

/* The object that has this address; without what unwind_learn() adds. */
bool unwind_find(uintptr_t address, struct unwind_object *object);

/* False: it has gone meanwhile. */
bool unwind_learn(struct unwind_memory *memory, struct unwind_object *object);

/* Reads bytes of the object. False: they cannot be read. */
bool unwind_read(struct unwind_memory *memory, const struct unwind_object *object, uintptr_t from,
                 void *to, size_t bytes);

/* The same of a text of the linker's, its path. */
bool unwind_read_text(struct unwind_memory *memory, uintptr_t from, void *to, size_t bytes);

/* The rule of the function that goes on at `pc`, by its object's table. */
struct unwind_rule unwind_compile(struct unwind_memory *memory, const struct unwind_object *object,
                                  uintptr_t pc);

/* Where the code is that has this address, by its object's table: a function, or a part of one that the
 * compiler has put elsewhere. */
bool unwind_function(struct unwind_memory *memory, const struct unwind_object *object,
                     uintptr_t address, uintptr_t *start, uintptr_t *end);

/* The rule of generated code, such as node's, which is in no object, or in a large part of one that
 * its table leaves out. Such code has no rules, but mostly keeps frame pointers. A step by this is
 * taken only if all that is read agrees: a call precedes the address at which the function goes on,
 * and that of its caller, and no other return address lies between the stack pointer and the frame
 * pointer, which is then the function's own and not that of one further out. On aarch64 no step is
 * taken: a frame pointer does not say where the frame ends. */
extern const struct unwind_rule unwind_guess;

static inline bool unwind_is_guess(struct unwind_rule rule)
{
    return rule.how == UNWIND_PLT && rule.bp_at_bp;
}

static inline bool unwind_load_bx(struct unwind_rule rule, struct unwind_memory *memory,
                                  uintptr_t from, uintptr_t *bx)
{
    if (!UNWIND_RETURN_OFFSET) {
        *bx = 0; /* has been the return address */
        return true;
    }
    return rule.bx != UNWIND_BX_ELSEWHERE &&
           unwind_memory_word(memory, from + (uintptr_t)(int64_t)rule.bx * 8, bx);
}

bool unwind_step_rarely(struct unwind_rule rule, struct unwind_memory *memory,
                        const struct unwind_frame *frame, struct unwind_frame *caller,
                        uintptr_t *bx);

/* From a frame to its caller's. `bx`: rbx, which is then the caller's; NULL: not known, and a rule
 * that asks for it is not followed. False: the caller's frame cannot be read, or makes no sense. */
static inline bool unwind_step(struct unwind_rule rule, struct unwind_memory *memory,
                               const struct unwind_frame *frame, struct unwind_frame *caller,
                               uintptr_t *bx)
{
    uintptr_t end;
    switch (rule.how) {
    case UNWIND_SP: end = frame->sp + (uintptr_t)(int64_t)rule.offset; break;
    case UNWIND_BP: end = frame->bp + (uintptr_t)(int64_t)rule.offset; break;
    default: return unwind_step_rarely(rule, memory, frame, caller, bx);
    }
    if (end <= frame->sp || !unwind_memory_word(memory, unwind_return_at(rule, end), &caller->pc))
        return false;
    caller->pc = unwind_code_address(caller->pc);
    caller->bp = frame->bp;
    if (rule.bp && !unwind_memory_word(memory, end + (uintptr_t)(int64_t)rule.bp * 8, &caller->bp))
        return false;
    if (bx != NULL && rule.bx && !unwind_load_bx(rule, memory, end, bx)) return false;
    caller->sp = end;
    return caller->pc != 0;
}

#ifdef __cplusplus
}
#endif
#endif
