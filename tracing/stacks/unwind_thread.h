/* unwind_thread - variables of the calling thread that an object exports, without __tls_get_addr(),
 * which may allocate.
 *
 * Threads and reading: as unwind.h. */
#ifndef MALLOCTAPE_UNWIND_THREAD_H
#define MALLOCTAPE_UNWIND_THREAD_H

#include "tracing/stacks/unwind_symbol.h"

struct unwind_thread_variable {
    uintptr_t module, offset; /* as the C library numbers modules that have such variables */
};

/* False: the object exports no variable of this name, or does not itself ask for it as other objects
 * do. */
bool unwind_thread_variable(struct unwind_memory *memory, const struct unwind_object *object,
                            const struct unwind_symbols *symbols, const char *name,
                            struct unwind_thread_variable *variable);

/* Its first word. False: the thread has none yet. */
bool unwind_thread_word(struct unwind_memory *memory, const struct unwind_thread_variable *variable,
                        uintptr_t *word);

#endif
