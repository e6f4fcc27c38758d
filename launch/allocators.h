/* allocators - turns the name of an allocator into how to start a replay with it.
 *
 *   a name of the table       --> its library, where this system has it
 *   glibc:/DIR/libc.so.6       --> that C library, through the dynamic linker beside it
 *   a word with a slash        --> that shared library
 *   any other with ".so"       --> the library of that name
 *
 * Libraries are looked for in $LD_LIBRARY_PATH and in the usual directories, including one named
 * after the architecture; files that are not shared libraries for this architecture are skipped.
 * Nothing is loaded here. */
#ifndef MALLOCTAPE_ALLOCATORS_H
#define MALLOCTAPE_ALLOCATORS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "allocators/known.h"

#ifdef __cplusplus
extern "C" {
#endif

struct known_allocator {
    const char *name;
    enum allocator_where where;
    const char *files; /* patterns; the first one is preferred */
    const char *package;
    bool no_switching; /* of thread caches */
    const char *help;
};

/* KNOWN_ALLOCATOR_LIST; ends with a name of NULL. */
extern const struct known_allocator known_allocators[];

struct allocator_found {
    const struct known_allocator *known; /* NULL: a library given by its path or file name */
    char library[PATH_MAX];              /* to be preloaded; empty: none */
    char linker[PATH_MAX];               /* the dynamic linker to start with; empty: none */
    char directories[PATH_MAX + 256];    /* where that looks for libraries */
    char why[PATH_MAX + 128];            /* empty, or why it cannot be used */
};

/* Whether `name` has a meaning, to tell a misspelling from an allocator that is not installed. */
bool allocators_know(const char *name);

/* Calls `add` for each installed allocator, for COMPLETE_OPTION. */
void allocators_offer(void (*add)(const char *name, const char *about));

/* The name of an allocator, given the name with version that a recording has; or NULL. */
const char *allocators_name_recorded(const char *allocator);

/* Whether that is the recorder's own tcmalloc, which the program has only while it is recorded. */
bool allocators_is_of_recorder(const char *allocator);

/* Fills in *found. False: found->why says why. */
bool allocators_find(struct allocator_found *found, const char *name);

/* The words of the command that starts a replay, to be put before the replay's own command line.
 * They refer to *found. NULL: none is needed. */
enum { ALLOCATOR_WORDS = 4 };
char *const *allocators_through(const struct allocator_found *found, char *words[ALLOCATOR_WORDS]);

/* Called in the child that becomes a replay: sets the environment variables that select the
 * allocator; NULL: none. */
void allocators_enter(const struct allocator_found *found);

/* Whether a replay really had the allocator: the dynamic linker goes on without a library that it
 * cannot load, and a library may have no malloc. `reported`: the allocator in its report, or NULL.
 * False: `why` says so. */
bool allocators_was_used(const struct allocator_found *found, const char *reported, char *why,
                         size_t why_bytes);

#ifdef __cplusplus
}
#endif
#endif
