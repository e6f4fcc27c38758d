/* unwind_x86_64 - see unwind.h: registers, and where a caller's are.
 *
 * What is called bx there is rbx. The return address lies below the frame's end. */
#ifndef MALLOCTAPE_UNWIND_X86_64_H
#define MALLOCTAPE_UNWIND_X86_64_H

/* Numbers of registers in the tables. */
enum { UNWIND_NUMBER_BX = 3, UNWIND_NUMBER_BP = 6, UNWIND_NUMBER_SP = 7, UNWIND_NUMBER_PC = 16 };

/* What the kernel has put on the stack for a signal: from the stack pointer that
 * __restore_rt has. */
enum {
    UNWIND_SIGNAL_BP = 120,
    UNWIND_SIGNAL_BX = 128,
    UNWIND_SIGNAL_SP = 160,
    UNWIND_SIGNAL_PC = 168,
    UNWIND_SIGNAL_SEGMENTS = 184, /* of code, in the lower half, and others */
    UNWIND_SIGNAL_CODE_SEGMENT = 0x33
};

/* Whether what the kernel puts there for a signal may begin at `sp`: below it the handler has an
 * address to return to, where rt_sigreturn(2) is called. */
static inline bool unwind_may_be_signal(struct unwind_memory *memory, uintptr_t sp)
{
    static const uint8_t returns[] = {0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
    uint8_t code[sizeof returns + 1];
    uintptr_t back, segments;
    /* sigaction() leaves the address of that code on the stack, too. */
    return unwind_memory_word(memory, sp + UNWIND_SIGNAL_SEGMENTS, &segments) &&
           (segments & UINT16_MAX) == UNWIND_SIGNAL_CODE_SEGMENT &&
           unwind_memory_word(memory, sp - 8, &back) &&
           unwind_memory_copy(memory, back, code, sizeof code) &&
           memcmp(code + 1, returns, sizeof returns) == 0;
}

/* Tables say where the return address is: always there. */
#define UNWIND_RETURN_OFFSET (-8)

static inline uintptr_t unwind_return_at(struct unwind_rule rule, uintptr_t end)
{
    (void)rule;
    return end - 8;
}

static inline uintptr_t unwind_code_address(uintptr_t word)
{
    return word;
}

/* Tables say which code a signal's handler returns to. */
#define UNWIND_SIGNAL_CODE_BYTES 0

static inline bool unwind_ends_signal(const uint32_t *code)
{
    (void)code;
    return false;
}

/* The frame of generated code: rbp points to the caller's, and above that is the return address. */
#define UNWIND_GUESS                               \
    {                                              \
        .how = UNWIND_PLT, .bp_at_bp = 1, .bp = -2 \
    }

/* The most bytes of a call instruction: E8 and four bytes, or FF with 2 in the middle of the next
 * byte, which says how many follow. */
#define UNWIND_CALL_BYTES_MAX 7

static inline int unwind_indirect_call_bytes(const uint8_t *code)
{
    const int mode = code[1] >> 6, base = code[1] & 7;
    const bool has_index = mode != 3 && base == 4;
    const bool is_far = mode == 2 || (mode == 0 && (has_index ? code[2] & 7 : base) == 5);
    return 2 + has_index + (is_far ? 4 : mode == 1);
}

static inline bool unwind_is_behind_call(const uint8_t *code)
{
    if (code[-5] == 0xe8) return true;
    for (int bytes = 2; bytes <= UNWIND_CALL_BYTES_MAX; bytes++)
        if (code[-bytes] == 0xff && (code[1 - bytes] >> 3 & 7) == 2 &&
            unwind_indirect_call_bytes(code - bytes) == bytes)
            return true;
    return false;
}

/* The frame of the calling function. */
static inline __attribute__((always_inline)) void unwind_here(struct unwind_frame *frame,
                                                              uintptr_t *bx)
{
    __asm__ volatile("leaq 0f(%%rip), %0\n"
                     "0:\tmovq %%rsp, %1\n"
                     "\tmovq %%rbp, %2\n"
                     "\tmovq %%rbx, %3"
                     : "=&r"(frame->pc), "=&r"(frame->sp), "=&r"(frame->bp), "=&r"(*bx)
                     :
                     : "memory");
    frame->pc++;
}

#endif
