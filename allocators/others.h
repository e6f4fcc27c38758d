/* others - names of allocators of which nothing else is known. */
#ifndef MALLOCTAPE_ALLOCATORS_OTHERS_H
#define MALLOCTAPE_ALLOCATORS_OTHERS_H

#define OTHER_NAMES(X)                                                                  \
    X("tbbmalloc", ALLOCATOR_SYSTEM, "libtbbmalloc_proxy.so.2", "libtbbmalloc2", false, \
      "this system's oneTBB scalable allocator")                                        \
    X("none", ALLOCATOR_NOTHING, NULL, NULL, false,                                     \
      "no allocator: shows what replaying itself costs")

#endif
