#include "replay/allocator.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/atomic.h"
#include "common/text.h"
#include "replay/new_handler.h"
#include "stream/instruction.h"

static void *call_posix_memalign(size_t alignment, size_t size)
{
    void *object;
    return posix_memalign(&object, alignment, size) == 0 ? object : NULL;
}

/* ---- substitutes ---- */

static void *substitute_malloc(size_t size)
{
    return malloc(size);
}

static void *substitute_malloc_tag(size_t size, const void *tag)
{
    (void)tag;
    return malloc(size);
}

/* posix_memalign() takes only powers of two from the size of a pointer on; other allocation
 * functions take any alignment. */
static void *substitute_memalign(size_t alignment, size_t size)
{
    size_t least = sizeof(void *);
    while (least < alignment && least <= SIZE_MAX / 2)
        least *= 2;
    return call_posix_memalign(least, size);
}

static void *substitute_malloc_aligned(size_t size, size_t alignment)
{
    return substitute_memalign(alignment, size);
}

static void *substitute_malloc_aligned_tag(size_t size, size_t alignment, const void *tag)
{
    (void)tag;
    return substitute_memalign(alignment, size);
}

static void *substitute_valloc(size_t size)
{
    return substitute_memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

static void substitute_free(void *object)
{
    free(object);
}

static void substitute_free_tag(void *object, const void *tag)
{
    (void)tag;
    free(object);
}

static void substitute_free_sized(void *object, size_t size)
{
    (void)size;
    free(object);
}

static void substitute_free_aligned(void *object, size_t alignment)
{
    (void)alignment;
    free(object);
}

static void substitute_free_aligned_tag(void *object, size_t alignment, const void *tag)
{
    (void)alignment, (void)tag;
    free(object);
}

static void substitute_free_sized_aligned(void *object, size_t size, size_t alignment)
{
    (void)size, (void)alignment;
    free(object);
}

/* ---- looking up ---- */

/* The library that contains a function; NULL: unknown. dladdr() would search all symbols of the
 * library, which takes a third of a millisecond. */
static const void *library_of(void *function, const char **path)
{
    struct dl_find_object found;
    if (function == NULL || _dl_find_object(function, &found) != 0) return NULL;
    if (path != NULL) *path = found.dlfo_link_map->l_name;
    return found.dlfo_map_start;
}

static void *find_any(const char *symbols)
{
    char symbol[64];
    while (*symbols != '\0') {
        size_t length = strcspn(symbols, " ");
        snprintf(symbol, sizeof symbol, "%.*s", (int)length, symbols);
        void *found = dlsym(RTLD_DEFAULT, symbol);
        if (found != NULL) return found;
        symbols += length + (symbols[length] == ' ');
    }
    return NULL;
}

/* Looks up a symbol in the library that malloc comes from. */
static void *find_own(const char *symbol)
{
    static const void *library;
    void *found = dlsym(RTLD_DEFAULT, symbol);
    if (found == NULL) return NULL;
    if (library == NULL) library = library_of(dlsym(RTLD_DEFAULT, "malloc"), NULL);
    return library_of(found, NULL) == library ? found : NULL;
}

/* dlsym() returns a data pointer; POSIX allows this conversion to a function pointer. */
#define ASSIGN_FUNCTION(to, found)               \
    do {                                         \
        void *address = (found);                 \
        memcpy(&(to), &address, sizeof address); \
    } while (0)

static void allocator_find_calls(struct allocator *allocator)
{
#define FIND_CALL(kind, member, arguments, symbols, substitute) \
    ASSIGN_FUNCTION(allocator->member, find_any(symbols));      \
    if (allocator->member == NULL) {                            \
        allocator->member = substitute_##substitute;            \
        allocator->substituted[CALL_##kind] = true;             \
    }
    ALLOCATOR_CALL_LIST(FIND_CALL)
#undef FIND_CALL
#define FIND_C_CALL(kind, member, arguments, symbol, substitute) \
    ASSIGN_FUNCTION(allocator->member, find_own(symbol));        \
    if (allocator->member == NULL) {                             \
        allocator->member = substitute_##substitute;             \
        allocator->substituted[CALL_##kind] = true;              \
    }
    ALLOCATOR_C_CALL_LIST(FIND_C_CALL)
#undef FIND_C_CALL
}

static void allocator_find_library(struct allocator *allocator)
{
#define FIND_FUNCTION(result, symbol, arguments) \
    ASSIGN_FUNCTION(allocator->library.symbol, find_own(#symbol));
    ALLOCATOR_FUNCTION_LIST(FIND_FUNCTION)
#undef FIND_FUNCTION
#define NOTE_HEAP_CALL(kind, symbol) \
    allocator->substituted[CALL_##kind] = allocator->library.symbol == NULL;
    ALLOCATOR_HEAP_LIST(NOTE_HEAP_CALL)
#undef NOTE_HEAP_CALL
}

/* ---- names ---- */

static void allocator_find_name(struct allocator *allocator)
{
    const struct allocator_facts *facts = allocator_facts_of(&allocator->library);
    const char *path = "";
    struct text version = {allocator->version, 0, sizeof allocator->version};
    library_of(dlsym(RTLD_DEFAULT, "malloc"), &path);
    snprintf(allocator->path, sizeof allocator->path, "%s", path);
    snprintf(allocator->name, sizeof allocator->name, "%s",
             facts != NULL ? facts->name : basename(path));
    if (facts != NULL) facts->put_version(&allocator->library, &version);
    text_end(&version);
    allocator->facts = facts;
}

/* ---- faults that end a replay ---- */

static bool allocator_has(const struct allocator *allocator, unsigned fault)
{
    return allocator->facts != NULL && (allocator->facts->faults & fault) != 0;
}

/* Substitutes calls that are the same except that they do not end the process. */
static void allocator_avoid_throwing(struct allocator *allocator)
{
    static const uint8_t kinds[] = {CALL_NEW, CALL_NEW_ARRAY, CALL_NEW_ALIGNED,
                                    CALL_NEW_ARRAY_ALIGNED};
    const struct allocator_functions *library = &allocator->library;
    if (!allocator_has(allocator, ALLOCATOR_NEW_ENDS_PROCESS) || library->mi_malloc == NULL ||
        library->mi_malloc_aligned == NULL || new_handler_exists())
        return;
    allocator->new_object = allocator->new_array = library->mi_malloc;
    allocator->new_aligned = allocator->new_array_aligned = library->mi_malloc_aligned;
    for (unsigned i = 0; i < sizeof kinds; i++)
        allocator->substituted[kinds[i]] = true;
}

/* ---- empty objects whose size must be given as 1 ---- */

static struct {
    allocator_free_sized_aligned *delete_object, *delete_array;
    uint64_t frees; /* atomic */
} empty;

static size_t empty_size(size_t size)
{
    if (size > 0) return size;
    atomic_add_relaxed(&empty.frees, 1);
    return 1;
}

static void empty_delete(void *object, size_t size, size_t alignment)
{
    empty.delete_object(object, empty_size(size), alignment);
}

static void empty_delete_array(void *object, size_t size, size_t alignment)
{
    empty.delete_array(object, empty_size(size), alignment);
}

static void allocator_mend_empty(struct allocator *allocator)
{
    if (!allocator_has(allocator, ALLOCATOR_EMPTY_IS_ONE)) return;
    empty.delete_object = allocator->delete_sized_aligned;
    empty.delete_array = allocator->delete_array_sized_aligned;
    allocator->delete_sized_aligned = empty_delete;
    allocator->delete_array_sized_aligned = empty_delete_array;
}

uint64_t allocator_empty_frees(void)
{
    return atomic_load_acquire(&empty.frees);
}

/* ---- large objects that calloc() does not clear ---- */

static struct {
    void *(*calloc)(size_t count, size_t size);
    uint64_t objects; /* atomic */
} uncleared;

static void *uncleared_calloc(size_t count, size_t size)
{
    if (count * size < INSTRUCTION_TOUCHED_BYTES) return uncleared.calloc(count, size);
    atomic_add_relaxed(&uncleared.objects, 1);
    return malloc(count * size);
}

void allocator_leave_uncleared(struct allocator *allocator)
{
    uncleared.calloc = allocator->calloc;
    allocator->calloc = uncleared_calloc;
}

uint64_t allocator_uncleared_objects(void)
{
    return atomic_load_acquire(&uncleared.objects);
}

void allocator_find(struct allocator *allocator)
{
    *allocator = (struct allocator){
        .malloc = malloc,
        .calloc = calloc,
        .realloc = realloc,
        .posix_memalign = call_posix_memalign,
        .free = free,
    };
    allocator_find_calls(allocator);
    allocator_find_library(allocator);
    allocator_find_name(allocator);
    allocator_avoid_throwing(allocator);
    allocator_mend_empty(allocator);
    ASSIGN_FUNCTION(allocator->release_cache, find_own("release_malloc_thread_cache"));
    ASSIGN_FUNCTION(allocator->set_cache, find_own("set_malloc_thread_cache"));
    if (allocator->release_cache == NULL || allocator->set_cache == NULL) {
        allocator->release_cache = NULL;
        allocator->set_cache = NULL;
    }
}
