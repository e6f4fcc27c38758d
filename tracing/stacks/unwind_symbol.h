/* unwind_symbol - symbols that an object exports, without the dynamic linker and its locks.
 *
 * Threads and reading: as unwind.h. */
#ifndef MALLOCTAPE_UNWIND_SYMBOL_H
#define MALLOCTAPE_UNWIND_SYMBOL_H

#include "tracing/stacks/unwind.h"

/* The tables of an object: DT_GNU_HASH and what it needs. */
struct unwind_symbols {
    uintptr_t hash, symbols, names;
    uint32_t buckets, first, blooms, shift;
    /* DT_RELA: 0 if there is none; how many of them are relative. */
    uintptr_t relocations, relocations_bytes, relative;
};

/* An object whose segments lie apart, as where pages may have 64 KiB, ends with its code where it was
 * found: then it also has its data. What lies between may be anything, and is read by copies. */
void unwind_symbols_widen(struct unwind_memory *memory, struct unwind_object *object);

/* False: it has none that are understood here. */
bool unwind_symbols_open(struct unwind_memory *memory, const struct unwind_object *object,
                         struct unwind_symbols *symbols);

enum unwind_symbol_kind {
    UNWIND_SYMBOL_DATA = 1,
    UNWIND_SYMBOL_FUNCTION = 2,
    UNWIND_SYMBOL_OF_THREAD = 6
}; /* STT_OBJECT, STT_FUNC, STT_TLS */

/* The address of a symbol of this kind (of a thread's: its offset, as if it were one in the file); 0: the
 * object does not export it. `bytes` (may be NULL): how
 * large it is. */
uintptr_t unwind_symbol(struct unwind_memory *memory, const struct unwind_object *object,
                        const struct unwind_symbols *symbols, const char *name,
                        enum unwind_symbol_kind kind, uintptr_t *bytes);

#endif
