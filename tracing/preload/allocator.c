#include "allocator.h"

#include "common/atomic.h"
#include "common/text.h"
#include "glibc_heap.h"
#include "linked.h"
#include "next.h"
#include "tracing/watch.h"

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NAME_BYTES_MAX 128

char allocator_name[NAME_BYTES_MAX];
char allocator_path[PATH_MAX];

const char *const allocator_settings[] = {"GLIBC_TUNABLES", "MALLOC_*",   "JE_MALLOC_CONF",
                                          "MIMALLOC_*",     "TCMALLOC_*", NULL};

/* What known allocators have to be asked with; NULL: this is another one. */
static struct {
    bool found;
    const char *(*tcmalloc_version)(int *major, int *minor, const char **patch);
    int (*tcmalloc_property)(const char *name, size_t *value);
    int (*mimalloc_version)(void);
    void (*mimalloc_process)(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *commit,
                             size_t *, size_t *);
    int (*jemalloc_control)(const char *name, void *old, size_t *old_bytes, void *new,
                            size_t new_bytes);
    const char *(*libc_version)(void);
} asked;

static uint64_t heap_bytes;

/* --- its name --- */

/* Function pointers cannot be cast from object pointers. */
static void find(void *function, const char *name)
{
    void *found = linked_function_in(next_library(), name);
    memcpy(function, &found, sizeof found);
}

static void find_all(void)
{
    find(&asked.tcmalloc_version, "tc_version");
    find(&asked.tcmalloc_property, "MallocExtension_GetNumericProperty");
    find(&asked.mimalloc_version, "mi_version");
    find(&asked.mimalloc_process, "mi_process_info");
    find(&asked.jemalloc_control, "mallctl");
    find(&asked.libc_version, "gnu_get_libc_version");
    asked.found = true;
}

static void set_name(const char *name, const char *version)
{
    struct text text = {allocator_name, 0, NAME_BYTES_MAX};
    text_string(&text, name);
    if (*version) text_character(&text, ' ');
    text_string(&text, version);
    text_end(&text);
}

static void set_mimalloc_version(int version)
{
    char digits[] = {(char)('0' + version / 100 % 10), '.', (char)('0' + version / 10 % 10), '.',
                     (char)('0' + version % 10),       0};
    set_name("mimalloc", digits);
}

static void set_jemalloc_version(void)
{
    const char *version = "";
    size_t bytes = sizeof version;
    if (asked.jemalloc_control("version", &version, &bytes, NULL, 0) != 0) version = "";
    set_name("jemalloc", version);
}

static void name_it(void)
{
    int major, minor;
    const char *patch;
    struct text path = {allocator_path, 0, sizeof allocator_path};
    text_string(&path, next_library()->l_name);
    text_end(&path);
    if (asked.tcmalloc_version)
        set_name(asked.tcmalloc_version(&major, &minor, &patch), "");
    else if (asked.mimalloc_version)
        set_mimalloc_version(asked.mimalloc_version());
    else if (asked.jemalloc_control)
        set_jemalloc_version();
    else if (asked.libc_version)
        set_name("glibc", asked.libc_version());
    else
        set_name(linked_file(next_library()), "");
}

/* --- its heap --- */

static uint64_t ask_heap_bytes(void)
{
    size_t bytes = 0, size = sizeof bytes, other;
    uint64_t epoch = 1;
    if (asked.tcmalloc_property)
        return asked.tcmalloc_property("generic.heap_size", &bytes) ? bytes : 0;
    if (asked.mimalloc_process) {
        asked.mimalloc_process(&other, &other, &other, &other, &other, &bytes, &other, &other);
        return bytes;
    }
    if (!asked.jemalloc_control ||
        asked.jemalloc_control("epoch", NULL, NULL, &epoch, sizeof epoch) != 0)
        return 0;
    return asked.jemalloc_control("stats.mapped", &bytes, &size, NULL, 0) == 0 ? bytes : 0;
}

void allocator_look(void)
{
    if (!next_library()) return;
    if (!asked.found) find_all();
    if (!allocator_name[0]) name_it();
    atomic_store_relaxed(&heap_bytes, ask_heap_bytes());
}

uint64_t allocator_heap_bytes(void)
{
    return asked.libc_version ? glibc_heap_bytes(next_library(), asked.libc_version())
                              : atomic_load_relaxed(&heap_bytes);
}

void allocator_look_at_glibc(struct watch_glibc *glibc)
{
    *glibc = (struct watch_glibc){0};
    if (asked.libc_version) glibc_heap_look(next_library(), asked.libc_version(), glibc);
}

/* glibc has 8 bytes of its own in front of each object. */
uint8_t allocator_rounding(void)
{
    return asked.libc_version ? 7 : 15;
}
