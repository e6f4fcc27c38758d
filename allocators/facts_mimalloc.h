/* facts_mimalloc - of Microsoft, versions 1 to 3. */
#ifndef MALLOCTAPE_ALLOCATORS_FACTS_MIMALLOC_H
#define MALLOCTAPE_ALLOCATORS_FACTS_MIMALLOC_H

#define MIMALLOC_NAMES(X)                                                                     \
    X("mimalloc", ALLOCATOR_SYSTEM, "libmimalloc.so.[0-9]* libmimalloc.so", "libmimalloc2.0", \
      false, "this system's mimalloc")

#define MIMALLOC_VARIABLES "MIMALLOC_*"

#endif
