/* known - the allocators of which something is known (facts.h), and lists of what their headers say. */
#ifndef MALLOCTAPE_ALLOCATORS_KNOWN_H
#define MALLOCTAPE_ALLOCATORS_KNOWN_H

#include "allocators/facts.h"
#include "allocators/facts_glibc.h"
#include "allocators/facts_jemalloc.h"
#include "allocators/facts_mimalloc.h"
#include "allocators/facts_tcmalloc.h"
#include "allocators/others.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every order has the C library's own at one end, as it is there without being loaded. */
#define ALLOCATOR_LIBRARIES(X) X(tcmalloc) X(jemalloc) X(mimalloc)
#define ALLOCATOR_LIST(X)      ALLOCATOR_LIBRARIES(X) X(glibc)

/* Names, in the order of help: X(name, where, names of its file, Debian package, thread caches are
 * not switched, description). Names of files may be patterns; the first one is preferred. */
#define KNOWN_ALLOCATOR_LIST(X) \
    TCMALLOC_NAMES(X) GLIBC_NAMES(X) JEMALLOC_NAMES(X) MIMALLOC_NAMES(X) OTHER_NAMES(X)

enum allocator_where {
    ALLOCATOR_OURS,    /* built with malloctape */
    ALLOCATOR_SYSTEM,  /* installed on the system */
    ALLOCATOR_LIBC,    /* that of a program with nothing preloaded */
    ALLOCATOR_NOTHING, /* no allocator is called */
};

/* Environment variables that change some allocator; `*`: all that begin so. */
#define ALLOCATOR_VARIABLES \
    GLIBC_VARIABLES, JEMALLOC_VARIABLES, MIMALLOC_VARIABLES, TCMALLOC_VARIABLES

/* Those that have the same colour on every page, in the order of the palette (page/page.js). All
 * others share what they leave of its seven colours. */
#define ALLOCATOR_COLOURS "tcmalloc glibc jemalloc mimalloc tbbmalloc"

#define ALLOCATOR_DECLARATION(name) extern const struct allocator_facts allocator_##name;
ALLOCATOR_LIST(ALLOCATOR_DECLARATION)
#undef ALLOCATOR_DECLARATION

#define ALLOCATOR_ONE(name) +1
enum { ALLOCATORS = 0 ALLOCATOR_LIST(ALLOCATOR_ONE) };
#undef ALLOCATOR_ONE
extern const struct allocator_facts *const allocator_facts[ALLOCATORS];

/* The allocator that has these functions; NULL: an unknown one. */
const struct allocator_facts *allocator_facts_of(const struct allocator_functions *functions);

#ifdef __cplusplus
}
#endif
#endif
