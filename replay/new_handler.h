/* new_handler - the way out of an operator new that finds no memory.
 *
 * operator new would throw, which C cannot catch. The standard lets a handler be called first, and
 * a handler may leave by a jump. This is the one piece of state that belongs to the process: a
 * handler takes no argument. */
#ifndef MALLOCTAPE_REPLAY_NEW_HANDLER_H
#define MALLOCTAPE_REPLAY_NEW_HANDLER_H

#include <setjmp.h>
#include <stdbool.h>

/* Whether this process has a C++ library, so that an operator new can call a handler or throw. */
bool new_handler_exists(void);

/* Frees the memory that the C++ library keeps for exceptions when there is no other: none will be
 * thrown. */
void new_handler_free_pool(void);

/* Installs the handler, if this process has a C++ library. */
void new_handler_install(void);

/* Where the calling thread goes when operator new fails; NULL: nowhere, it throws. */
void new_handler_arm(jmp_buf *to);

#endif
