// code_x86_64 - functions that no compiler makes: ARCH_FILE(code).
#ifndef MALLOCTAPE_TESTS_CODE_X86_64_H
#define MALLOCTAPE_TESTS_CODE_X86_64_H

// A store that faults has no call before it: the function is interrupted at its first instruction.
__asm__(".type faults_at_once, @function\n"
        "faults_at_once:\n"
        ".cfi_startproc\n"
        "movl $0, (%rdi)\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size faults_at_once, . - faults_at_once\n");

// Calls the function, and has no table.
__asm__(".type without_table, @function\n"
        "without_table:\n"
        "subq $24, %rsp\n"
        "call *%rdi\n"
        "behind_call:\n"
        "addq $24, %rsp\n"
        "ret\n"
        ".size without_table, . - without_table\n");

// The same; the end of its frame is where rbx says, as in the dynamic linker's own code.
__asm__(".type with_odd_frame, @function\n"
        "with_odd_frame:\n"
        ".cfi_startproc\n"
        "pushq %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbx, -16\n"
        "movq %rsp, %rbx\n"
        ".cfi_def_cfa_register %rbx\n"
        "andq $-64, %rsp\n"
        "call *%rdi\n"
        "movq %rbx, %rsp\n"
        "popq %rbx\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size with_odd_frame, . - with_odd_frame\n");

// The same, without a table; it keeps a frame pointer, as most code that is made at run time.
__asm__(".type with_frame_pointer, @function\n"
        "with_frame_pointer:\n"
        "pushq %rbp\n"
        "movq %rsp, %rbp\n"
        "pushq $0\n"
        "pushq $0\n"
        "call *%rdi\n"
        "behind_framed_call:\n"
        "leave\n"
        "ret\n"
        ".size with_frame_pointer, . - with_frame_pointer\n");

// The same with any value in rbp.
__asm__(".type with_any_bp, @function\n"
        "with_any_bp:\n"
        "pushq %rbp\n"
        "movq %rsi, %rbp\n"
        "call *%rdi\n"
        "popq %rbp\n"
        "ret\n"
        ".size with_any_bp, . - with_any_bp\n");

// The same; its table says that the frame ends behind where rbp points.
__asm__(".type with_wrong_table, @function\n"
        "with_wrong_table:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        "movq %rsi, %rbp\n"
        ".cfi_def_cfa %rbp, 16\n"
        ".cfi_offset %rbp, -16\n"
        "call *%rdi\n"
        "popq %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size with_wrong_table, . - with_wrong_table\n");

// In other memory, the recorder follows it.
#define FOLLOWS_FRAME_POINTERS 1

// The table for it, for the C++ runtime, but for where it is: CFA = rsp + 8, return address at CFA - 8;
// from byte 1 on CFA = rsp + 16, rbp at CFA - 16; from byte 4 on CFA = rbp + 16.
#ifdef __cplusplus
struct __attribute__((packed)) FrameTable {
    uint32_t common_bytes = 16, common_id = 0;
    uint8_t common[12] = {1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0};
    uint32_t bytes = 28, back = 24;
    uint64_t first, count;
    uint8_t own[8] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6};
    uint32_t end = 0;
};
#endif

#endif
