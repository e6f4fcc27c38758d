/* call_kind - the allocator calls that malloctape knows, one line each.
 *
 * The numbers are part of both formats (FORMAT.md 3, INSTRUCTIONS.md 3) and never change meaning;
 * a number that is not listed is undefined. They fit in six bits.
 *
 * Each line: X(number, IDENTIFIER, "name in dumps and reports", shape)
 *
 * The shape says which operands a call has:
 *   ALLOCATION          size
 *   ALLOCATION_ALIGNED  size, alignment
 *   REALLOC             object that ends, size of the object that begins
 *   FREE                object
 *   FREE_SIZED          object, size
 *   FREE_ALIGNED        object, alignment
 *   FREE_SIZED_ALIGNED  object, size, alignment
 *   HEAP                0 to 2 plain numbers; changes how the allocator behaves later */
#ifndef MALLOCTAPE_CALL_KIND_H
#define MALLOCTAPE_CALL_KIND_H

#define CALL_KIND_LIST(X)                                                               \
    X(1, MALLOC, "malloc", ALLOCATION)                                                  \
    X(2, CALLOC, "calloc", ALLOCATION)                                                  \
    X(3, NEW, "new", ALLOCATION)                                                        \
    X(4, NEW_NOTHROW, "new_nothrow", ALLOCATION)                                        \
    X(5, NEW_ARRAY, "new_array", ALLOCATION)                                            \
    X(6, NEW_ARRAY_NOTHROW, "new_array_nothrow", ALLOCATION)                            \
    X(7, MALLOC_SKIP_NEW_HANDLER, "malloc_skip_new_handler", ALLOCATION)                \
    X(8, MEMALIGN, "memalign", ALLOCATION_ALIGNED)                                      \
    X(9, ALIGNED_ALLOC, "aligned_alloc", ALLOCATION_ALIGNED)                            \
    X(10, POSIX_MEMALIGN, "posix_memalign", ALLOCATION_ALIGNED)                         \
    X(11, VALLOC, "valloc", ALLOCATION)                                                 \
    X(12, PVALLOC, "pvalloc", ALLOCATION)                                               \
    X(13, NEW_ALIGNED, "new_aligned", ALLOCATION_ALIGNED)                               \
    X(14, NEW_ALIGNED_NOTHROW, "new_aligned_nothrow", ALLOCATION_ALIGNED)               \
    X(15, NEW_ARRAY_ALIGNED, "new_array_aligned", ALLOCATION_ALIGNED)                   \
    X(16, NEW_ARRAY_ALIGNED_NOTHROW, "new_array_aligned_nothrow", ALLOCATION_ALIGNED)   \
    X(17, REALLOC_NULL, "realloc_null", ALLOCATION)                                     \
    X(18, REALLOC_MOVED, "realloc_moved", REALLOC)                                      \
    X(19, REALLOC_IN_PLACE, "realloc_in_place", REALLOC)                                \
    X(20, REALLOC_ZERO, "realloc_zero", FREE)                                           \
    X(21, FREE, "free", FREE)                                                           \
    X(22, CFREE, "cfree", FREE)                                                         \
    X(23, DELETE, "delete", FREE)                                                       \
    X(24, DELETE_NOTHROW, "delete_nothrow", FREE)                                       \
    X(25, DELETE_ARRAY, "delete_array", FREE)                                           \
    X(26, DELETE_ARRAY_NOTHROW, "delete_array_nothrow", FREE)                           \
    X(27, FREE_SIZED, "free_sized", FREE_SIZED)                                         \
    X(28, DELETE_SIZED, "delete_sized", FREE_SIZED)                                     \
    X(29, DELETE_ARRAY_SIZED, "delete_array_sized", FREE_SIZED)                         \
    X(30, DELETE_ALIGNED, "delete_aligned", FREE_ALIGNED)                               \
    X(31, DELETE_ALIGNED_NOTHROW, "delete_aligned_nothrow", FREE_ALIGNED)               \
    X(32, DELETE_ARRAY_ALIGNED, "delete_array_aligned", FREE_ALIGNED)                   \
    X(33, DELETE_ARRAY_ALIGNED_NOTHROW, "delete_array_aligned_nothrow", FREE_ALIGNED)   \
    X(34, FREE_ALIGNED_SIZED, "free_aligned_sized", FREE_SIZED_ALIGNED)                 \
    X(35, DELETE_SIZED_ALIGNED, "delete_sized_aligned", FREE_SIZED_ALIGNED)             \
    X(36, DELETE_ARRAY_SIZED_ALIGNED, "delete_array_sized_aligned", FREE_SIZED_ALIGNED) \
    X(37, RELEASE_MEMORY, "release_memory", HEAP)                                       \
    X(38, THREAD_IDLE, "thread_idle", HEAP)                                             \
    X(39, THREAD_TEMPORARILY_IDLE, "thread_temporarily_idle", HEAP)                     \
    X(40, THREAD_BUSY, "thread_busy", HEAP)                                             \
    X(41, SET_PROPERTY, "set_property", HEAP)                                           \
    X(42, SET_RELEASE_RATE, "set_release_rate", HEAP)                                   \
    X(43, MALLOPT, "mallopt", HEAP)                                                     \
    X(44, MALLOC_TRIM, "malloc_trim", HEAP)

enum call_kind {
#define CALL_KIND_ENUM(number, identifier, name, shape) CALL_##identifier = (number),
    CALL_KIND_LIST(CALL_KIND_ENUM)
#undef CALL_KIND_ENUM
};

/* The size of tables indexed by kind: no format can give a call this number or a higher one. */
#define CALL_KINDS 48

enum call_shape {
    SHAPE_UNDEFINED = 0,
    SHAPE_ALLOCATION,
    SHAPE_ALLOCATION_ALIGNED,
    SHAPE_REALLOC,
    SHAPE_FREE,
    SHAPE_FREE_SIZED,
    SHAPE_FREE_ALIGNED,
    SHAPE_FREE_SIZED_ALIGNED,
    SHAPE_HEAP
};

#endif
