/* next - the functions of the allocator behind this library.
 *
 * They are looked up with the first call of any of them, which takes no lock and no memory
 * (linked.h). So there is no memory of our own that a program could be given, and nothing of one
 * allocator ever comes to another.
 *
 * C++ operators. Those of a C++ runtime (libstdc++, libc++) and of an allocator are malloc() and a
 * loop over the new handler: that is done here (docs/decisions/preload.md). Others may be
 * anything: they are called and not recorded. So are a runtime's, if another malloc() stands before
 * ours. */
#ifndef MALLOCTAPE_NEXT_H
#define MALLOCTAPE_NEXT_H

#include "tracing/preload/entry_points.h"

#include <stdbool.h>

/* Operators are set only if they are NEXT_BEHIND. */
struct next_allocator {
#define NEXT_ALLOCATION(function, kind, parameters, ...) void *(*function)parameters;
    ENTRY_ALLOCATIONS(NEXT_ALLOCATION)
#undef NEXT_ALLOCATION
#define NEXT_FREE(function, kind, parameters, ...) void(*function) parameters;
    ENTRY_FREES(NEXT_FREE)
#undef NEXT_FREE
    void *(*realloc)(void *object, size_t size);
    int (*posix_memalign)(void **result, size_t alignment, size_t size);
    int (*mallopt)(int parameter, int value);
    int (*malloc_trim)(size_t padding);
    size_t (*malloc_usable_size)(void *object);
    enum { NEXT_UNKNOWN, NEXT_HERE, NEXT_BEHIND } operators; /* where they are done */
    bool has_allocators_operators;
    bool has_memalign; /* which is of the allocator that has the operators */
    bool knows_sizes;  /* malloc_usable_size() is of the allocator that has malloc() */
};

/* Until they have been looked up, the functions here do that first. */
extern struct next_allocator next;

/* Names by which old programs call the same functions, and some interposers those of the C library:
 * X(function, result, (parameters), (arguments)) */
#define NEXT_LIBC(X)                                                        \
    X(malloc, void *, (size_t size), (size))                                \
    X(calloc, void *, (size_t count, size_t size), (count, size))           \
    X(realloc, void *, (void *object, size_t size), (object, size))         \
    X(memalign, void *, (size_t alignment, size_t size), (alignment, size)) \
    X(valloc, void *, (size_t size), (size))                                \
    X(pvalloc, void *, (size_t size), (size))                               \
    X(free, void, (void *object), (object))                                 \
    X(cfree, void, (void *object), (object))

/* __libc_malloc() and so on, where the library that has the next malloc() has none. Calls of them
 * are not recorded, because that malloc() may make them. NULL: the name means the same as
 * malloc(). */
struct next_libc_functions {
#define NEXT_LIBC_FUNCTION(function, result, parameters, ...) result(*function) parameters;
    NEXT_LIBC(NEXT_LIBC_FUNCTION)
#undef NEXT_LIBC_FUNCTION
};
const struct next_libc_functions *next_libc(void);

struct link_map;

const struct link_map *next_own_library(void);

/* Whether the program's calls come here by themselves: it was started with this library. */
bool next_is_first(void);

/* This library has been loaded into a process that runs: the functions may be any other
 * library's. */
void next_attach(void);

/* The library or program that has the next malloc(); NULL: none has. */
const struct link_map *next_library(void);

typedef void next_new_handler(void);

/* What std::get_new_handler() returns; NULL also where there is no C++ runtime. */
next_new_handler *next_handler(void);

/* Sets *function to the next operator of this name after ours. False: there is none. */
bool next_operator(void *function, const char *name);

/* Throws std::bad_alloc. */
void next_throw_bad_alloc(void) __attribute__((noreturn));

#endif
