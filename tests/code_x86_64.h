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

#endif
