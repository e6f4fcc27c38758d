/* registers_aarch64 - see registers.h.
 *
 * Before a thread stops in a system call, the kernel sets it back to the instruction that makes the
 * call, with its arguments, and forgets the call. A call that is not to be restarted has returned
 * -EINTR instead: then the thread is after the instruction. */
#ifndef MALLOCTAPE_ATTACH_REGISTERS_AARCH64_H
#define MALLOCTAPE_ATTACH_REGISTERS_AARCH64_H

#include <errno.h>

#define REGISTERS_KEEP_ARGUMENTS 0
/* Not syscall(): if a thread has stopped there, and then continues at the same instruction with
 * other registers, the kernel takes that for the restart of the interrupted system call. */
#define REGISTERS_SYSTEM_CALL_IN "getpid"

#define REGISTERS_SVC                    0xd4000001u
/* mov xREGISTER, #NUMBER */
#define REGISTERS_MOVE(register, number) (0xd2800000u | (uint32_t)(number) << 5 | (register))
/* Bits of pstate: the type of the last indirect branch, and single-stepping. */
#define REGISTERS_BRANCH_AND_STEP        0x200c00u

static const uint32_t registers_system_call[] = {REGISTERS_SVC};

static const uint32_t registers_sigreturn[] = {REGISTERS_MOVE(8, SYS_rt_sigreturn), REGISTERS_SVC};

/* x19: the function, x20: where the result goes, x22: the frame. */
static const uint32_t registers_calling[] = {
    0xd63f0260, /* blr x19 */
    0xf9000280, /* str x0, [x20] */
    REGISTERS_MOVE(8, SYS_getpid),
    REGISTERS_SVC,
    0xaa0003f5, /* mov x21, x0 */
    REGISTERS_MOVE(8, SYS_gettid),
    REGISTERS_SVC,
    0xaa0003e1, /* mov x1, x0 */
    0xaa1503e0, /* mov x0, x21 */
    REGISTERS_MOVE(2, SIGURG),
    REGISTERS_MOVE(8, SYS_tgkill),
    REGISTERS_SVC,
    0x910002df, /* mov sp, x22 */
    REGISTERS_MOVE(8, SYS_rt_sigreturn),
    REGISTERS_SVC,
};
#define REGISTERS_CALLED (sizeof registers_calling - 12)

static inline bool registers_get(pid_t thread, struct user_regs_struct *registers)
{
    struct iovec all = {registers, sizeof *registers};
    return ptrace(PTRACE_GETREGSET, thread, (void *)NT_PRSTATUS, &all) == 0;
}

/* Tells the kernel that the thread is not in a system call. Otherwise, at a stop after one, it
 * would take some results for a request to restart it. */
static inline bool registers_put(pid_t thread, const struct user_regs_struct *registers)
{
    int none = -1;
    struct iovec all = {(void *)(uintptr_t)registers, sizeof *registers};
    struct iovec call = {&none, sizeof none};
    return ptrace(PTRACE_SETREGSET, thread, (void *)NT_PRSTATUS, &all) == 0 &&
           ptrace(PTRACE_SETREGSET, thread, (void *)NT_ARM_SYSTEM_CALL, &call) == 0;
}

/* The SVE registers include the others. */
static inline bool registers_vectors_get(pid_t thread, struct iovec *vectors, int *kind)
{
    const size_t room = vectors->iov_len;
    *kind = NT_ARM_SVE;
    if (ptrace(PTRACE_GETREGSET, thread, (void *)(long)*kind, vectors) == 0) return true;
    *kind = NT_PRFPREG;
    vectors->iov_len = room;
    return ptrace(PTRACE_GETREGSET, thread, (void *)(long)*kind, vectors) == 0;
}

static inline uint64_t registers_code(const struct user_regs_struct *registers)
{
    return registers->pc;
}

static inline uint64_t registers_stack(const struct user_regs_struct *registers)
{
    return registers->sp;
}

static inline uint64_t registers_result(const struct user_regs_struct *registers)
{
    return registers->regs[0];
}

static inline void registers_return(struct user_regs_struct *registers, uint64_t result)
{
    registers->regs[0] = result;
}

static inline uint64_t registers_caller(const struct user_regs_struct *registers)
{
    return registers->regs[30];
}

static inline bool registers_is_call_at(pid_t thread, uint64_t code)
{
    errno = 0;
    const long word =
        ptrace(PTRACE_PEEKDATA, thread, (void *)(uintptr_t)(code & -UINT64_C(8)), NULL);
    return errno == 0 && (uint32_t)((uint64_t)word >> (code & 4) * 8) == REGISTERS_SVC;
}

static inline long registers_waits_in(pid_t thread, const struct user_regs_struct *registers)
{
    return registers_is_call_at(thread, registers->pc) ||
                   registers_is_call_at(thread, registers->pc - 4)
               ? (long)registers->regs[8]
               : -1;
}

/* The first is lost if the call has returned. */
static inline void registers_arguments(const struct user_regs_struct *registers,
                                       uint64_t arguments[6])
{
    for (unsigned i = 0; i < 6; i++)
        arguments[i] = registers->regs[i];
}

static inline bool registers_was_interrupted(const struct user_regs_struct *registers)
{
    return (int64_t)registers->regs[0] == -EINTR;
}

static inline void registers_make_again(struct user_regs_struct *registers,
                                        const uint64_t arguments[6])
{
    registers->regs[0] = arguments[0];
    registers->pc -= sizeof registers_system_call;
}

static inline void registers_to_system_call(struct user_regs_struct *registers, uint64_t code,
                                            uint64_t stack, uint64_t back, long number,
                                            const uint64_t arguments[6])
{
    registers->pstate &= ~(unsigned long long)REGISTERS_BRANCH_AND_STEP;
    registers->pc = code;
    registers->sp = stack;
    registers->regs[30] = back;
    registers->regs[8] = (uint64_t)number;
    for (unsigned i = 0; i < 6; i++)
        registers->regs[i] = arguments[i];
}

static inline void registers_to_call(struct user_regs_struct *registers, uint64_t code,
                                     uint64_t frame, uint64_t function, uint64_t first,
                                     uint64_t second, uint64_t place)
{
    registers->pstate &= ~(unsigned long long)REGISTERS_BRANCH_AND_STEP;
    registers->pc = code;
    registers->sp = frame & -UINT64_C(16);
    registers->regs[19] = function;
    registers->regs[20] = place;
    registers->regs[22] = frame;
    registers->regs[0] = first;
    registers->regs[1] = second;
}

#endif
