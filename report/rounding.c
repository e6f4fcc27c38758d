#include "report/rounding.h"

#include <stdlib.h>

static uint64_t round_up(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

/* 1 << length is the greatest power of two that is not above the number, which is not 0. */
static unsigned floor_log2(uint64_t number)
{
    return 63u - (unsigned)__builtin_clzll(number);
}

/* ---- tcmalloc of gperftools ---- */

#define TCMALLOC_PAGE        8192u
#define TCMALLOC_SMALL_MAX   (256u * 1024)
#define TCMALLOC_CLASSES_MAX 128u

/* How many objects move between caches at a time; a span should have at least a quarter of that. */
static uint64_t tcmalloc_moved(uint64_t size)
{
    uint64_t moved = 64 * 1024 / size;
    return moved < 2 ? 2 : moved > 32 ? 32 : moved;
}

/* The sizes of classes near `size` are multiples of this. */
static uint64_t tcmalloc_alignment(uint64_t size)
{
    if (size < 16) return 8;
    if (size < 128) return 16;
    uint64_t alignment = (UINT64_C(1) << floor_log2(size)) / 8;
    return alignment < TCMALLOC_PAGE ? alignment : TCMALLOC_PAGE;
}

/* The length of a class's spans: at most an eighth is wasted at the end. */
static uint64_t tcmalloc_span(uint64_t size)
{
    uint64_t bytes = 0;
    do {
        bytes += TCMALLOC_PAGE;
        while (bytes % size > bytes / 8)
            bytes += TCMALLOC_PAGE;
    } while (bytes / size < tcmalloc_moved(size) / 4);
    return bytes;
}

/* A class replaces the previous, smaller one if its spans would be as long and have as many
 * objects. Returns the number of classes. */
static unsigned tcmalloc_make_classes(uint32_t *classes)
{
    unsigned count = 0;
    uint64_t span_before = 0;
    for (uint64_t size = 8; size <= TCMALLOC_SMALL_MAX; size += tcmalloc_alignment(size)) {
        const uint64_t span = tcmalloc_span(size);
        const bool replaces =
            count > 0 && span == span_before && span / size == span / classes[count - 1];
        if (!replaces) count++;
        classes[count - 1] = (uint32_t)size;
        span_before = span;
    }
    return count;
}

static uint64_t tcmalloc_size(uint64_t size)
{
    static uint32_t classes[TCMALLOC_CLASSES_MAX];
    static unsigned count;
    if (size > TCMALLOC_SMALL_MAX) return round_up(size, TCMALLOC_PAGE);
    if (count == 0) count = tcmalloc_make_classes(classes);
    unsigned low = 0, high = count - 1;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (classes[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return classes[low];
}

/* ---- jemalloc ---- */

/* Multiples of 16; above 128, four classes for each doubling. */
static uint64_t jemalloc_size(uint64_t size)
{
    if (size <= 8) return 8;
    if (size <= 128) return round_up(size, 16);
    return round_up(size, UINT64_C(1) << (floor_log2(size - 1) - 2));
}

/* ---- mimalloc ---- */

#define MIMALLOC_SMALL_MAX (128u * 1024)
#define MIMALLOC_PAGE      4096u

/* 8 bytes, then multiples of 16 up to 64, then four classes for each doubling. Above
 * MIMALLOC_SMALL_MAX, it reserves more than this returns, but does not touch it. */
static uint64_t mimalloc_size(uint64_t size)
{
    if (size > MIMALLOC_SMALL_MAX) return round_up(size, MIMALLOC_PAGE);
    if (size <= 8) return 8;
    if (size <= 64) return round_up(size, 16);
    return round_up(size, UINT64_C(1) << (floor_log2(size - 1) - 2));
}

/* ---- glibc ---- */

#define GLIBC_HEADER    8u
#define GLIBC_CHUNK_MIN 32u

/* The chunk of an object in the heap. (One with its own mapping has 8 bytes more and ends at a page
 * boundary.) */
static uint64_t glibc_size(uint64_t size)
{
    const uint64_t chunk = round_up(size + GLIBC_HEADER, 16);
    return chunk < GLIBC_CHUNK_MIN ? GLIBC_CHUNK_MIN : chunk;
}

const struct rounding roundings[ROUNDINGS] = {
    {"tcmalloc 2.16", tcmalloc_size},
    {"jemalloc", jemalloc_size},
    {"mimalloc", mimalloc_size},
    {"glibc", glibc_size},
};

/* ---- by size class ---- */

/* What the allocator takes for objects of the mean size; at least `bytes`, because a class's mean
 * may be rounded to less than its objects have. */
static uint64_t taken(uint64_t objects, uint64_t bytes, uint64_t (*rule)(uint64_t size))
{
    const uint64_t all = objects > 0 ? objects * rule(bytes / objects) : 0;
    return all > bytes ? all : bytes;
}

static void class_add(struct rounded_class *to, const struct rounded_class *one)
{
    to->made += one->made;
    to->bytes += one->bytes;
    to->taken += one->taken;
    to->peak_objects += one->peak_objects;
    to->peak_bytes += one->peak_bytes;
    to->peak_taken += one->peak_taken;
}

static int rounding_by_size(const void *one, const void *other)
{
    const struct rounded_class *a = one, *b = other;
    return (a->size > b->size) - (a->size < b->size);
}

static bool count_under(struct rounded *rounded, const struct sizes *sizes,
                        uint64_t (*rule)(uint64_t size))
{
    struct rounded_class *classes = calloc((size_t)sizes->count + 1, sizeof *classes);
    size_t count = 0;
    *rounded = (struct rounded){.classes = classes};
    for (uint32_t i = 0; classes != NULL && i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        const struct live *live = &one->live;
        if (one->count == 0) continue;
        classes[count++] =
            (struct rounded_class){rule(one->bytes / one->count),
                                   one->count,
                                   one->bytes,
                                   taken(one->count, one->bytes, rule),
                                   live->peak_objects,
                                   live->peak_bytes,
                                   taken(live->peak_objects, live->peak_bytes, rule)};
    }
    if (count > 0) qsort(classes, count, sizeof *classes, rounding_by_size);
    for (size_t i = 0; i < count; i++) {
        class_add(&rounded->all, &classes[i]);
        if (rounded->count > 0 && classes[rounded->count - 1].size == classes[i].size)
            class_add(&classes[rounded->count - 1], &classes[i]);
        else
            classes[rounded->count++] = classes[i];
    }
    return classes != NULL;
}

bool rounding_count(struct rounded rounded[ROUNDINGS], const struct sizes *sizes)
{
    bool good = true;
    for (unsigned i = 0; i < ROUNDINGS; i++)
        good = count_under(&rounded[i], sizes, roundings[i].size) && good;
    return good;
}

void rounding_free(struct rounded rounded[ROUNDINGS])
{
    for (unsigned i = 0; i < ROUNDINGS; i++)
        free(rounded[i].classes);
}
