/* allocators - from the name of an allocator to what a replay has to be started with.
 *
 *   a name of the table below  --> its library, where this system has it
 *   glibc:/DIR/libc.so.6       --> that C library, through the dynamic linker beside it
 *   a word with a slash        --> that shared library
 *   any other with ".so"       --> the library of that name
 *
 * Libraries are looked for in $LD_LIBRARY_PATH and in the usual directories, one named after the
 * kind of machine included; a file that is no shared library of this kind of machine is passed
 * over. Nothing is loaded here. */
#ifndef MALLOCTAPE_ALLOCATORS_H
#define MALLOCTAPE_ALLOCATORS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum allocator_where {
    ALLOCATOR_OURS,    /* built with malloctape */
    ALLOCATOR_SYSTEM,  /* installed on the system */
    ALLOCATOR_LIBC,    /* what a program has that nothing is preloaded into */
    ALLOCATOR_NOTHING, /* no allocator is called */
};

#define ALLOCATOR_OWN_TCMALLOC "libtcmalloc_minimal.so"

/* X(name, where, names of its file, package of Debian, thread caches are not switched, for people).
 * Of the names, which may be patterns, the first is preferred. */
#define KNOWN_ALLOCATOR_LIST(X)                                                                  \
    X("tcmalloc", ALLOCATOR_OURS, ALLOCATOR_OWN_TCMALLOC, NULL, false,                           \
      "that of malloctape, thread caches switched")                                              \
    X("tcmalloc-noswitch", ALLOCATOR_OURS, ALLOCATOR_OWN_TCMALLOC, NULL, true,                   \
      "the same with one thread cache for all threads")                                          \
    X("tcmalloc-system", ALLOCATOR_SYSTEM, "libtcmalloc_minimal.so.4* libtcmalloc.so.4*",        \
      "libtcmalloc-minimal4", false, "tcmalloc as this system has it")                           \
    X("glibc", ALLOCATOR_LIBC, NULL, NULL, false, "malloc of the C library; also called system") \
    X("jemalloc", ALLOCATOR_SYSTEM, "libjemalloc.so.2 libjemalloc.so*", "libjemalloc2", false,   \
      "jemalloc as this system has it")                                                          \
    X("mimalloc", ALLOCATOR_SYSTEM, "libmimalloc.so.[0-9]* libmimalloc.so", "libmimalloc2.0",    \
      false, "mimalloc as this system has it")                                                   \
    X("tbbmalloc", ALLOCATOR_SYSTEM, "libtbbmalloc_proxy.so.2", "libtbbmalloc2", false,          \
      "the scalable allocator of oneTBB as this system has it")                                  \
    X("none", ALLOCATOR_NOTHING, NULL, NULL, false, "no allocator: what replaying itself costs")

struct known_allocator {
    const char *name;
    enum allocator_where where;
    const char *files;
    const char *package;
    bool no_switching;
    const char *help;
};

/* The list above; ends with a name of NULL. */
extern const struct known_allocator known_allocators[];

struct allocator_found {
    const struct known_allocator *known; /* NULL: a library */
    char library[PATH_MAX];              /* to be preloaded; empty: none */
    char linker[PATH_MAX];               /* the program that is to start a replay; empty: none */
    char directories[PATH_MAX + 256];    /* where it looks for libraries */
    char why[PATH_MAX + 128];            /* empty, or why it cannot be used */
};

/* Whether `name` means something: a mistake in writing is not the same as an allocator that is not
 * installed. */
bool allocators_know(const char *name);

/* Hands over the names of those that are installed, for COMPLETE_OPTION. */
void allocators_offer(void (*add)(const char *name, const char *about));

/* The name of the allocator that a recording calls so, with its version; or NULL. */
const char *allocators_name_recorded(const char *allocator);

/* Fills in *found. False: found->why says why. */
bool allocators_find(struct allocator_found *found, const char *name);

/* The command that is to start a replay, in front of the replay's own: its words are in *found. NULL:
 * it starts by itself. */
enum { ALLOCATOR_WORDS = 4 };
char *const *allocators_through(const struct allocator_found *found, char *words[ALLOCATOR_WORDS]);

/* In the child that becomes a replay: sets the variables that say which allocator it has; NULL:
 * none. */
void allocators_enter(const struct allocator_found *found);

/* Whether a replay that was started with it had it; `reported` is what its report says of its
 * allocator, or NULL. The dynamic linker goes on without a library that it cannot load, and a
 * library may have no malloc. False: `why` says so. */
bool allocators_was_used(const struct allocator_found *found, const char *reported, char *why,
                         size_t why_bytes);

#ifdef __cplusplus
}
#endif
#endif
