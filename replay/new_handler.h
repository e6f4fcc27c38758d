/* new_handler - the way out of an operator new that finds no memory.
 *
 * operator new would throw, which C cannot catch. But it calls the new handler first, and a handler
 * may leave by a longjmp(). A handler takes no argument, so where to jump is global state. */
#ifndef MALLOCTAPE_REPLAY_NEW_HANDLER_H
#define MALLOCTAPE_REPLAY_NEW_HANDLER_H

#include <setjmp.h>
#include <stdbool.h>

/* Whether this process has a C++ library, so that an operator new can call a handler or throw. */
bool new_handler_exists(void);

/* Frees the C++ library's emergency pool for exceptions: none will be thrown. */
void new_handler_free_pool(void);

/* Installs the handler, if this process has a C++ library. */
void new_handler_install(void);

/* Sets where the calling thread jumps when operator new fails; NULL: operator new throws. */
void new_handler_arm(jmp_buf *to);

#endif
