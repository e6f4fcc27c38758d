/* unwind_aarch64 - see unwind.h: registers, and where a caller's are.
 *
 * What is called bp there is x29. What is called bx is x30, in which a function gets its return
 * address: one that has called another has saved it, and then a rule's `bx` says where. Only where a
 * signal has interrupted a function may it still be in the register (UNWIND_BX, and the frame ends
 * `offset` bytes above sp). */
#ifndef MALLOCTAPE_UNWIND_AARCH64_H
#define MALLOCTAPE_UNWIND_AARCH64_H

/* Numbers of registers in the tables; what is called bx has none of its own. */
enum {
    UNWIND_NUMBER_BX = 0xffff,
    UNWIND_NUMBER_BP = 29,
    UNWIND_NUMBER_SP = 31,
    UNWIND_NUMBER_PC = 30
};

/* What the kernel has put on the stack for a signal: siginfo_t, and a ucontext_t whose registers
 * begin at byte 184. */
enum {
    UNWIND_SIGNAL_X = 128 + 184,
    UNWIND_SIGNAL_BP = UNWIND_SIGNAL_X + 29 * 8,
    UNWIND_SIGNAL_BX = UNWIND_SIGNAL_X + 30 * 8,
    UNWIND_SIGNAL_SP = UNWIND_SIGNAL_X + 31 * 8,
    UNWIND_SIGNAL_PC = UNWIND_SIGNAL_X + 32 * 8
};

/* Whether that may be there. */
static inline bool unwind_may_be_signal(struct unwind_memory *memory, uintptr_t sp)
{
    (void)memory;
    (void)sp;
    return true;
}

/* Rules say where the return address is. */
#define UNWIND_RETURN_OFFSET 0

static inline uintptr_t unwind_return_at(struct unwind_rule rule, uintptr_t end)
{
    return end + (uintptr_t)(int64_t)rule.bx * 8;
}

/* The address without its signature (xpaclri, which does nothing on processors that do not
 * sign). */
static inline uintptr_t unwind_code_address(uintptr_t word)
{
    register uintptr_t x30 __asm__("x30") = word;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

/* No table has the code that a signal's handler returns to: mov x8, #139; svc #0. */
#define UNWIND_SIGNAL_CODE_BYTES 8

static inline bool unwind_ends_signal(const uint32_t *code)
{
    return code[0] == 0xd2801168 && code[1] == 0xd4000001;
}

/* Frames of generated code do not say where the caller's stack pointer was: none is followed. */
#define UNWIND_GUESS          \
    {                         \
        .how = UNWIND_UNKNOWN \
    }
#define UNWIND_CALL_BYTES_MAX 4

static inline bool unwind_is_behind_call(const uint8_t *code)
{
    (void)code;
    return false;
}

/* The frame of the calling function, which calls others: its return address is in no register. */
static inline __attribute__((always_inline)) void unwind_here(struct unwind_frame *frame,
                                                              uintptr_t *bx)
{
    __asm__ volatile("adr %0, 0f\n"
                     "0:\tmov %1, sp\n"
                     "\tmov %2, x29"
                     : "=&r"(frame->pc), "=&r"(frame->sp), "=&r"(frame->bp)
                     :
                     : "memory");
    frame->pc++;
    *bx = 0;
}

#endif
