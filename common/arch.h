/* arch - what differs between architectures, under names that say what it is. Files of a directory
 * that need more have their own pair: #include ARCH_FILE(unwind) includes unwind_x86_64.h or
 * unwind_aarch64.h.
 *
 *   ARCH_NAME                  as in uname(1)
 * ARCH_ELF_MACHINE of its ELF files; ARCH_RELOCATION_...: of slots that the dynamic linker
 *                              fills; ARCH_LINKER: the linker's name; ARCH_DIRECTORY: where
 *                              libraries are, on Debian
 *   ARCH_ADDRESS_BITS          of the highest address that mmap() returns by default
 *   ARCH_STORAGE_IS_BELOW      thread-local variables lie below the thread pointer, the thread's
 *                              descriptor above it; else the other way round
 *   ARCH_SHADOW_WINDOWS        where Linux maps nothing by itself (tracing/data/shadow.h)
 *   ARCH_PLAIN_IS_ATOMIC       1: a plain load of an aligned word is atomic with acquire order, and
 *                              GCC makes fewer instructions of it. 0: use C11's operations
 *   ARCH_STORES_AT_ONCE        1: a single instruction stores up to 8 bytes at any address, so a
 *                              thread cannot be killed in the middle
 *   ARCH_CLOCK_NAME            of the processor's clock, which has a constant rate
 *   ARCH_STOP_KEEPS_TIME       a thread that a tracer has stopped in a sleep, and has given back its
 *                              registers, sleeps no longer than it would have
 *
 *   arch_system_call()         without errno: returns a negative error number
 *   arch_thread_storage()      makes a block look enough like a thread's storage
 *   arch_thread_modules()      where the C library has the calling thread's variables, by module
 * arch_clock() the clock, in its own ticks; may be reordered with other instructions
 *   arch_clock_begin()         reads the clock after all earlier instructions have finished, before
 *                              any later one begins
 *   arch_clock_end()           reads the clock after all earlier instructions have finished
 *   arch_clock_is_steady()     whether a tick always takes the same time
 *   arch_add_own()             adds, with release order, to a variable that only the calling thread
 * stores to; a signal may come in between if its handler does not store
 *   arch_prefetch_for_store()  fetches the cache line of an address, which may be any
 *   arch_pause()               for loops that wait for a store of another thread
 *   arch_ask_valgrind()        Valgrind's answer to a request; without Valgrind 0 */
#ifndef MALLOCTAPE_ARCH_H
#define MALLOCTAPE_ARCH_H

#if defined(__x86_64__)
#include "common/arch_x86_64.h"
#elif defined(__aarch64__) && defined(__LP64__) && !defined(__AARCH64EB__)
#include "common/arch_aarch64.h"
#else
#error "only x86-64 and aarch64 so far: another architecture needs files like common/arch_aarch64.h"
#endif

#define ARCH_FILE(stem)        ARCH_FILE_TEXT(ARCH_FILE_OF(stem))
#define ARCH_FILE_TEXT(name)   ARCH_FILE_QUOTED(name)
#define ARCH_FILE_QUOTED(name) #name

#endif
