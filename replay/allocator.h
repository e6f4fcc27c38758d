/* allocator - the allocator under test: what it is, and how to make every kind of call on it.
 *
 * malloc, calloc, realloc, posix_memalign and free are always there: the dynamic linker has bound
 * them to the preloaded library, or to the C library. Everything else is optional and looked up
 * once, before any clock runs:
 *
 *   kind --> first symbol of a list that exists --> the call    carried out as recorded
 *        \-> none --> the nearest C call of that allocator      carried out as a substitute, which
 *                                                               is reported
 *
 * An aligned or page-aligned C call is used only if malloc's own library has it. Any other is the C
 * library's, and the allocator cannot free its objects. A C++ operator may be that of the C++
 * library, which calls malloc. Where no library has the operators, the substitutes are used.
 *
 * Threads: filled in once, then read only. */
#ifndef MALLOCTAPE_REPLAY_ALLOCATOR_H
#define MALLOCTAPE_REPLAY_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators/known.h"
#include "common/call_kind.h"

/* Argument lists of the optional calls. A tag is a const std::nothrow_t &. */
typedef void *allocator_allocation(size_t size);
typedef void *allocator_allocation_tag(size_t size, const void *tag);
typedef void *allocator_allocation_aligned(size_t size, size_t alignment);
typedef void *allocator_allocation_aligned_tag(size_t size, size_t alignment, const void *tag);
typedef void allocator_free(void *object);
typedef void allocator_free_tag(void *object, const void *tag);
typedef void allocator_free_sized(void *object, size_t size);
typedef void allocator_free_aligned(void *object, size_t alignment);
typedef void allocator_free_aligned_tag(void *object, size_t alignment, const void *tag);
typedef void allocator_free_sized_aligned(void *object, size_t size, size_t alignment);

/* X(KIND, member, argument list, symbols to try, substitute). */
#define ALLOCATOR_ALLOCATION_LIST(X)                                                              \
    X(NEW, new_object, allocation, "_Znwm", malloc)                                               \
    X(NEW_NOTHROW, new_nothrow, allocation_tag, "_ZnwmRKSt9nothrow_t", malloc_tag)                \
    X(NEW_ARRAY, new_array, allocation, "_Znam", malloc)                                          \
    X(NEW_ARRAY_NOTHROW, new_array_nothrow, allocation_tag, "_ZnamRKSt9nothrow_t", malloc_tag)    \
    X(MALLOC_SKIP_NEW_HANDLER, malloc_skip_new_handler, allocation, "tc_malloc_skip_new_handler", \
      malloc)

#define ALLOCATOR_ALIGNED_LIST(X)                                                           \
    X(NEW_ALIGNED, new_aligned, allocation_aligned, "_ZnwmSt11align_val_t", malloc_aligned) \
    X(NEW_ALIGNED_NOTHROW, new_aligned_nothrow, allocation_aligned_tag,                     \
      "_ZnwmSt11align_val_tRKSt9nothrow_t", malloc_aligned_tag)                             \
    X(NEW_ARRAY_ALIGNED, new_array_aligned, allocation_aligned, "_ZnamSt11align_val_t",     \
      malloc_aligned)                                                                       \
    X(NEW_ARRAY_ALIGNED_NOTHROW, new_array_aligned_nothrow, allocation_aligned_tag,         \
      "_ZnamSt11align_val_tRKSt9nothrow_t", malloc_aligned_tag)

#define ALLOCATOR_FREE_LIST(X)                                                    \
    X(CFREE, cfree, free, "cfree tc_cfree", free)                                 \
    X(DELETE, delete_object, free, "_ZdlPv", free)                                \
    X(DELETE_NOTHROW, delete_nothrow, free_tag, "_ZdlPvRKSt9nothrow_t", free_tag) \
    X(DELETE_ARRAY, delete_array, free, "_ZdaPv", free)                           \
    X(DELETE_ARRAY_NOTHROW, delete_array_nothrow, free_tag, "_ZdaPvRKSt9nothrow_t", free_tag)

/* With a size, an alignment or both. */
#define ALLOCATOR_SIZED_FREE_LIST(X)                                                            \
    X(FREE_SIZED, free_sized, free_sized, "free_sized tc_free_sized", free_sized)               \
    X(DELETE_SIZED, delete_sized, free_sized, "_ZdlPvm", free_sized)                            \
    X(DELETE_ARRAY_SIZED, delete_array_sized, free_sized, "_ZdaPvm", free_sized)                \
    X(DELETE_ALIGNED, delete_aligned, free_aligned, "_ZdlPvSt11align_val_t", free_aligned)      \
    X(DELETE_ALIGNED_NOTHROW, delete_aligned_nothrow, free_aligned_tag,                         \
      "_ZdlPvSt11align_val_tRKSt9nothrow_t", free_aligned_tag)                                  \
    X(DELETE_ARRAY_ALIGNED, delete_array_aligned, free_aligned, "_ZdaPvSt11align_val_t",        \
      free_aligned)                                                                             \
    X(DELETE_ARRAY_ALIGNED_NOTHROW, delete_array_aligned_nothrow, free_aligned_tag,             \
      "_ZdaPvSt11align_val_tRKSt9nothrow_t", free_aligned_tag)                                  \
    X(FREE_ALIGNED_SIZED, free_aligned_sized, free_sized_aligned, "tc_free_aligned_sized",      \
      free_sized_aligned)                                                                       \
    X(DELETE_SIZED_ALIGNED, delete_sized_aligned, free_sized_aligned, "_ZdlPvmSt11align_val_t", \
      free_sized_aligned)                                                                       \
    X(DELETE_ARRAY_SIZED_ALIGNED, delete_array_sized_aligned, free_sized_aligned,               \
      "_ZdaPvmSt11align_val_t", free_sized_aligned)

#define ALLOCATOR_CALL_LIST(X)   \
    ALLOCATOR_ALLOCATION_LIST(X) \
    ALLOCATOR_ALIGNED_LIST(X)    \
    ALLOCATOR_FREE_LIST(X)       \
    ALLOCATOR_SIZED_FREE_LIST(X)

/* The same for C functions that must come from malloc's own library: X(KIND, member, argument list,
 * symbol, substitute). */
typedef void *allocator_memalign(size_t alignment, size_t size);
#define ALLOCATOR_C_ALLOCATION_LIST(X)              \
    X(VALLOC, valloc, allocation, "valloc", valloc) \
    X(PVALLOC, pvalloc, allocation, "pvalloc", valloc)
#define ALLOCATOR_C_ALIGNED_LIST(X)                       \
    X(MEMALIGN, memalign, memalign, "memalign", memalign) \
    X(ALIGNED_ALLOC, aligned_alloc, memalign, "aligned_alloc", memalign)
#define ALLOCATOR_C_CALL_LIST(X) ALLOCATOR_C_ALLOCATION_LIST(X) ALLOCATOR_C_ALIGNED_LIST(X)

/* Calls on the whole heap (INSTRUCTIONS.md 5.1, HEAP): X(KIND, symbol). */
#define ALLOCATOR_HEAP_LIST(X)                                            \
    X(RELEASE_MEMORY, MallocExtension_ReleaseToSystem)                    \
    X(THREAD_IDLE, MallocExtension_MarkThreadIdle)                        \
    X(THREAD_TEMPORARILY_IDLE, MallocExtension_MarkThreadTemporarilyIdle) \
    X(THREAD_BUSY, MallocExtension_MarkThreadBusy)                        \
    X(SET_PROPERTY, MallocExtension_SetNumericProperty)                   \
    X(SET_RELEASE_RATE, MallocExtension_SetMemoryReleaseRate)             \
    X(MALLOPT, mallopt)                                                   \
    X(MALLOC_TRIM, malloc_trim)

struct ThreadCacheState;

struct allocator {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *object, size_t size);
    void *(*posix_memalign)(size_t alignment, size_t size); /* any alignment; NULL when it fails */
    void (*free)(void *object);
#define ALLOCATOR_MEMBER(kind, member, arguments, symbols, substitute) \
    allocator_##arguments *member;
    ALLOCATOR_CALL_LIST(ALLOCATOR_MEMBER)
    ALLOCATOR_C_CALL_LIST(ALLOCATOR_MEMBER)
#undef ALLOCATOR_MEMBER
    struct allocator_functions library;
    const struct allocator_facts *facts; /* NULL: an unknown one */
    bool substituted[CALL_KINDS]; /* this kind of call is made as another one, or, if on the whole
                                     heap, not at all */

    /* Separates thread caches from threads (malloc_thread_cache.h): both or none (NULL). */
    bool (*release_cache)(struct ThreadCacheState **cache);
    bool (*set_cache)(struct ThreadCacheState *cache);

    char name[64];    /* "tcmalloc", "glibc", "jemalloc", "mimalloc", or the name of its file */
    char version[64]; /* as the library says it; may be empty */
    char path[512];   /* of the library that malloc comes from */
};

/* How many frees, with a size and an alignment, of objects of 0 bytes were made as if of 1 byte; only
 * under an allocator that needs it. */
uint64_t allocator_empty_frees(void);

/* Looks everything up in the running process. Allocates memory from the allocator. */
void allocator_find(struct allocator *allocator);

/* From now on large objects of calloc() (INSTRUCTION_TOUCHED_BYTES) are had from malloc(), and counted: their
 * pages that have had no content stay without, as under the recorder's tcmalloc. */
void allocator_leave_uncleared(struct allocator *allocator);
uint64_t allocator_uncleared_objects(void);

#endif
