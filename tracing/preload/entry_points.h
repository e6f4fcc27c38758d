/* entry_points - the functions of an allocator by which programs make and end objects.
 *
 * ENTRY_ALLOCATIONS(X)  X(function, KIND, (parameters), (arguments), size, alignment)
 * ENTRY_FREES(X)        the same; the object's parameter is named `object`
 *
 * Those of C and those of C++ apart. realloc() and posix_memalign() are not among them: each is like
 * no other. What is made of these functions is in tracing/preload/composed.c. */
#ifndef MALLOCTAPE_ENTRY_POINTS_H
#define MALLOCTAPE_ENTRY_POINTS_H

#include <stddef.h>
#include <stdint.h>

/* The size of an array; if it overflows, a size that no object can have. */
static inline size_t entry_product(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

#define ENTRY_IGNORED const void *ignored /* std::nothrow */

#define ENTRY_C_ALLOCATIONS(X)                                                                   \
    X(malloc, MALLOC, (size_t size), (size), size, 0)                                            \
    X(calloc, CALLOC, (size_t count, size_t size), (count, size), entry_product(count, size), 0) \
    X(memalign, MEMALIGN, (size_t alignment, size_t size), (alignment, size), size, alignment)   \
    X(aligned_alloc, ALIGNED_ALLOC, (size_t alignment, size_t size), (alignment, size), size,    \
      alignment)                                                                                 \
    X(valloc, VALLOC, (size_t size), (size), size, 0)                                            \
    X(pvalloc, PVALLOC, (size_t size), (size), size, 0)

#define ENTRY_CXX_ALLOCATIONS(X)                                                                   \
    X(_Znwm, NEW, (size_t size), (size), size, 0)                                                  \
    X(_Znam, NEW_ARRAY, (size_t size), (size), size, 0)                                            \
    X(_ZnwmRKSt9nothrow_t, NEW_NOTHROW, (size_t size, ENTRY_IGNORED), (size, ignored), size, 0)    \
    X(_ZnamRKSt9nothrow_t, NEW_ARRAY_NOTHROW, (size_t size, ENTRY_IGNORED), (size, ignored), size, \
      0)                                                                                           \
    X(_ZnwmSt11align_val_t, NEW_ALIGNED, (size_t size, size_t alignment), (size, alignment), size, \
      alignment)                                                                                   \
    X(_ZnamSt11align_val_t, NEW_ARRAY_ALIGNED, (size_t size, size_t alignment), (size, alignment), \
      size, alignment)                                                                             \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, NEW_ALIGNED_NOTHROW,                                     \
      (size_t size, size_t alignment, ENTRY_IGNORED), (size, alignment, ignored), size, alignment) \
    X(_ZnamSt11align_val_tRKSt9nothrow_t, NEW_ARRAY_ALIGNED_NOTHROW,                               \
      (size_t size, size_t alignment, ENTRY_IGNORED), (size, alignment, ignored), size, alignment)

#define ENTRY_C_FREES(X)                                                                     \
    X(free, FREE, (void *object), (object), 0, 0)                                            \
    X(cfree, CFREE, (void *object), (object), 0, 0)                                          \
    X(free_sized, FREE_SIZED, (void *object, size_t size), (object, size), size, 0)          \
    X(free_aligned_sized, FREE_ALIGNED_SIZED, (void *object, size_t alignment, size_t size), \
      (object, alignment, size), size, alignment)

#define ENTRY_CXX_FREES(X)                                                                         \
    X(_ZdlPv, DELETE, (void *object), (object), 0, 0)                                              \
    X(_ZdaPv, DELETE_ARRAY, (void *object), (object), 0, 0)                                        \
    X(_ZdlPvRKSt9nothrow_t, DELETE_NOTHROW, (void *object, ENTRY_IGNORED), (object, ignored), 0,   \
      0)                                                                                           \
    X(_ZdaPvRKSt9nothrow_t, DELETE_ARRAY_NOTHROW, (void *object, ENTRY_IGNORED),                   \
      (object, ignored), 0, 0)                                                                     \
    X(_ZdlPvm, DELETE_SIZED, (void *object, size_t size), (object, size), size, 0)                 \
    X(_ZdaPvm, DELETE_ARRAY_SIZED, (void *object, size_t size), (object, size), size, 0)           \
    X(_ZdlPvSt11align_val_t, DELETE_ALIGNED, (void *object, size_t alignment),                     \
      (object, alignment), 0, alignment)                                                           \
    X(_ZdaPvSt11align_val_t, DELETE_ARRAY_ALIGNED, (void *object, size_t alignment),               \
      (object, alignment), 0, alignment)                                                           \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, DELETE_ALIGNED_NOTHROW,                                 \
      (void *object, size_t alignment, ENTRY_IGNORED), (object, alignment, ignored), 0, alignment) \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t, DELETE_ARRAY_ALIGNED_NOTHROW,                           \
      (void *object, size_t alignment, ENTRY_IGNORED), (object, alignment, ignored), 0, alignment) \
    X(_ZdlPvmSt11align_val_t, DELETE_SIZED_ALIGNED, (void *object, size_t size, size_t alignment), \
      (object, size, alignment), size, alignment)                                                  \
    X(_ZdaPvmSt11align_val_t, DELETE_ARRAY_SIZED_ALIGNED,                                          \
      (void *object, size_t size, size_t alignment), (object, size, alignment), size, alignment)

#define ENTRY_ALLOCATIONS(X) ENTRY_C_ALLOCATIONS(X) ENTRY_CXX_ALLOCATIONS(X)
#define ENTRY_FREES(X)       ENTRY_C_FREES(X) ENTRY_CXX_FREES(X)

#endif
