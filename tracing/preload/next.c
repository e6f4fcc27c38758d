#include "tracing/preload/next.h"

#include "tracing/preload/linked.h"

#include <stdbool.h>
#include <string.h>

/* Made by the linker: where this library begins. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static void next_find_all(void);

/* ---- the first call of any ---- */

#define FIRST(result, function, parameters, arguments) \
    static result first_##function parameters          \
    {                                                  \
        next_find_all();                               \
        return next.function arguments;                \
    }
#define FIRST_ALLOCATION(function, kind, parameters, arguments, ...) \
    FIRST(void *, function, parameters, arguments)
#define FIRST_FREE(function, kind, parameters, arguments, ...) \
    FIRST(void, function, parameters, arguments)
ENTRY_C_ALLOCATIONS(FIRST_ALLOCATION)
ENTRY_C_FREES(FIRST_FREE)
FIRST(void *, realloc, (void *object, size_t size), (object, size))
FIRST(int, posix_memalign, (void **result, size_t alignment, size_t size),
      (result, alignment, size))
FIRST(int, mallopt, (int parameter, int value), (parameter, value))
FIRST(int, malloc_trim, (size_t padding), (padding))
FIRST(size_t, malloc_usable_size, (void *object), (object))

#define INITIAL(function, ...) .function = first_##function,

struct next_allocator next = {
    ENTRY_C_ALLOCATIONS(INITIAL) ENTRY_C_FREES(INITIAL).realloc = first_realloc,
    .posix_memalign = first_posix_memalign, .mallopt = first_mallopt,
    .malloc_trim = first_malloc_trim, .malloc_usable_size = first_malloc_usable_size};

/* ---- what an allocator may lack ---- */

static void free_sized_by_free(void *object, size_t size)
{
    (void)size;
    next.free(object);
}

static void free_aligned_sized_by_free(void *object, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    next.free(object);
}

/* ---- finding them ---- */

static const struct link_map *allocator;
static struct next_libc_functions libc;

/* Loaded while the process ran: other libraries come before this one. */
static bool is_attached;

const struct link_map *next_own_library(void)
{
    static const struct link_map *own;
    if (own == NULL) own = linked_library(__ehdr_start);
    return own;
}

static bool next_is_runtime(const struct link_map *library)
{
    const char *file = linked_file(library);
    return strncmp(file, "libstdc++.", 10) == 0 || strncmp(file, "libc++", 6) == 0;
}

/* Function pointers cannot be cast from object pointers. */
static void next_set(void *function, void *found)
{
    if (found != NULL) memcpy(function, &found, sizeof found);
}

/* Whether a malloc() or some of the operators come before this library, as in many programs. Then a
 * runtime's other operators must lead there, as they do without us. If all operators come before
 * ours, ours are only called by them. */
#define FIND_FIRST(function, ...)              \
    first = own;                               \
    linked_function(NULL, #function, &first);  \
    is_preceded = is_preceded || first != own; \
    has_operator = has_operator || first == own;
static bool is_partly_preceded(const struct link_map *own)
{
    const struct link_map *first = own;
    linked_function(NULL, "malloc", &first);
    bool is_preceded = first != own, has_operator = false;
    ENTRY_CXX_ALLOCATIONS(FIND_FIRST)
    ENTRY_CXX_FREES(FIND_FIRST)
    return is_preceded && has_operator;
}

/* `name`: the name of the C library's own `function`. */
static void next_find_libc(void *found, const char *function, const char *name)
{
    const struct link_map *own = next_own_library(), *library = NULL;
    linked_function(own, function, &library);
    if (library != NULL && linked_function_in(library, name) == NULL)
        next_set(found, linked_function(own, name, NULL));
}

#define FIND_LIBC(function, ...) next_find_libc(&libc.function, #function, "__libc_" #function);
/* The library that has it goes to *library, unless that is NULL. */
static void *next_find(const char *name, const struct link_map **library)
{
    const struct link_map *own = next_own_library();
    if (!is_attached) return linked_function(own, name, library);
    return linked_function_of_others(own, name, library);
}

#define FIND(function, ...) next_set(&found.function, next_find(#function, NULL));
static void next_find_all(void)
{
    const struct link_map *operators = NULL, *aligned = NULL;
    struct next_allocator found = {.operators = NEXT_HERE,
                                   .free_sized = free_sized_by_free,
                                   .free_aligned_sized = free_aligned_sized_by_free};
    ENTRY_C_ALLOCATIONS(FIND)
    ENTRY_C_FREES(FIND)
    FIND(realloc)
    FIND(posix_memalign)
    FIND(mallopt)
    FIND(malloc_trim)
    FIND(malloc_usable_size)
    if (found.cfree == NULL) found.cfree = found.free;
    next_find("malloc", &allocator);
    next_find("_Znwm", &operators);
    next_find("memalign", &aligned);
    found.knows_sizes =
        allocator != NULL && linked_function_in(allocator, "malloc_usable_size") != NULL;
    found.has_allocators_operators = operators == allocator;
    found.has_memalign = operators == allocator && aligned == allocator;
    if (operators != NULL && ((operators != allocator && !next_is_runtime(operators)) ||
                              (!is_attached && is_partly_preceded(next_own_library())))) {
        found.operators = NEXT_BEHIND;
        ENTRY_CXX_ALLOCATIONS(FIND)
        ENTRY_CXX_FREES(FIND)
    }
    if (!is_attached) {
        NEXT_LIBC(FIND_LIBC)
    }
    next = found;
}

bool next_is_first(void)
{
    const struct link_map *first = NULL;
    linked_function(NULL, "malloc", &first);
    return first == next_own_library();
}

void next_attach(void)
{
    is_attached = true;
    next_find_all();
}

const struct next_libc_functions *next_libc(void)
{
    next_library();
    return &libc;
}

const struct link_map *next_library(void)
{
    if (allocator == NULL) next_find_all();
    return allocator;
}

/* ---- the C++ runtime ---- */

next_new_handler *next_handler(void)
{
    next_new_handler *(*get)(void) = NULL;
    next_set(&get, linked_function_now(NULL, "_ZSt15get_new_handlerv"));
    return get != NULL ? get() : NULL;
}

bool next_operator(void *function, const char *name)
{
    const struct link_map *own = next_own_library();
    void *found =
        is_attached ? linked_function_now_of_others(own, name) : linked_function_now(own, name);
    next_set(function, found);
    return found;
}

void next_throw_bad_alloc(void)
{
    void (*throw_it)(void) = NULL;
    next_set(&throw_it, linked_function_now(NULL, "_ZSt17__throw_bad_allocv"));
    if (throw_it != NULL) throw_it();
    __builtin_trap();
}
