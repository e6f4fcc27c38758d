/* os_linux - what the files of the Linux layer share. os_linux.c itself needs only os_linux_files.c
 * and os_linux_own.c of the others.
 *
 * syscall() of libc sets errno, which belongs to the traced program, so the calls are made here;
 * results are negative errno values. */
#ifndef MALLOCTAPE_OS_LINUX_H
#define MALLOCTAPE_OS_LINUX_H

#include "common/arch.h"
#include "common/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    return arch_system_call(number, a, b, c, d, e, f);
}

/* NULL: it fails. */
static inline void *os_linux_map(void *at, size_t bytes, int protection, int flags, int file,
                                 uint64_t offset)
{
    long result =
        system_call(SYS_mmap, (long)at, (long)bytes, protection, flags, file, (long)offset);
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

static inline long os_linux_advise(void *memory, size_t bytes, int advice)
{
    return system_call(SYS_madvise, (long)memory, (long)bytes, advice, 0, 0, 0);
}

static inline struct timespec os_linux_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

/* No file of ours may get descriptor 2, to which messages go and which the program may have closed.
 * Moves `file` if it has; returns its descriptor or a negative errno. */
int os_linux_keep_from_messages(int file);

/* A mapping of ours has been made, will be given back (os_memory_resident_bytes()). */
void os_linux_own_add(void *memory, size_t bytes, bool inherited);
void os_linux_own_remove(const void *memory);

/* Calls `run` in a process that shares this one's memory, with a stack of 256 KiB and all signals
 * blocked, and waits until it has ended. As vfork() does, but without the signal of a child's end,
 * so that no wait() of the program finds it. 0 or a negative errno. */
int os_linux_run_apart(int (*run)(void *), void *argument);

/* The exit status of our threads: a process has that of its last thread. */
extern int os_linux_exit_status;

/* Closes the descriptors first .. last; INT_MAX: all from `first` on. */
void os_linux_close_files(int first, int last);

#endif
