/* registers_x86_64 - see registers.h. */
#ifndef MALLOCTAPE_ATTACH_REGISTERS_X86_64_H
#define MALLOCTAPE_ATTACH_REGISTERS_X86_64_H

#include <errno.h>

#define REGISTERS_KEEP_ARGUMENTS 1
#define REGISTERS_SYSTEM_CALL_IN "syscall"

static const unsigned char registers_system_call[] = {0x0f, 0x05};

/* mov $15, %rax; syscall */
static const unsigned char registers_sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

/* rax: the function, rbx: where the result goes, rbp: the frame. */
static const unsigned char registers_calling[] = {
    0xff, 0xd0, /* call *%rax */
    0x48, 0x89,
    0x03, /* mov %rax,(%rbx) */
    0xb8, SYS_getpid,
    0,    0,
    0,          /* mov $SYS_getpid,%eax */
    0x0f, 0x05, /* syscall */
    0x89, 0xc7, /* mov %eax,%edi */
    0xb8, SYS_gettid,
    0,    0,
    0,          /* mov $SYS_gettid,%eax */
    0x0f, 0x05, /* syscall */
    0x89, 0xc6, /* mov %eax,%esi */
    0xba, SIGURG,
    0,    0,
    0, /* mov $SIGURG,%edx */
    0xb8, SYS_tgkill,
    0,    0,
    0,          /* mov $SYS_tgkill,%eax */
    0x0f, 0x05, /* syscall */
    0x48, 0x89,
    0xec, /* mov %rbp,%rsp */
    0xb8, SYS_rt_sigreturn,
    0,    0,
    0,          /* mov $SYS_rt_sigreturn,%eax */
    0x0f, 0x05, /* syscall */
};
#define REGISTERS_CALLED (sizeof registers_calling - 10)

static inline bool registers_get(pid_t thread, struct user_regs_struct *registers)
{
    return ptrace(PTRACE_GETREGS, thread, NULL, registers) == 0;
}

static inline bool registers_put(pid_t thread, const struct user_regs_struct *registers)
{
    return ptrace(PTRACE_SETREGS, thread, NULL, registers) == 0;
}

static inline bool registers_vectors_get(pid_t thread, struct iovec *vectors, int *kind)
{
    *kind = NT_X86_XSTATE;
    return ptrace(PTRACE_GETREGSET, thread, (void *)(long)*kind, vectors) == 0;
}

static inline uint64_t registers_code(const struct user_regs_struct *registers)
{
    return registers->rip;
}

static inline uint64_t registers_stack(const struct user_regs_struct *registers)
{
    return registers->rsp;
}

static inline uint64_t registers_result(const struct user_regs_struct *registers)
{
    return registers->rax;
}

static inline void registers_return(struct user_regs_struct *registers, uint64_t result)
{
    registers->rax = result;
    registers->orig_rax = UINT64_MAX;
}

static inline uint64_t registers_caller(const struct user_regs_struct *registers)
{
    (void)registers;
    return 0;
}

static inline long registers_waits_in(pid_t thread, const struct user_regs_struct *registers)
{
    (void)thread;
    return (int64_t)registers->orig_rax >= 0 ? (long)registers->orig_rax : -1;
}

static inline void registers_arguments(const struct user_regs_struct *registers,
                                       uint64_t arguments[6])
{
    arguments[0] = registers->rdi;
    arguments[1] = registers->rsi;
    arguments[2] = registers->rdx;
    arguments[3] = registers->r10;
    arguments[4] = registers->r8;
    arguments[5] = registers->r9;
}

static inline bool registers_was_interrupted(const struct user_regs_struct *registers)
{
    return (int64_t)registers->orig_rax >= 0 && (int64_t)registers->rax == -EINTR;
}

static inline void registers_make_again(struct user_regs_struct *registers,
                                        const uint64_t arguments[6])
{
    (void)arguments; /* the registers have kept them */
    registers->rax = registers->orig_rax;
    registers->rip -= sizeof registers_system_call;
    registers->orig_rax = UINT64_MAX;
}

/* Keeps the kernel from restarting a system call; clears the direction and single-step flags. */
static inline void registers_leave(struct user_regs_struct *registers)
{
    registers->orig_rax = UINT64_MAX;
    registers->eflags &= ~UINT64_C(0x500);
}

/* `back` is at `stack`. */
static inline void registers_to_system_call(struct user_regs_struct *registers, uint64_t code,
                                            uint64_t stack, uint64_t back, long number,
                                            const uint64_t arguments[6])
{
    (void)back;
    registers_leave(registers);
    registers->rip = code;
    registers->rsp = stack;
    registers->rax = (uint64_t)number;
    registers->rdi = arguments[0];
    registers->rsi = arguments[1];
    registers->rdx = arguments[2];
    registers->r10 = arguments[3];
    registers->r8 = arguments[4];
    registers->r9 = arguments[5];
}

static inline void registers_to_call(struct user_regs_struct *registers, uint64_t code,
                                     uint64_t frame, uint64_t function, uint64_t first,
                                     uint64_t second, uint64_t place)
{
    registers_leave(registers);
    registers->rip = code;
    registers->rsp = frame & -UINT64_C(16);
    registers->rbp = frame + sizeof(uint64_t); /* after the return address */
    registers->rbx = place;
    registers->rax = function;
    registers->rdi = first;
    registers->rsi = second;
}

#endif
