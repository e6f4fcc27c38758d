#include <string.h>

#include "allocators/facts.h"
#include "common/text.h"

static bool mimalloc_is_it(const struct allocator_functions *functions)
{
    return functions->mi_version != NULL;
}

/* A digit for major and minor version, and one for the patch; since 3.0.10 two of the patch; since
 * 2.3 and 3.3 two of the minor version, too: 227 is 2.2.7, 3207 is 3.2.7, 30302 is 3.3.2. */
static void mimalloc_put_version(const struct allocator_functions *functions, struct text *to)
{
    const int said = functions->mi_version();
    const unsigned number = said < 0 ? 0 : (unsigned)said;
    const unsigned patches = number < 1000 ? 10 : 100, minors = number < 10000 ? 10 : 100;
    text_decimal(to, number / patches / minors);
    text_character(to, '.');
    text_decimal(to, number / patches % minors);
    text_character(to, '.');
    text_decimal(to, number % patches);
}

/* ---- its heap ---- */

static const char *mimalloc_heap_source(const struct allocator_functions *functions)
{
    return functions->mi_process_info != NULL ? "mi_process_info" : NULL;
}

static uint64_t mimalloc_heap_bytes(const struct allocator_functions *functions)
{
    size_t other, commit = 0;
    if (mimalloc_heap_source(functions) == NULL) return 0;
    functions->mi_process_info(&other, &other, &other, &other, &other, &commit, &other, &other);
    return commit;
}

static void mimalloc_collect(const struct allocator_functions *functions)
{
    functions->mi_collect(true);
}

/* ---- its statistics, which it prints ---- */

/* A number like "12", "-3" or "1.5 Ki". Returns what follows it. */
static const char *mimalloc_take_number(const char *text, int64_t *number)
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

/* One print. */
struct mimalloc_print {
    unsigned column; /* of the current numbers, by the header; 0: there was none yet */
    unsigned taken;
    uint64_t *values;
};

enum { MIMALLOC_STATISTICS = 2 };

/* Of "NAME: PEAK TOTAL FREED CURRENT ..." the current one. It may be below 0, as a thread's own
 * counts are added up when it ends. */
static uint64_t mimalloc_current(const char *line, unsigned column)
{
    int64_t number = 0;
    line += strcspn(line, ":");
    if (*line) line++;
    for (unsigned i = 0; i < column; i++)
        line = mimalloc_take_number(line, &number);
    return number > 0 ? (uint64_t)number : 0;
}

/* Since 2.2 the header has no "freed", and no other f. Two lines are called "-abandoned"; the first
 * one is of segments. */
static void mimalloc_take_line(const char *line, void *of)
{
    static const char *const lines[MIMALLOC_STATISTICS] = {"segments:", "-abandoned:"};
    struct mimalloc_print *print = of;
    line += strspn(line, " ");
    if (strncmp(line, "heap stats:", 11) == 0) print->column = strchr(line, 'f') != NULL ? 4 : 3;
    if (!print->column || print->taken == MIMALLOC_STATISTICS ||
        strncmp(line, lines[print->taken], strlen(lines[print->taken])) != 0)
        return;
    print->values[print->taken++] = mimalloc_current(line, print->column);
}

/* It looks at the thread's own, too: a thread that libc has not made, as that which begins the
 * recording of an attached process, has none, and gets no answer. */
static unsigned mimalloc_read_statistics(const struct allocator_functions *functions,
                                         uint64_t values[ALLOCATOR_STATISTICS_MAX])
{
    struct mimalloc_print print = {0, 0, values};
    if (functions->mi_heap_get_default != NULL && functions->mi_heap_get_default() == NULL)
        return 0;
    functions->mi_stats_print_out(mimalloc_take_line, &print);
    return print.taken;
}

/* mimalloc 3 has no segments, and prints no such numbers. */
static bool mimalloc_has_statistics(const struct allocator_functions *functions)
{
    uint64_t values[ALLOCATOR_STATISTICS_MAX];
    return functions->mi_stats_print_out != NULL &&
           mimalloc_read_statistics(functions, values) == MIMALLOC_STATISTICS;
}

/* ---- its size classes ---- */

enum { SMALL_MAX = 128 * 1024, PAGE_BYTES = 4096 };

/* 8 bytes, then multiples of 16 up to 64, then four classes for each doubling. Above SMALL_MAX, it
 * reserves more than this returns, but does not touch it. */
static uint64_t mimalloc_size(uint64_t size)
{
    if (size > SMALL_MAX) return allocator_round_up(size, PAGE_BYTES);
    if (size <= 8) return 8;
    return size <= 64 ? allocator_round_up(size, 16) : allocator_round_to_quarter(size);
}

/* ---- its settings ---- */

/* The first name is for mimalloc up to 2.0, the second for 2.1 and later. */
static const char *const mimalloc_tuned[] = {
    "MIMALLOC_RESET_DELAY=0;MIMALLOC_PURGE_DELAY=0",
    "MIMALLOC_EAGER_COMMIT=0;MIMALLOC_ARENA_EAGER_COMMIT=0", NULL};

/* Not MIMALLOC_SHOW_... and MIMALLOC_VERBOSE (print), MIMALLOC_RESERVE_... (memory of the whole
 * machine). */
static const char mimalloc_numbers[] =
    " MIMALLOC_ABANDONED_PAGE_PURGE MIMALLOC_ABANDONED_PAGE_RESET"
    " MIMALLOC_ABANDONED_RECLAIM_ON_FREE MIMALLOC_ALLOW_DECOMMIT MIMALLOC_ALLOW_LARGE_OS_PAGES"
    " MIMALLOC_ARENA_EAGER_COMMIT MIMALLOC_ARENA_PURGE_MULT MIMALLOC_ARENA_RESERVE"
    " MIMALLOC_DECOMMIT_DELAY MIMALLOC_DECOMMIT_EXTEND_DELAY MIMALLOC_DESTROY_ON_EXIT"
    " MIMALLOC_DISALLOW_ARENA_ALLOC MIMALLOC_DISALLOW_OS_ALLOC MIMALLOC_EAGER_COMMIT"
    " MIMALLOC_EAGER_COMMIT_DELAY MIMALLOC_EAGER_REGION_COMMIT MIMALLOC_GENERIC_COLLECT"
    " MIMALLOC_LARGE_OS_PAGES MIMALLOC_LIMIT_OS_ALLOC MIMALLOC_MAX_SEGMENT_RECLAIM"
    " MIMALLOC_MINIMAL_PURGE_SIZE MIMALLOC_OS_TAG MIMALLOC_PAGE_COMMIT_ON_DEMAND"
    " MIMALLOC_PAGE_FULL_RETAIN MIMALLOC_PAGE_MAX_CANDIDATES MIMALLOC_PAGE_RECLAIM_ON_FREE"
    " MIMALLOC_PAGE_RESET MIMALLOC_PURGE_DECOMMITS MIMALLOC_PURGE_DELAY"
    " MIMALLOC_PURGE_EXTEND_DELAY MIMALLOC_RESET_DECOMMITS MIMALLOC_RESET_DELAY"
    " MIMALLOC_SEGMENT_CACHE MIMALLOC_SEGMENT_DECOMMIT_DELAY MIMALLOC_SEGMENT_RESET"
    " MIMALLOC_TARGET_SEGMENTS_PER_THREAD MIMALLOC_USE_NUMA_NODES MIMALLOC_VISIT_ABANDONED ";

const struct allocator_facts allocator_mimalloc = {
    .name = "mimalloc",
    .faults = ALLOCATOR_NEW_ENDS_PROCESS,
    .is_it = mimalloc_is_it,
    .put_version = mimalloc_put_version,
    .rounding = 15,
    .heap_source = mimalloc_heap_source,
    .heap_bytes = mimalloc_heap_bytes,
    .statistics = "segments abandoned_segments",
    .statistics_count = MIMALLOC_STATISTICS,
    .has_statistics = mimalloc_has_statistics,
    .read_statistics = mimalloc_read_statistics,
    .release_means = "mi_collect(true)",
    .release = mimalloc_collect,
    .settle = mimalloc_collect, /* empty pages go back */
    .sizes_name = "mimalloc",
    .size = mimalloc_size,
    .tuned = mimalloc_tuned,
    .numbers = mimalloc_numbers,
};
