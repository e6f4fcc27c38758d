/* arch - what differs between architectures, under names that say what it is. Files of a directory
 * that need more than stands here have a pair of their own: #include ARCH_FILE(unwind) takes
 * unwind_x86_64.h or unwind_aarch64.h.
 *
 *   ARCH_NAME                  as uname(1) has it
 *   ARCH_ELF_MACHINE           of its files; ARCH_RELOCATION_...: of slots that the dynamic linker
 *                              fills; ARCH_LINKER: the linker's name; ARCH_DIRECTORY: where
 *                              libraries are, on Debian
 *   ARCH_ADDRESS_BITS          of the highest address that mmap() gives without being asked for more
 *   ARCH_STORAGE_IS_BELOW      thread-local variables lie below the thread pointer, the thread's
 *                              descriptor above it; else the other way round
 *   ARCH_SHADOW_WINDOWS        where Linux maps nothing by itself (tracing/shadow.h)
 *   ARCH_PLAIN_IS_ATOMIC       1: a plain load of an aligned word is an atomic one that acquires, and
 *                              GCC makes fewer instructions of it. 0: C11 knows nothing of that
 *   ARCH_STORES_AT_ONCE        1: one instruction stores up to 8 bytes, at any address, so a thread
 *                              is not killed in the middle
 *   ARCH_CLOCK_NAME            of the processor's clock, which runs on at one rate
 *   ARCH_OLD_WAITS             cases of a switch: system calls that wait, and that newer
 *                              architectures do not have
 *
 *   arch_system_call()         without errno: a negative one is the result
 *   arch_thread_storage()      makes a block look enough like a thread's storage
 *   arch_clock()               the clock, in ticks of its own; it may be read somewhat earlier or later
 *   arch_clock_begin()         nothing that stands before is still being done when the clock is read,
 *                              nothing that stands behind has begun
 *   arch_clock_end()           nothing that stands before is still being done
 *   arch_clock_is_steady()     whether a tick always takes the same time
 *   arch_add_own()             adds to what only the calling thread stores to, after all that it
 *                              stored before; a signal may come in between, but not a store of its own
 *   arch_prefetch_for_store()  fetches the cache line of an address, which may be any
 *   arch_pause()               between two looks at what another thread is about to store
 *   arch_ask_valgrind()        what Valgrind answers to a request; a processor: 0 */
#ifndef MALLOCTAPE_ARCH_H
#define MALLOCTAPE_ARCH_H

#if defined(__x86_64__)
#include "arch_x86_64.h"
#elif defined(__aarch64__) && defined(__LP64__) && !defined(__AARCH64EB__)
#include "arch_aarch64.h"
#else
#error "only x86-64 and aarch64 so far: another architecture needs files like common/arch_aarch64.h"
#endif

#define ARCH_FILE(stem)        ARCH_FILE_TEXT(ARCH_FILE_OF(stem))
#define ARCH_FILE_TEXT(name)   ARCH_FILE_QUOTED(name)
#define ARCH_FILE_QUOTED(name) #name

#endif
