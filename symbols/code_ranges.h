/* code_ranges - maps addresses of code to what they belong to.
 *
 *     code_ranges_add(&ranges, begin, end, of);      any number, then
 *     code_ranges_sort(&ranges);
 *     range = code_ranges_find(&ranges, address);
 *
 * If ranges overlap, an address belongs to the one with the highest beginning; if these are equal,
 * to the one with the greatest `of`.
 *
 * Memory: 24 bytes a range. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_RANGES_H
#define MALLOCTAPE_SYMBOLS_CODE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
    uint64_t begin, end;
    uint64_t of; /* the caller's */
};

/* All zero: none. */
struct code_ranges {
    struct code_range *at;
    size_t count, room;
};

/* Adds a range; one that ends before it begins is ignored. False: no memory. */
bool code_ranges_add(struct code_ranges *ranges, uint64_t begin, uint64_t end, uint64_t of);
void code_ranges_sort(struct code_ranges *ranges);
void code_ranges_free(struct code_ranges *ranges);

/* NULL: none. */
const struct code_range *code_ranges_find(const struct code_ranges *ranges, uint64_t address);

#endif
