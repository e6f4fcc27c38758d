/* arch_x86_64 - see arch.h. */
#ifndef MALLOCTAPE_ARCH_X86_64_H
#define MALLOCTAPE_ARCH_X86_64_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

#define ARCH_NAME              "x86_64"
#define ARCH_FILE_OF(stem)     stem##_x86_64.h
#define ARCH_ELF_MACHINE       EM_X86_64
#define ARCH_RELOCATION_CALL   R_X86_64_JUMP_SLOT
#define ARCH_RELOCATION_GLOBAL R_X86_64_GLOB_DAT
#define ARCH_RELOCATION_WORD   R_X86_64_64
#define ARCH_RELOCATION_MODULE R_X86_64_DTPMOD64
#define ARCH_LINKER            "ld-linux-x86-64.so.2"
#define ARCH_DIRECTORY         "x86_64-linux-gnu"

/* Four levels of page tables. */
#define ARCH_ADDRESS_BITS     47
#define ARCH_STORAGE_IS_BELOW true
/* The last two are for tools that leave less address space to a program. */
#define ARCH_SHADOW_WINDOWS   0x240000000000, 0x3c0000000000, 0x0a0000000000, 0x001000000000

#define ARCH_STOP_KEEPS_TIME 1

static inline long arch_system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* The thread pointer points to itself. */
static inline void arch_thread_storage(void *pointer)
{
    void **words = (void **)pointer;
    words[0] = pointer;
    words[2] = pointer;
}

/* What the C library has for the calling thread of each module with variables of threads. */
static inline const void *arch_thread_modules(void)
{
    const void *modules;
    __asm__("movq %%fs:8, %0" : "=r"(modules));
    return modules;
}

/* ---- the clock ---- */

#define ARCH_CLOCK_NAME "tsc"

static inline uint64_t arch_clock(void)
{
    return __builtin_ia32_rdtsc();
}

static inline uint64_t arch_clock_begin(void)
{
    __builtin_ia32_lfence();
    uint64_t now = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return now;
}

static inline uint64_t arch_clock_end(void)
{
    /* Not rdtscp: some virtual machines lack it, and so does valgrind there. */
    __builtin_ia32_lfence();
    return __builtin_ia32_rdtsc();
}

/* CPUID 0x80000007: it runs at the same rate in all states of the processor. */
static inline bool arch_clock_is_steady(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
}

/* ---- memory ---- */

/* ThreadSanitizer, which checks memory orders, knows only C11's operations. */
#ifdef __SANITIZE_THREAD__
#define ARCH_PLAIN_IS_ATOMIC 0
#else
#define ARCH_PLAIN_IS_ATOMIC 1
#endif
#define ARCH_STORES_AT_ONCE 1

/* A single instruction. With the builtins, GCC makes three, and it would merge a plain addition
 * with that of another path. */
static inline void arch_add_own(uint64_t *object, uint64_t value)
{
#ifdef __SANITIZE_THREAD__
    __atomic_store_n(object, *object + value, __ATOMIC_RELEASE);
#else
    __asm__ volatile("addq %1, %0" : "+m"(*object) : "er"(value) : "memory", "cc");
#endif
}

/* (GCC's builtin would prefetch for a load, unless GCC may assume this instruction. Processors
 * without it ignore it.) */
static inline void arch_prefetch_for_store(const void *address)
{
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
}

static inline void arch_pause(void)
{
    __asm__ volatile("pause" ::: "memory");
}

/* ---- Valgrind, which runs a program instruction by instruction ---- */

static inline uint64_t arch_ask_valgrind(const uint64_t request[6])
{
    uint64_t result = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(request)
                     : "cc", "memory", "rdi");
    return result;
}

#endif
