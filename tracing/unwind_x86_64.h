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
    UNWIND_SIGNAL_PC = 168
};

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

/* Where the calling function is. */
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
