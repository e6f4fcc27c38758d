#include "report/rounding.h"

#include <stdlib.h>

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
        if (!size_entry_is_used(one)) continue;
        /* In a class of sizes those that were made say more than its lowest. */
        classes[count++] =
            (struct rounded_class){rule(one->count > 0 ? one->bytes / one->count : one->size),
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
        good = count_under(&rounded[i], sizes, allocator_facts[i]->size) && good;
    return good;
}

void rounding_free(struct rounded rounded[ROUNDINGS])
{
    for (unsigned i = 0; i < ROUNDINGS; i++)
        free(rounded[i].classes);
}
