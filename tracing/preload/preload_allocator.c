#include "tracing/preload/preload_allocator.h"

#include "common/atomic.h"
#include "common/text.h"
#include "stream/original.h"
#include "tracing/data/watch.h"
#include "tracing/preload/glibc_heap.h"
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

const char *const allocator_settings[] = {"GLIBC_TUNABLES", "MALLOC_*",   "JE_MALLOC_CONF",
                                          "MIMALLOC_*",     "TCMALLOC_*", NULL};

/* Functions by which known allocators are asked; NULL: this is another allocator. */
static struct {
    bool found;
    const char *(*tcmalloc_version)(int *major, int *minor, const char **patch);
    int (*tcmalloc_property)(const char *name, size_t *value);
    int (*mimalloc_version)(void);
    void (*mimalloc_process)(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *commit,
                             size_t *, size_t *);
    void (*mimalloc_print)(void (*line)(const char *text, void *of), void *of);
    int (*jemalloc_control)(const char *name, void *old, size_t *old_bytes, void *new,
                            size_t new_bytes);
    const char *(*libc_version)(void);
} asked;

/* What they said at the latest look. */
static uint64_t heap_bytes;
static uint64_t statistics[ORIGINAL_STATISTICS_MAX];
_Static_assert(GLIBC_HEAP_STATISTICS_COUNT + 4 <= ORIGINAL_STATISTICS_MAX,
               "three more are the recorder's own");

/* ---- its name ---- */

/* Function pointers cannot be cast from object pointers. */
static void preload_allocator_find(void *function, const char *name)
{
    void *found = linked_function_in(next_library(), name);
    memcpy(function, &found, sizeof found);
}

static void preload_allocator_find_all(void)
{
    preload_allocator_find(&asked.tcmalloc_version, "tc_version");
    preload_allocator_find(&asked.tcmalloc_property, "MallocExtension_GetNumericProperty");
    preload_allocator_find(&asked.mimalloc_version, "mi_version");
    preload_allocator_find(&asked.mimalloc_process, "mi_process_info");
    preload_allocator_find(&asked.mimalloc_print, "mi_stats_print_out");
    preload_allocator_find(&asked.jemalloc_control, "mallctl");
    preload_allocator_find(&asked.libc_version, "gnu_get_libc_version");
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
    if (asked.tcmalloc_version != NULL)
        set_name(asked.tcmalloc_version(&major, &minor, &patch), "");
    else if (asked.mimalloc_version != NULL)
        set_mimalloc_version(asked.mimalloc_version());
    else if (asked.jemalloc_control != NULL)
        set_jemalloc_version();
    else if (asked.libc_version != NULL)
        set_name("glibc", asked.libc_version());
    else
        set_name(linked_file(next_library()), "");
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

/* ---- its heap ---- */

static uint64_t jemalloc_number(const char *name)
{
    size_t number = 0, bytes = sizeof number;
    return asked.jemalloc_control(name, &number, &bytes, NULL, 0) == 0 ? number : 0;
}

static uint64_t ask_heap_bytes(void)
{
    size_t bytes = 0, other;
    uint64_t epoch = 1;
    if (asked.tcmalloc_property != NULL)
        return asked.tcmalloc_property("generic.heap_size", &bytes) ? bytes : 0;
    if (asked.mimalloc_process != NULL) {
        asked.mimalloc_process(&other, &other, &other, &other, &other, &bytes, &other, &other);
        return bytes;
    }
    if (asked.jemalloc_control == NULL ||
        asked.jemalloc_control("epoch", NULL, NULL, &epoch, sizeof epoch) != 0)
        return 0;
    return jemalloc_number("stats.mapped");
}

/* ---- its statistics ---- */

static const char jemalloc_names[] =
    "allocated_bytes active_bytes metadata_bytes resident_bytes retained_bytes dirty_bytes "
    "muzzy_bytes";
static const char mimalloc_names[] = "segments abandoned_segments";

_Static_assert(sizeof GLIBC_HEAP_STATISTICS <= WATCH_NAMES_BYTES, "top shows them");

/* Also read by the writer, which must not ask. */
static const char *preload_allocator_names = "";
static unsigned names_count;

static void say(unsigned index, uint64_t value)
{
    atomic_store_relaxed(&statistics[index], value);
}

/* As of the epoch that ask_heap_bytes() has begun. 4096 is MALLCTL_ARENAS_ALL. */
static void ask_jemalloc(void)
{
    const uint64_t page_bytes = jemalloc_number("arenas.page");
    say(0, jemalloc_number("stats.allocated"));
    say(1, jemalloc_number("stats.active"));
    say(2, jemalloc_number("stats.metadata"));
    say(3, jemalloc_number("stats.resident"));
    say(4, jemalloc_number("stats.retained"));
    say(5, jemalloc_number("stats.arenas.4096.pdirty") * page_bytes);
    say(6, jemalloc_number("stats.arenas.4096.pmuzzy") * page_bytes);
}

/* A number like "12", "-3" or "1.5 Ki". Returns what follows it. */
static const char *preload_allocator_take_number(const char *text, int64_t *number)
{
    static const char units[] = "KMG";
    int64_t tenths = 0;
    text += strspn(text, " ");
    const bool is_negative = *text == '-';
    for (text += is_negative; *text >= '0' && *text <= '9'; text++)
        tenths = (tenths + *text - '0') * 10;
    if (text[0] == '.' && text[1] >= '0' && text[1] <= '9') {
        tenths += text[1] - '0';
        text += 2;
    }
    text += strspn(text, " ");
    const char *unit = *text ? strchr(units, *text) : NULL;
    if (unit != NULL) tenths <<= 10 * (unit - units + 1);
    *number = (is_negative ? -tenths : tenths) / 10;
    return unit != NULL ? text + strcspn(text, " ") : text;
}

/* One print of mimalloc. */
struct mimalloc_print {
    unsigned column; /* of the current numbers, by the header; 0: there was none yet */
    unsigned taken;
};

/* Of "NAME: PEAK TOTAL FREED CURRENT ..." the current one. It may be below 0, as a thread's own
 * counts are added up when it ends. */
static uint64_t mimalloc_current(const char *line, unsigned column)
{
    int64_t number = 0;
    line += strcspn(line, ":");
    if (*line) line++;
    for (unsigned i = 0; i < column; i++)
        line = preload_allocator_take_number(line, &number);
    return number > 0 ? (uint64_t)number : 0;
}

/* Since 2.2 the header has no "freed", and no other f. Two lines are called "-abandoned"; the first
 * one is of segments. */
static void take_mimalloc_line(const char *line, void *of)
{
    static const char *const lines[] = {"segments:", "-abandoned:"};
    struct mimalloc_print *print = of;
    line += strspn(line, " ");
    if (strncmp(line, "heap stats:", 11) == 0) print->column = strchr(line, 'f') != NULL ? 4 : 3;
    if (!print->column || print->taken == 2 ||
        strncmp(line, lines[print->taken], strlen(lines[print->taken])) != 0)
        return;
    say(print->taken++, mimalloc_current(line, print->column));
}

/* False: it prints no such numbers, as mimalloc 3, which has no segments. */
static bool ask_mimalloc(void)
{
    struct mimalloc_print print = {0, 0};
    asked.mimalloc_print(take_mimalloc_line, &print);
    return print.taken == 2;
}

static bool jemalloc_has_statistics(void)
{
    bool has = false;
    size_t bytes = sizeof has;
    return asked.jemalloc_control("config.stats", &has, &bytes, NULL, 0) == 0 && has;
}

static void set_names(const char *known, unsigned count)
{
    if (count == 0) return;
    preload_allocator_names = known;
    names_count = count;
}

/* Asks in the same order as name_it(). */
static void name_statistics(void)
{
    if (asked.tcmalloc_version != NULL) return;
    if (asked.mimalloc_version != NULL)
        set_names(mimalloc_names, asked.mimalloc_print != NULL && ask_mimalloc() ? 2 : 0);
    else if (asked.jemalloc_control != NULL)
        set_names(jemalloc_names, jemalloc_has_statistics() ? 7 : 0);
    else if (asked.libc_version != NULL)
        set_names(GLIBC_HEAP_STATISTICS, glibc_heap_find(next_library(), asked.libc_version()));
}

static void ask_statistics(void)
{
    if (preload_allocator_names == mimalloc_names) ask_mimalloc();
    if (preload_allocator_names == jemalloc_names) ask_jemalloc();
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
    if (!asked.found) {
        preload_allocator_find_all();
        name_it();
        name_statistics();
    }
    atomic_store_relaxed(&heap_bytes, ask_heap_bytes());
    ask_statistics();
}

/* glibc is not asked, but read: its statistics, too, come from here. */
uint64_t allocator_heap_bytes(void)
{
    uint64_t values[GLIBC_HEAP_STATISTICS_COUNT] = {0};
    if (asked.libc_version == NULL) return atomic_load_relaxed(&heap_bytes);
    const uint64_t bytes = glibc_heap_read(values);
    for (unsigned i = 0; i < names_count; i++)
        say(i, values[i]);
    return bytes;
}

const char *allocator_heap_unknown(void)
{
    if (asked.tcmalloc_property != NULL || asked.mimalloc_process != NULL ||
        asked.jemalloc_control != NULL)
        return NULL;
    return asked.libc_version != NULL ? glibc_heap_unknown()
                                      : "this allocator has no statistics that can be read";
}

/* glibc has 8 bytes of its own in front of each object. */
uint8_t allocator_rounding(void)
{
    return asked.libc_version != NULL ? 7 : 15;
}
