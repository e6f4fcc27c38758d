/* arch_aarch64 - see arch.h. */
#ifndef MALLOCTAPE_ARCH_AARCH64_H
#define MALLOCTAPE_ARCH_AARCH64_H

#include <stdbool.h>
#include <stdint.h>

#define ARCH_NAME              "aarch64"
#define ARCH_FILE_OF(stem)     stem##_aarch64.h
#define ARCH_ELF_MACHINE       EM_AARCH64
#define ARCH_RELOCATION_CALL   R_AARCH64_JUMP_SLOT
#define ARCH_RELOCATION_GLOBAL R_AARCH64_GLOB_DAT
#define ARCH_RELOCATION_WORD   R_AARCH64_ABS64
#define ARCH_RELOCATION_MODULE R_AARCH64_TLS_DTPMOD
#define ARCH_LINKER            "ld-linux-aarch64.so.1"
#define ARCH_DIRECTORY         "aarch64-linux-gnu"

/* Kernels are built for 36 to 52 bits: a program gets 48 at most by default, on phones 39. */
#define ARCH_ADDRESS_BITS     48
#define ARCH_STORAGE_IS_BELOW false
/* The last two are for 42 and 39 bits. */
#define ARCH_SHADOW_WINDOWS   0x240000000000, 0x500000000000, 0x010000000000, 0x002000000000

/* The kernel forgets the call before the thread stops. */
#define ARCH_STOP_KEEPS_TIME 0

static inline long arch_system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}

/* Zeros are enough. */
static inline void arch_thread_storage(void *pointer)
{
    (void)pointer;
}

/* What the C library has for the calling thread of each module with variables of threads. */
static inline const void *arch_thread_modules(void)
{
    return *(void *const *)__builtin_thread_pointer();
}

/* ---- the clock: steps of 1 to 40 ns ---- */

#define ARCH_CLOCK_NAME "cntvct_el0"

static inline uint64_t arch_clock(void)
{
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
}

static inline uint64_t arch_clock_begin(void)
{
    uint64_t now;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(now) : : "memory");
    return now;
}

static inline uint64_t arch_clock_end(void)
{
    uint64_t now;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now) : : "memory");
    return now;
}

static inline bool arch_clock_is_steady(void)
{
    return true;
}

/* ---- memory ---- */

#define ARCH_PLAIN_IS_ATOMIC 0
#define ARCH_STORES_AT_ONCE  0

static inline void arch_add_own(uint64_t *object, uint64_t value)
{
    __atomic_store_n(object, *object + value, __ATOMIC_RELEASE);
}

static inline void arch_prefetch_for_store(const void *address)
{
    __builtin_prefetch(address, 1);
}

/* On most processors, `yield` does nothing. */
static inline void arch_pause(void)
{
    __asm__ volatile("isb" ::: "memory");
}

/* ---- Valgrind, which runs a program instruction by instruction ---- */

static inline uint64_t arch_ask_valgrind(const uint64_t request[6])
{
    register uint64_t result __asm__("x3") = 0;
    register const uint64_t *words __asm__("x4") = request;
    __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(result)
                     : "r"(words)
                     : "cc", "memory");
    return result;
}

#endif
