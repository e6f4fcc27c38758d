/* facts_glibc - the C library's own malloc. */
#ifndef MALLOCTAPE_ALLOCATORS_FACTS_GLIBC_H
#define MALLOCTAPE_ALLOCATORS_FACTS_GLIBC_H

#define GLIBC_NAMES(X) \
    X("glibc", ALLOCATOR_LIBC, NULL, NULL, false, "the C library's malloc; also called system")

#define GLIBC_VARIABLES "GLIBC_TUNABLES", "MALLOC_*"

#endif
