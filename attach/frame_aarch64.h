/* frame_aarch64 - see frame.h. At rt_sigreturn(2), sp must be `start`. */
#ifndef MALLOCTAPE_ATTACH_FRAME_AARCH64_H
#define MALLOCTAPE_ATTACH_FRAME_AARCH64_H

#include <asm/ptrace.h>
#include <asm/sigcontext.h>
#include <elf.h>

/* Makes rt_sigreturn() leave the alternative stack as it is. */
#define STACK_UNCHANGED 0x100
/* The size of the kernel's struct siginfo, which is not read. */
enum { ABOUT_BYTES = 128, SIGNALS_BYTES = 8 };

/* Puts the SVE registers if there is room for them: vectors of up to 64 bytes, which no processor
 * exceeds today. With longer ones, only the registers common to all processors are restored. */
static size_t scalable_put(unsigned char *at, const unsigned char *end,
                           const unsigned char *vectors, const struct user_sve_header *header)
{
    const unsigned quads = sve_vq_from_vl(header->vl);
    const struct sve_context context = {
        .head = {SVE_MAGIC, (uint32_t)((SVE_SIG_CONTEXT_SIZE(quads) + 15) & -(size_t)16)},
        .vl = header->vl};
    if (context.head.size + sizeof(struct _aarch64_ctx) > (size_t)(end - at)) return 0;
    memcpy(at, &context, sizeof context);
    memcpy(at + SVE_SIG_REGS_OFFSET, vectors + SVE_PT_SVE_OFFSET,
           SVE_SIG_CONTEXT_SIZE(quads) - SVE_SIG_REGS_OFFSET);
    return context.head.size;
}

/* Puts records with the vector registers; an empty one ends them. The result: their bytes. */
static size_t vectors_put(unsigned char *at, const unsigned char *end,
                          const struct frame_state *state)
{
    struct fpsimd_context context = {.head = {FPSIMD_MAGIC, sizeof context}};
    const unsigned char *vectors = state->vectors;
    struct user_fpsimd_state common;
    struct user_sve_header header = {0};
    memset(&common, 0, sizeof common);
    if (state->vectors_kind == NT_ARM_SVE) memcpy(&header, vectors, sizeof header);
    if (state->vectors_kind != NT_ARM_SVE) {
        memcpy(&common, vectors, sizeof common);
    } else if ((header.flags & SVE_PT_REGS_MASK) == SVE_PT_REGS_FPSIMD) {
        memcpy(&common, vectors + SVE_PT_FPSIMD_OFFSET, sizeof common);
    } else {
        const unsigned quads = sve_vq_from_vl(header.vl);
        for (unsigned i = 0; i < 32; i++)
            memcpy(&common.vregs[i], vectors + SVE_PT_SVE_ZREG_OFFSET(quads, i),
                   sizeof common.vregs[i]);
        memcpy(&common.fpsr, vectors + SVE_PT_SVE_FPSR_OFFSET(quads), sizeof common.fpsr);
        memcpy(&common.fpcr, vectors + SVE_PT_SVE_FPCR_OFFSET(quads), sizeof common.fpcr);
    }
    context.fpsr = common.fpsr;
    context.fpcr = common.fpcr;
    memcpy(context.vregs, common.vregs, sizeof context.vregs);
    memcpy(at, &context, sizeof context);
    size_t bytes = sizeof context;
    if ((header.flags & SVE_PT_REGS_MASK) == SVE_PT_REGS_SVE)
        bytes += scalable_put(at + bytes, end, vectors, &header);
    return bytes + sizeof(struct _aarch64_ctx);
}

/* A thread that was in a system call is already at the instruction that makes it
 * (registers_aarch64.h), so it is made again. */
void frame_make(struct frame *frame, const struct frame_state *state, uint64_t end,
                uint64_t restorer)
{
    ucontext_t all;
    (void)restorer; /* in a register */
    memset(&all, 0, sizeof all);
    all.uc_stack.ss_flags = STACK_UNCHANGED;
    memcpy(&all.uc_sigmask, &state->blocked, SIGNALS_BYTES);
    memcpy(all.uc_mcontext.regs, state->registers.regs, sizeof all.uc_mcontext.regs);
    all.uc_mcontext.sp = state->registers.sp;
    all.uc_mcontext.pc = state->registers.pc;
    all.uc_mcontext.pstate = state->registers.pstate;
    /* The kernel reads no further than the last record. */
    unsigned char *records = all.uc_mcontext.__reserved;
    const size_t records_bytes =
        vectors_put(records, records + sizeof all.uc_mcontext.__reserved, state);
    const size_t all_bytes = (size_t)(records - (unsigned char *)&all) + records_bytes;
    frame->bytes_used = (ABOUT_BYTES + all_bytes + 15) & -(size_t)16;
    frame->start = (end - frame->bytes_used) & -(uint64_t)16;
    memset(frame->bytes, 0, ABOUT_BYTES);
    memcpy(frame->bytes + ABOUT_BYTES, &all, all_bytes);
}

#endif
