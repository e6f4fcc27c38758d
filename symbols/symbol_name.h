/* symbol_name - a function's name in the form that frames have: demangled (C++, Rust, D), without the
 * types of parameters, what the compiler adds to the name of a copy (".cold") and ABI tags. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOL_NAME_H
#define MALLOCTAPE_SYMBOLS_SYMBOL_NAME_H

#include "symbols/strings.h"

/* A mangled or plain name in that form. The caller frees it. NULL: no memory. */
char *symbol_name_demangle(const char *name);

/* The number of a name in that form; 0: no memory, and strings->no_memory is set. */
uint32_t symbol_name_put(struct strings *strings, const char *mangled);

#endif
