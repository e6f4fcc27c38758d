#include "allocators/glibc_heap.h"

#include "common/atomic.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PAGE_BYTES 4096 /* or a multiple of it */
#define ARENAS_MAX 65536

/* Versions 2.NUMBER that have what follows: before the first, arenas have a word less before `top`;
 * after the last, the words before it and the thread caches' parameters change. */
enum { FIRST_VERSION = 27, FIRST_WITH_THRESHOLDS = 35, LAST_VERSION = 41 };

static const char *unknown = "it has not been looked for";

/* Words of struct malloc_state, from its member `top` on. */
enum {
    ARENA_TOP = 12, /* words before it */
    BINS = 2,       /* `last_remainder` is between them */
    BIN_WORDS = 254,
    NEXT = BINS + BIN_WORDS + 2, /* after the map of bins */
    SYSTEM_BYTES = NEXT + 3,
    MOST_SYSTEM_BYTES,
    ARENA_WORDS
};
enum { THREADS = NEXT + 2 }; /* that use it */

/* Words of struct malloc_par, from `mmapped_mem` on; and before that, since 2.35. */
enum {
    TRIM_THRESHOLD = -10,
    MMAP_THRESHOLD = -8,
    ARENA_TEST = -7,
    MAPPED_CHUNKS = -3,    /* the upper half */
    MAPPED_CHUNKS_MAX = -2 /* the lower half */
};
enum { MAPPED_BYTES, MOST_MAPPED_BYTES, HEAP_START, CACHE_BINS, CACHE_BYTES, PARAMETER_WORDS };

/* NULL: unknown. */
static const uintptr_t *glibc_heap_main_arena, *parameters;

/* The last bin is always empty: both its words are the address at which it would begin if it were a
 * chunk. Before the first call there are only a ring of one arena, and its thread. */
static bool is_arena(const uintptr_t *words)
{
    const uintptr_t *bin = words + BINS + BIN_WORDS - 2;
    const uintptr_t none = (uintptr_t)(bin - 2);
    if (words[SYSTEM_BYTES] % PAGE_BYTES != 0 || words[SYSTEM_BYTES] > words[MOST_SYSTEM_BYTES])
        return false;
    if (words[0]) return bin[0] == none && bin[1] == none && words[NEXT];
    return !bin[0] && !bin[1] && words[NEXT] == (uintptr_t)(words - ARENA_TOP) &&
           words[THREADS] == 1;
}

/* 64 bins, for up to 1032 bytes; or, since 2.35, what tunables have set, if the limits of arenas
 * and of mapped chunks are the defaults. */
static bool are_thread_caches(const uintptr_t *words)
{
    const uintptr_t bins = words[CACHE_BINS], bytes = words[CACHE_BYTES];
    return (bins == 64 && bytes == 1032) ||
           (words[ARENA_TEST] == 8 && (uint32_t)words[MAPPED_CHUNKS_MAX] == 65536 && bins > 0 &&
            bins < 64 && bytes <= 16 * bins + 8);
}

static bool are_parameters(const uintptr_t *words)
{
    return are_thread_caches(words) && words[HEAP_START] % PAGE_BYTES == 0 &&
           words[MAPPED_BYTES] % PAGE_BYTES == 0 && words[MAPPED_BYTES] <= words[MOST_MAPPED_BYTES];
}

static void look_through(const uintptr_t *words, size_t count)
{
    for (size_t i = ARENA_TOP; i + ARENA_WORDS <= count; i++)
        if (is_arena(words + i)) glibc_heap_main_arena = words + i;
    for (size_t i = -TRIM_THRESHOLD; i + PARAMETER_WORDS <= count; i++)
        if (are_parameters(words + i)) parameters = words + i;
}

static int glibc_heap_number_of(const char *version)
{
    bool is_known = strncmp(version, "2.", 2) == 0 && version[2] >= '2' && version[2] <= '9' &&
                    version[3] >= '0' && version[3] <= '9';
    return is_known ? (version[2] - '0') * 10 + version[3] - '0' : 0;
}

unsigned glibc_heap_find(const struct link_map *libc, const char *version)
{
    int number = glibc_heap_number_of(version);
    unknown = "the recorder knows only the variables of glibc 2.27 to 2.41";
    if (number < FIRST_VERSION || number > LAST_VERSION) return 0;
    const ElfW(Ehdr) *file = (const void *)libc->l_addr;
    const ElfW(Phdr) *part = (const void *)(libc->l_addr + file->e_phoff);
    for (size_t i = 0; i < file->e_phnum && !(glibc_heap_main_arena != NULL && parameters != NULL);
         i++)
        if (part[i].p_type == PT_LOAD && part[i].p_flags & PF_W)
            look_through((const uintptr_t *)((libc->l_addr + part[i].p_vaddr + 7) & ~(uintptr_t)7),
                         part[i].p_memsz / sizeof(uintptr_t) - 1);
    if (glibc_heap_main_arena == NULL || parameters == NULL)
        glibc_heap_main_arena = parameters = NULL;
    unknown = glibc_heap_main_arena != NULL ? NULL : "the variables of this glibc were not found";
    return glibc_heap_main_arena != NULL && number >= FIRST_WITH_THRESHOLDS
               ? GLIBC_HEAP_STATISTICS_COUNT
               : 0;
}

const char *glibc_heap_unknown(void)
{
    return unknown;
}

/* The arenas stand in a ring: the first one, then the others, the latest first. So the oldest of
 * these come last. */
struct arenas {
    uint64_t count, main_bytes, other_bytes;
    uint64_t oldest_bytes[GLIBC_HEAP_ARENAS]; /* a ring, too, by `count` */
};

static void add_arenas(struct arenas *arenas)
{
    const uintptr_t *arena = glibc_heap_main_arena;
    do {
        uint64_t bytes = atomic_load_relaxed(&arena[SYSTEM_BYTES]);
        if (arena == glibc_heap_main_arena)
            arenas->main_bytes = bytes;
        else
            arenas->other_bytes += bytes;
        arenas->oldest_bytes[arenas->count++ % GLIBC_HEAP_ARENAS] = bytes;
        arena = (const uintptr_t *)atomic_load_acquire(&arena[NEXT]) + ARENA_TOP;
    } while (arena != glibc_heap_main_arena && arenas->count < ARENAS_MAX);
}

uint64_t glibc_heap_read(uint64_t values[GLIBC_HEAP_STATISTICS_COUNT])
{
    struct arenas arenas = {0};
    if (glibc_heap_main_arena == NULL) return 0;
    add_arenas(&arenas);
    const uint64_t mapped_bytes = atomic_load_relaxed(&parameters[MAPPED_BYTES]);
    *values++ = arenas.count;
    *values++ = arenas.main_bytes;
    *values++ = arenas.other_bytes;
    *values++ = atomic_load_relaxed(&parameters[MAPPED_CHUNKS]) >> 32;
    *values++ = mapped_bytes;
    *values++ = atomic_load_relaxed(&parameters[MMAP_THRESHOLD]);
    *values++ = atomic_load_relaxed(&parameters[TRIM_THRESHOLD]);
    for (uint64_t i = 1; i <= GLIBC_HEAP_ARENAS; i++)
        *values++ =
            i < arenas.count ? arenas.oldest_bytes[(arenas.count - i) % GLIBC_HEAP_ARENAS] : 0;
    return arenas.main_bytes + arenas.other_bytes + mapped_bytes;
}
