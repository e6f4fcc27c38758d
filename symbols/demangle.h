/* demangle - names of functions as the source has them. */
#ifndef MALLOCTAPE_SYMBOLS_DEMANGLE_H
#define MALLOCTAPE_SYMBOLS_DEMANGLE_H

/* The longest name that is made: a mangled name of 300 bytes may stand for gigabytes. */
enum { DEMANGLE_BYTES_MAX = 8192 };

/* The name that a mangled one (C++, Rust) stands for. The caller frees it. NULL: it is not mangled,
 * stands for a longer name than DEMANGLE_BYTES_MAX, or there is no memory. */
char *demangle(const char *mangled);

#endif
