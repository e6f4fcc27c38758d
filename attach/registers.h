/* registers - those of a stopped thread, by what they are for.
 *
 * registers_x86_64.h and registers_aarch64.h define
 *
 *   REGISTERS_RED_ZONE       so many bytes below the stack pointer are in use
 *   REGISTERS_SYSTEM_CALL_IN a function of the C library with a system call and a return, in which no
 *                            thread waits
 *   registers_system_call    the code of a system call
 *   registers_sigreturn      that of rt_sigreturn(2), to which the handlers of signals return
 *   registers_calling        what a thread runs that calls a function (registers_to_call()): then it
 *                            sends itself SIGURG, which ends here if somebody traces it. If nobody
 *                            does, the signal waits until its mask is as before, and does nothing in
 *                            most programs; the thread goes back by its frame (frame.h).
 *                            REGISTERS_CALLED: where the signal finds it
 *
 *   registers_get(), registers_put()   of a thread. The system call in which it was is not gone on
 *                            with by the kernel, unless that is done by what was put
 *   registers_vectors_get()  all others, for registers_vectors_put(). *kind: which ones these are
 *   registers_code(), registers_stack(), registers_result()   where it is, its stack pointer, what a
 *                            system call or a function gave it. registers_caller(): to where the
 *                            function in which it is may return, unless that is on the stack
 *   registers_waits_in()     the number of the system call in which it is, or from which it has just
 *                            come; -1: none. registers_second(): that call's second argument
 *   registers_to_system_call()   it goes on with a system call at `code`, on this stack. If nobody
 *                            stops it behind the call, it goes on at `back`
 *   registers_to_call()      it goes on at `code`, a copy of registers_calling, with
 *                            function(first, second), whose result goes to `place`, and then back by
 *                            the frame at `frame` */
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
