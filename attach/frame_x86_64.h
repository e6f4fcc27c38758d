/* frame_x86_64 - see frame.h. `restorer` is at `start`; at rt_sigreturn(2), rsp must be `start` +
 * 8. */
#ifndef MALLOCTAPE_ATTACH_FRAME_X86_64_H
#define MALLOCTAPE_ATTACH_FRAME_X86_64_H

#include <cpuid.h>

/* Linux's flags in uc_flags: there is an area of vector registers, and ss is restored. */
#define UC_FP_XSTATE         0x1ul
#define UC_SIGCONTEXT_SS     0x2ul
#define UC_STRICT_RESTORE_SS 0x4ul
/* Makes rt_sigreturn() leave the alternative stack as it is. */
#define STACK_UNCHANGED      0x100
/* The kernel's own data in the area of vector registers of a signal frame (struct software). */
#define SOFTWARE_OFFSET      464
#define MAGIC_BEHIND         0x46505845u
/* The area begins with registers that all processors have, and a set of the parts in use; where each
 * part lies, CPUID says. */
enum {
    VECTORS_BASE_BYTES = 576,
    VECTORS_USED_OFFSET = 512,
    VECTORS_ALWAYS = 3,
    VECTORS_CPUID = 0xd
};
enum { SYSCALL_BYTES = 2, SIGNALS_BYTES = 8, VECTORS_ALIGNMENT = 64 };
/* Errors internal to the kernel: how to restart a system call that a signal has interrupted. */
enum { RESTART_SYS = 512, RESTART_NO_INTR = 513, RESTART_NO_HAND = 514, RESTART_BLOCK = 516 };

struct software {
    uint32_t magic, extended_bytes;
    uint64_t features;
    uint32_t bytes, unused[7];
};

/* Copied from a signal frame of this process: the set of registers depends only on the machine. */
static struct software software;

static void software_take(int number, siginfo_t *about, void *context)
{
    const ucontext_t *of = context;
    (void)number, (void)about;
    memcpy(&software, (const char *)of->uc_mcontext.fpregs + SOFTWARE_OFFSET, sizeof software);
}

static void software_find(void)
{
    const struct sigaction action = {.sa_sigaction = software_take, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    sigset_t urgent, mask;
    if (software.bytes != 0) return;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    sigaction(SIGURG, &action, &before);
    sigprocmask(SIG_UNBLOCK, &urgent, &mask);
    raise(SIGURG);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGURG, &before, NULL);
}

/* Restarts a system call as the kernel does when it returns to the program without a handler. The
 * kernel has forgotten the remaining time by then; if this call was already such a restart, nothing
 * is known but that. */
static void restart(struct user_regs_struct *registers)
{
    if ((int64_t)registers->orig_rax < 0) return;
    switch (-(int64_t)registers->rax) {
    case RESTART_SYS:
    case RESTART_NO_INTR:
    case RESTART_NO_HAND:
    case RESTART_BLOCK: registers->rax = registers->orig_rax; break;
    default: return;
    }
    registers->rip -= SYSCALL_BYTES;
}

/* Shortens the area of vector registers to the parts that are in use: the kernel clears the others.
 * Often, this leaves out kilobytes. The result: its size. */
static size_t vectors_shorten(const struct frame_state *state, struct software *of)
{
    uint64_t used;
    size_t bytes = VECTORS_BASE_BYTES;
    *of = software;
    if (state->vectors_bytes < VECTORS_BASE_BYTES || software.bytes > state->vectors_bytes)
        return software.bytes < state->vectors_bytes ? software.bytes : state->vectors_bytes;
    memcpy(&used, state->vectors + VECTORS_USED_OFFSET, sizeof used);
    used = (used | VECTORS_ALWAYS) & software.features;
    for (unsigned i = 2; i < 63; i++) {
        unsigned part = 0, start = 0, c, d;
        if ((used >> i & 1) == 0 || !__get_cpuid_count(VECTORS_CPUID, i, &part, &start, &c, &d))
            continue;
        if (start + part > bytes) bytes = start + part;
    }
    of->features = used;
    of->bytes = (uint32_t)bytes;
    of->extended_bytes = (uint32_t)(bytes + sizeof(uint32_t));
    return bytes;
}

static void context_put(ucontext_t *to, const struct user_regs_struct *from)
{
    greg_t *registers = to->uc_mcontext.gregs;
    registers[REG_R8] = (greg_t)from->r8;
    registers[REG_R9] = (greg_t)from->r9;
    registers[REG_R10] = (greg_t)from->r10;
    registers[REG_R11] = (greg_t)from->r11;
    registers[REG_R12] = (greg_t)from->r12;
    registers[REG_R13] = (greg_t)from->r13;
    registers[REG_R14] = (greg_t)from->r14;
    registers[REG_R15] = (greg_t)from->r15;
    registers[REG_RDI] = (greg_t)from->rdi;
    registers[REG_RSI] = (greg_t)from->rsi;
    registers[REG_RBP] = (greg_t)from->rbp;
    registers[REG_RBX] = (greg_t)from->rbx;
    registers[REG_RDX] = (greg_t)from->rdx;
    registers[REG_RAX] = (greg_t)from->rax;
    registers[REG_RCX] = (greg_t)from->rcx;
    registers[REG_RSP] = (greg_t)from->rsp;
    registers[REG_RIP] = (greg_t)from->rip;
    registers[REG_EFL] = (greg_t)from->eflags;
    registers[REG_CSGSFS] = (greg_t)((from->cs & 0xffff) | (from->gs & 0xffff) << 16 |
                                     (from->fs & 0xffff) << 32 | (from->ss & 0xffff) << 48);
}

void frame_make(struct frame *frame, const struct frame_state *state, uint64_t end,
                uint64_t restorer)
{
    static const uint32_t behind = MAGIC_BEHIND;
    struct user_regs_struct registers = state->registers;
    const size_t context_bytes = offsetof(ucontext_t, uc_sigmask) + SIGNALS_BYTES;
    struct software used;
    software_find();
    const size_t vectors_bytes = vectors_shorten(state, &used);
    const uint64_t vectors = (end - vectors_bytes - sizeof behind) & -(uint64_t)VECTORS_ALIGNMENT;
    const uint64_t context = (vectors - context_bytes) & -(uint64_t)16;
    restart(&registers);
    ucontext_t all;
    memset(&all, 0, sizeof all);
    all.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    all.uc_stack.ss_flags = STACK_UNCHANGED;
    all.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)vectors; /* in the process */
    context_put(&all, &registers);
    memcpy(&all.uc_sigmask, &state->blocked, sizeof state->blocked);
    frame->start = context - sizeof restorer;
    frame->bytes_used = (size_t)(vectors - frame->start) + vectors_bytes + sizeof behind;
    unsigned char *at = frame->bytes + (vectors - frame->start);
    memcpy(frame->bytes, &restorer, sizeof restorer);
    memcpy(frame->bytes + sizeof restorer, &all, context_bytes);
    memcpy(at, state->vectors, vectors_bytes);
    memcpy(at + SOFTWARE_OFFSET, &used, sizeof used);
    memcpy(at + vectors_bytes, &behind, sizeof behind);
}

#endif
