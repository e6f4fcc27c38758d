/* facts - what is known of an allocator: how it is found, asked, replayed and shown.
 *
 *   facts_NAME.h   what the compiler puts into lists and texts: names, files, packages, variables
 *   facts_NAME.c   data, and functions that reach the allocator by `struct allocator_functions` alone
 *   known.h        all of them
 *
 * The recorder has all of this in the program that it records, so these files import nothing that
 * allocates or asks the system (tests/tracing/capture_symbols_test.sh). What differs between the two
 * sides that ask stands in files of its own: the recorder reads glibc's variables (glibc_heap.h), a
 * replay prepares the top of glibc's heap (glibc_top.h). */
#ifndef MALLOCTAPE_ALLOCATORS_FACTS_H
#define MALLOCTAPE_ALLOCATORS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mallinfo2;
struct text;

/* ---- functions ---- */

/* Functions that some allocators have: X(result, symbol, arguments). */
#define ALLOCATOR_FUNCTION_LIST(X)                                                             \
    X(const char *, tc_version, (int *major, int *minor, const char **patch))                  \
    X(int, MallocExtension_GetNumericProperty, (const char *name, size_t *value))              \
    X(int, MallocExtension_SetNumericProperty, (const char *name, size_t value))               \
    X(void, MallocExtension_SetMemoryReleaseRate, (double rate))                               \
    X(void, MallocExtension_ReleaseFreeMemory, (void))                                         \
    X(void, MallocExtension_ReleaseToSystem, (size_t bytes))                                   \
    X(void, MallocExtension_MarkThreadIdle, (void))                                            \
    X(void, MallocExtension_MarkThreadTemporarilyIdle, (void))                                 \
    X(void, MallocExtension_MarkThreadBusy, (void))                                            \
    X(int, mallctl, (const char *name, void *old, size_t *old_bytes, void *set, size_t))       \
    X(int, mi_version, (void))                                                                 \
    X(void *, mi_malloc, (size_t size))                                                        \
    X(void *, mi_malloc_aligned, (size_t size, size_t alignment))                              \
    X(void *, mi_heap_get_default, (void))                                                     \
    X(void, mi_collect, (bool force))                                                          \
    X(void, mi_process_info,                                                                   \
      (size_t *, size_t *, size_t *, size_t *, size_t *, size_t * commit, size_t *, size_t *)) \
    X(void, mi_stats_print_out, (void (*line)(const char *text, void *of), void *of))          \
    X(const char *, gnu_get_libc_version, (void))                                              \
    X(struct mallinfo2, mallinfo2, (void))                                                     \
    X(int, mallopt, (int parameter, int value))                                                \
    X(int, malloc_trim, (size_t padding))

/* Each is NULL if the library that malloc comes from has no function of that name. */
struct allocator_functions {
#define ALLOCATOR_FUNCTION_MEMBER(result, symbol, arguments) result(*symbol) arguments;
    ALLOCATOR_FUNCTION_LIST(ALLOCATOR_FUNCTION_MEMBER)
#undef ALLOCATOR_FUNCTION_MEMBER
};

/* ---- facts ---- */

/* A variable with several settings: KEY, `assigns`, VALUE, and `separates` before the next. */
struct allocator_variable {
    const char *name; /* NULL: it has none */
    char assigns, separates;
    const char *keys;   /* that a replay takes over, each between spaces */
    const char *prefix; /* of each key; NULL: a small letter */
};

/* A setting that divides the allocator into few parts, each with a lock. */
struct allocator_locks {
    const char *variable;
    const char *part; /* what its value contains; NULL: nothing but the number */
    bool is_one;      /* no number follows: it is as if there were one lock */
};

enum { ALLOCATOR_STATISTICS_MAX = 8 };

/* Faults that a replay goes around. */
enum allocator_fault {
    /* Its throwing operators new end the process when there is no memory and no C++ library;
     * mi_malloc() and mi_malloc_aligned() do not. */
    ALLOCATOR_NEW_ENDS_PROCESS = 1,
    /* Its aligned allocation of 0 bytes makes an object of 1 byte, which belongs to the size class of
     * the alignment. Its free with a size of 0 takes it for one of the smallest class, puts it into
     * that one's cache, and two objects overlap later. A size of 1 is right. */
    ALLOCATOR_EMPTY_IS_ONE = 2,
};

/* name, is_it, put_version, heap_bytes, release_means, release, sizes_name (which begins with the
 * name) and size are always there. Of all else NULL means: not known, or the allocator has none. */
struct allocator_facts {
    const char *name;
    unsigned faults; /* enum allocator_fault */

    /* In its process: it is the first of the list that says so. */
    bool (*is_it)(const struct allocator_functions *functions);
    void (*put_version)(const struct allocator_functions *functions, struct text *to);
    bool version_has_name; /* so a recording has only the version */
    uint8_t rounding; /* what it adds to a size before it rounds that down to a multiple of 16 */

    /* The size of its heap: where it comes from (NULL: it cannot be asked), and the bytes; 0 then. */
    const char *(*heap_source)(const struct allocator_functions *functions);
    uint64_t (*heap_bytes)(const struct allocator_functions *functions);

    /* Its statistics in a recording (FORMAT.md 4.3): names; whether it has them; the
     * values, right after heap_bytes(), and how many there were. */
    const char *statistics;
    unsigned statistics_count;
    bool (*has_statistics)(const struct allocator_functions *functions);
    unsigned (*read_statistics)(const struct allocator_functions *functions,
                                uint64_t values[ALLOCATOR_STATISTICS_MAX]);

    /* How it gives memory back, in words, and the call. */
    const char *release_means;
    void (*release)(const struct allocator_functions *functions);

    /* May be NULL: a replay begins, and what the process did before leaves no trace (REPORT.md,
     * "Addresses"). */
    void (*settle)(const struct allocator_functions *functions);

    /* What it takes for an object of that size (report/rounding.h), and a name with the version that
     * does so. */
    const char *sizes_name;
    uint64_t (*size)(uint64_t size);

    /* May be NULL: settings worth a try, as for --allocators, NULL at the end (its manual says what
     * they do); variables that a replay takes over, those with one number or word, each between
     * spaces, and those with several. */
    const char *const *tuned;
    const char *numbers;
    struct allocator_variable several[2];
    struct allocator_locks locks[3]; /* no variable: the end */
};

/* `size` rounded up to a multiple of `step`; and to one of four classes for each doubling. */
uint64_t allocator_round_up(uint64_t size, uint64_t step);
uint64_t allocator_round_to_quarter(uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
