// code_aarch64 - functions that no compiler makes: ARCH_FILE(code). Global, because the linker takes
// addresses of local ones for that of their section.
#ifndef MALLOCTAPE_TESTS_CODE_AARCH64_H
#define MALLOCTAPE_TESTS_CODE_AARCH64_H

// A store that faults has no call before it: the function is interrupted at its first instruction,
// with its return address in a register.
__asm__(".type faults_at_once, %function\n"
        ".globl faults_at_once\n.hidden faults_at_once\n"
        "faults_at_once:\n"
        ".cfi_startproc\n"
        "str wzr, [x0]\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size faults_at_once, . - faults_at_once\n");

// Calls the function, and has no table.
__asm__(".type without_table, %function\n"
        ".globl without_table\n.hidden without_table\n"
        "without_table:\n"
        "stp x29, x30, [sp, #-16]!\n"
        "mov x29, sp\n"
        "blr x0\n"
        "behind_call:\n"
        "ldp x29, x30, [sp], #16\n"
        "ret\n"
        ".size without_table, . - without_table\n");

// The same; its return address is signed, where the processor does that (paciasp, autiasp), and
// saved in an unusual place.
__asm__(".type with_odd_frame, %function\n"
        ".globl with_odd_frame\n.hidden with_odd_frame\n"
        "with_odd_frame:\n"
        ".cfi_startproc\n"
        "hint #25\n"
        ".cfi_negate_ra_state\n"
        "sub sp, sp, #64\n"
        ".cfi_def_cfa_offset 64\n"
        "str x30, [sp, #40]\n"
        ".cfi_offset x30, -24\n"
        "blr x0\n"
        "ldr x30, [sp, #40]\n"
        ".cfi_restore x30\n"
        "add sp, sp, #64\n"
        ".cfi_def_cfa_offset 0\n"
        "hint #29\n"
        ".cfi_negate_ra_state\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size with_odd_frame, . - with_odd_frame\n");

// As without_table().
__asm__(".type with_frame_pointer, %function\n"
        ".globl with_frame_pointer\n.hidden with_frame_pointer\n"
        "with_frame_pointer:\n"
        "stp x29, x30, [sp, #-16]!\n"
        "mov x29, sp\n"
        "blr x0\n"
        "behind_framed_call:\n"
        "ldp x29, x30, [sp], #16\n"
        "ret\n"
        ".size with_frame_pointer, . - with_frame_pointer\n");

// The same with any value in x29.
__asm__(".type with_any_bp, %function\n"
        ".globl with_any_bp\n.hidden with_any_bp\n"
        "with_any_bp:\n"
        "stp x29, x30, [sp, #-16]!\n"
        "mov x29, x1\n"
        "blr x0\n"
        "ldp x29, x30, [sp], #16\n"
        "ret\n"
        ".size with_any_bp, . - with_any_bp\n");

// The same; its table says that the frame ends behind where x29 points.
__asm__(".type with_wrong_table, %function\n"
        ".globl with_wrong_table\n.hidden with_wrong_table\n"
        "with_wrong_table:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, #-16]!\n"
        "mov x29, x1\n"
        ".cfi_def_cfa x29, 16\n"
        ".cfi_offset x30, -8\n"
        ".cfi_offset x29, -16\n"
        "blr x0\n"
        "ldp x29, x30, [sp], #16\n"
        ".cfi_def_cfa sp, 0\n"
        ".cfi_restore x30\n"
        ".cfi_restore x29\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size with_wrong_table, . - with_wrong_table\n");

#define FOLLOWS_FRAME_POINTERS 0

#endif
