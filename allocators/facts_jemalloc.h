/* facts_jemalloc - with the functions of jemalloc(3) under their own names, as distributions build it. */
#ifndef MALLOCTAPE_ALLOCATORS_FACTS_JEMALLOC_H
#define MALLOCTAPE_ALLOCATORS_FACTS_JEMALLOC_H

#define JEMALLOC_NAMES(X)                                                                      \
    X("jemalloc", ALLOCATOR_SYSTEM, "libjemalloc.so.2 libjemalloc.so*", "libjemalloc2", false, \
      "this system's jemalloc")

/* Besides MALLOC_CONF, which glibc's pattern has. */
#define JEMALLOC_VARIABLES "JE_MALLOC_CONF"

#endif
