/* facts_tcmalloc - of gperftools: ours, built with malloctape, and the system's. */
#ifndef MALLOCTAPE_ALLOCATORS_FACTS_TCMALLOC_H
#define MALLOCTAPE_ALLOCATORS_FACTS_TCMALLOC_H

#define ALLOCATOR_OWN_TCMALLOC "libtcmalloc_minimal.so"

#define TCMALLOC_NAMES(X)                                                                 \
    X("tcmalloc", ALLOCATOR_OURS, ALLOCATOR_OWN_TCMALLOC, NULL, false,                    \
      "malloctape's, with thread caches switched")                                        \
    X("tcmalloc-noswitch", ALLOCATOR_OURS, ALLOCATOR_OWN_TCMALLOC, NULL, true,            \
      "the same, with one thread cache for all threads")                                  \
    X("tcmalloc-system", ALLOCATOR_SYSTEM, "libtcmalloc_minimal.so.4* libtcmalloc.so.4*", \
      "libtcmalloc-minimal4", false, "this system's tcmalloc")

#define TCMALLOC_VARIABLES "TCMALLOC_*"

/* Its table of pages has a part for so many addresses, of which all is written to where it has memory. */
#define TCMALLOC_PAGE_TABLE_SHIFT 31
#define TCMALLOC_PAGE_TABLE_BYTES (2 << 20)

/* How a recording names it, before the version. */
#define TCMALLOC_RECORDED "gperftools "

/* Names of properties that a program may set, by number, from 1 (INSTRUCTIONS.md 5.1). */
#define TCMALLOC_PROPERTIES                                                         \
    "tcmalloc.max_total_thread_cache_bytes", "tcmalloc.aggressive_memory_decommit", \
        "tcmalloc.heap_limit_mb", "tcmalloc.min_per_thread_cache_bytes"

#endif
