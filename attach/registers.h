/* registers - those of a stopped thread, by purpose.
 *
 * registers_x86_64.h and registers_aarch64.h define
 *
 *   REGISTERS_KEEP_ARGUMENTS 1: after a system call has returned, its arguments are where they were
 *   REGISTERS_SYSTEM_CALL_IN a function of the C library that makes a system call and returns
 *   registers_system_call    the instruction of a system call
 *   registers_sigreturn      the code that calls rt_sigreturn(2), to which signal handlers return
 *   registers_calling        the code by which a thread calls a function (registers_to_call()).
 *                            Afterwards the thread sends itself SIGURG: a tracer gets it instead, and
 *                            the thread is stopped. Without a tracer, the signal does nothing in most
 *                            programs, and the thread goes back through its frame (frame.h)
 *   REGISTERS_CALLED         the offset in it where the signal arrives
 *
 *   registers_get(), registers_put()   of a thread. After registers_put() the kernel does not restart
 *                            the system call that the thread was in, unless the registers say so
 *   registers_vectors_get()  all others, for registers_vectors_put(). *kind: which set this is
 *   registers_code(), registers_stack(), registers_result()   its program counter, stack pointer, and
 *                            the result of a system call or function
 *   registers_caller()       a register that may hold the return address; 0 if that is always on the
 *                            stack
 *   registers_waits_in()     the number of the system call that the thread is in or has just left;
 *                            -1: none
 *   registers_arguments()    that call's
 *   registers_was_interrupted()   of a thread that is or was in a system call: whether the call has
 *                            returned EINTR
 *   registers_make_again()   makes it again
 *   registers_return()       sets the result of the system call that it has left
 *   registers_to_system_call()   makes it continue with the system call instruction at `code`, on
 *                            `stack`. If nobody stops it after the call, it continues at `back`
 *   registers_to_call()      makes it continue at `code`, a copy of registers_calling: it calls
 *                            function(first, second), stores the result at `place`, and goes back
 *                            through the frame at `frame` */
#ifndef MALLOCTAPE_ATTACH_REGISTERS_H
#define MALLOCTAPE_ATTACH_REGISTERS_H

#include <elf.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "common/arch.h"

#include ARCH_FILE(registers)

static inline void registers_vectors_put(pid_t thread, struct iovec *vectors, int kind)
{
    ptrace(PTRACE_SETREGSET, thread, (void *)(long)kind, vectors);
}

#endif
