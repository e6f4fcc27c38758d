#include "tracing/preload/preload_allocator.h"

#include "allocators/known.h"
#include "allocators/glibc_heap.h"
#include "common/atomic.h"
#include "common/text.h"
#include "stream/original.h"
#include "tracing/data/watch.h"
#include "tracing/preload/linked.h"
#include "tracing/preload/next.h"

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NAME_BYTES_MAX 128

char allocator_name[NAME_BYTES_MAX];
char allocator_path[PATH_MAX];

const char *const allocator_settings[] = {ALLOCATOR_VARIABLES, NULL};

static const struct allocator_facts *facts; /* NULL: another allocator, or not asked yet */
static struct allocator_functions functions;
static bool found; /* asked */

/* What they said at the latest look. */
static uint64_t heap_bytes;
static uint64_t statistics[ORIGINAL_STATISTICS_MAX];
_Static_assert(GLIBC_HEAP_STATISTICS_COUNT + 4 <= ORIGINAL_STATISTICS_MAX,
               "three more are the recorder's own");

/* ---- its name ---- */

/* Function pointers cannot be cast from object pointers. */
static void preload_allocator_find(void *function, const char *name)
{
    void *address = linked_function_in(next_library(), name);
    memcpy(function, &address, sizeof address);
}

static void preload_allocator_find_all(void)
{
#define FIND_FUNCTION(result, symbol, arguments) preload_allocator_find(&functions.symbol, #symbol);
    ALLOCATOR_FUNCTION_LIST(FIND_FUNCTION)
#undef FIND_FUNCTION
    facts = allocator_facts_of(&functions);
    found = true;
}

/* "jemalloc 5.3.0"; what some say as their version begins with their name. */
static void name_it(void)
{
    char said[NAME_BYTES_MAX];
    struct text text = {allocator_name, 0, NAME_BYTES_MAX}, version = {said, 0, sizeof said},
                path = {allocator_path, 0, sizeof allocator_path};
    text_string(&path, next_library()->l_name);
    text_end(&path);
    if (facts != NULL) facts->put_version(&functions, &version);
    text_end(&version);
    if (facts == NULL)
        text_string(&text, linked_file(next_library()));
    else if (!facts->version_has_name)
        text_string(&text, facts->name);
    if (text.used > 0 && *said) text_character(&text, ' ');
    text_string(&text, said);
    text_end(&text);
}

/* ---- its code ---- */

/* Several threads may find the same at the same time. `code_end` is stored last; 1: there is none. */
static uintptr_t code_start, code_end;

static void find_code(void)
{
    const struct link_map *library = next_library();
    uintptr_t start = UINTPTR_MAX, end = 1;
    size_t count = 0;
    const ElfW(Phdr) *segments =
        library != NULL && library->l_name[0] ? linked_segments(library, &count) : NULL;
    for (size_t i = 0; segments != NULL && i < count; i++) {
        const uintptr_t from = library->l_addr + segments[i].p_vaddr;
        if (segments[i].p_type != PT_LOAD) continue;
        if (from < start) start = from;
        if (from + segments[i].p_memsz > end) end = from + segments[i].p_memsz;
    }
    atomic_store_relaxed(&code_start, start);
    atomic_store_release(&code_end, end);
}

bool allocator_made_call(const void *address)
{
    if (!atomic_load_acquire(&code_end)) find_code();
    return (uintptr_t)address >= atomic_load_relaxed(&code_start) &&
           (uintptr_t)address < atomic_load_relaxed(&code_end);
}

/* ---- its heap and its statistics ---- */

_Static_assert(sizeof GLIBC_HEAP_STATISTICS <= WATCH_NAMES_BYTES, "top shows them");

/* Also read by the writer, which must not ask. */
static const char *preload_allocator_names = "";
static unsigned names_count;

static void say(unsigned index, uint64_t value)
{
    atomic_store_relaxed(&statistics[index], value);
}

static void set_names(const char *known, unsigned count)
{
    if (count == 0) return;
    preload_allocator_names = known;
    names_count = count;
}

static void name_statistics(void)
{
    if (facts == &allocator_glibc)
        set_names(GLIBC_HEAP_STATISTICS,
                  glibc_heap_find(next_library(), functions.gnu_get_libc_version()));
    else if (facts != NULL && facts->statistics != NULL)
        set_names(facts->statistics,
                  facts->has_statistics(&functions) ? facts->statistics_count : 0);
}

/* glibc is not asked, but read. */
static bool is_asked(void)
{
    return facts != NULL && facts != &allocator_glibc;
}

static void ask(void)
{
    uint64_t values[ALLOCATOR_STATISTICS_MAX];
    if (!is_asked()) return;
    atomic_store_relaxed(&heap_bytes, facts->heap_bytes(&functions));
    const unsigned count = names_count > 0 ? facts->read_statistics(&functions, values) : 0;
    for (unsigned i = 0; i < count; i++)
        say(i, values[i]);
}

const char *allocator_statistics(void)
{
    return preload_allocator_names;
}

void allocator_read_statistics(struct original_statistics *to)
{
    *to = (struct original_statistics){.count = names_count};
    for (unsigned i = 0; i < names_count; i++)
        to->values[i] = atomic_load_relaxed(&statistics[i]);
}

/* ---- asking ---- */

bool allocator_is_jemalloc(void)
{
    return next_library() != NULL && linked_function_in(next_library(), "mallctl") != NULL;
}

void allocator_look(void)
{
    if (next_library() == NULL) return;
    if (!found) {
        preload_allocator_find_all();
        name_it();
        name_statistics();
    }
    ask();
}

/* glibc's statistics, too, come from here. */
uint64_t allocator_heap_bytes(void)
{
    uint64_t values[GLIBC_HEAP_STATISTICS_COUNT] = {0};
    if (facts != &allocator_glibc) return atomic_load_relaxed(&heap_bytes);
    const uint64_t bytes = glibc_heap_read(values);
    for (unsigned i = 0; i < names_count; i++)
        say(i, values[i]);
    return bytes;
}

const char *allocator_heap_unknown(void)
{
    if (facts == &allocator_glibc) return glibc_heap_unknown();
    return is_asked() ? NULL : "this allocator has no statistics that can be read";
}

uint8_t allocator_rounding(void)
{
    return facts != NULL ? facts->rounding : 15;
}
