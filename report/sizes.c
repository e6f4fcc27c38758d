#include "report/sizes.h"

#include "common/pages.h"

enum { LARGE_AT_FIRST = 1024 };

bool sizes_open(struct sizes *sizes)
{
    *sizes = (struct sizes){.count = SIZES_LARGE_FIRST,
                            .capacity = SIZES_LARGE_FIRST + LARGE_AT_FIRST,
                            .table_capacity = 4 * LARGE_AT_FIRST};
    sizes->entries = pages_map(sizes->capacity * sizeof *sizes->entries);
    sizes->table = pages_map(sizes->table_capacity * sizeof *sizes->table);
    if (sizes->entries == NULL || sizes->table == NULL) return false;
    for (uint32_t i = 0; i < SIZES_SMALL; i++)
        sizes->entries[i].size = i;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        sizes->entries[SIZES_SMALL + i].size = histogram_bucket_low(i);
    return true;
}

void sizes_close(struct sizes *sizes)
{
    pages_unmap(sizes->entries, sizes->capacity * sizeof *sizes->entries);
    pages_unmap(sizes->table, sizes->table_capacity * sizeof *sizes->table);
    *sizes = (struct sizes){.entries = NULL};
}

/* The element of the table that has the entry of the size, or the free one where it would go. */
static uint32_t *sizes_table_find(const struct sizes *sizes, uint64_t size)
{
    uint64_t at = size * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (;; at++) {
        uint32_t *number = &sizes->table[at & (sizes->table_capacity - 1)];
        if (*number == 0 || sizes->entries[*number].size == size) return number;
    }
}

/* Doubles the capacity. False: no memory. */
static bool sizes_grow(struct sizes *sizes)
{
    const uint32_t capacity = SIZES_LARGE_FIRST + 2 * (sizes->capacity - SIZES_LARGE_FIRST);
    uint32_t *table = pages_map(2 * sizes->table_capacity * sizeof *table);
    struct size_entry *entries = table == NULL
                                     ? NULL
                                     : pages_grow(sizes->entries, sizes->capacity * sizeof *entries,
                                                  capacity * sizeof *entries);
    if (entries == NULL) {
        pages_unmap(table, 2 * sizes->table_capacity * sizeof *table);
        return false;
    }
    pages_unmap(sizes->table, sizes->table_capacity * sizeof *table);
    sizes->entries = entries;
    sizes->capacity = capacity;
    sizes->table = table;
    sizes->table_capacity *= 2;
    for (uint32_t i = SIZES_LARGE_FIRST; i < sizes->count; i++)
        *sizes_table_find(sizes, entries[i].size) = i;
    return true;
}

uint32_t sizes_find_large(struct sizes *sizes, uint64_t size)
{
    uint32_t *number = sizes_table_find(sizes, size);
    if (*number != 0) return *number;
    if (sizes->count == sizes->capacity) {
        if (sizes->count == SIZES_MAX || !sizes_grow(sizes))
            return SIZES_SMALL + histogram_bucket(size);
        number = sizes_table_find(sizes, size);
    }
    *number = sizes->count++;
    sizes->entries[*number].size = size;
    return *number;
}
