/* function_name - what the name of a function tells about it. Names are demangled, without types of
 * parameters (symbols.h). */
#ifndef MALLOCTAPE_SYMBOLS_FUNCTION_NAME_H
#define MALLOCTAPE_SYMBOLS_FUNCTION_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* The length of a mangled name without the suffixes that a compiler adds for a copy or a part. */
size_t function_name_length(const char *mangled);

/* Whether a mangled name is Rust's. */
bool function_name_is_rust(const char *mangled);

/* "f(int)::{lambda(int)#1}::operator()" becomes "f::{lambda#1}"; with the second one, all lambdas of a
 * function, or of a file, have one name: "f::{lambda}", "{lambda:a.cc}". */
void function_name_shorten_lambdas(char *name);
void function_name_join_lambdas(char *name);

/* Removes the return type and the parameters that other tools' names have: "void f<int>(int)". */
void function_name_take_out_types(char *name);

/* Whether a function is the recorder's, or a part of the recorded call itself. `module` is a path. */
bool function_allocates(const char *name, const char *module);

/* Whether a function is of a standard library, or a usual wrapper of malloc. `file` has its source
 * code; empty: unknown. */
bool function_is_library(const char *name, const char *file, bool is_rust);

#endif
