#include "symbols/code_ranges.h"

#include <stdlib.h>

#include "common/array.h"

bool code_ranges_add(struct code_ranges *ranges, uint64_t begin, uint64_t end, uint64_t of)
{
    if (begin >= end) return true;
    if (!array_reserve(&ranges->at, &ranges->room, ranges->count + 1, sizeof *ranges->at))
        return false;
    ranges->at[ranges->count++] = (struct code_range){begin, end, of};
    return true;
}

static int by_begin(const void *one, const void *other)
{
    const struct code_range *a = one, *b = other;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->of < b->of ? -1 : a->of > b->of;
}

void code_ranges_sort(struct code_ranges *ranges)
{
    if (ranges->count > 1) qsort(ranges->at, ranges->count, sizeof *ranges->at, by_begin);
}

void code_ranges_free(struct code_ranges *ranges)
{
    free(ranges->at);
    *ranges = (struct code_ranges){.at = NULL};
}

const struct code_range *code_ranges_find(const struct code_ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranges->at[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < ranges->at[low - 1].end ? &ranges->at[low - 1] : NULL;
}
