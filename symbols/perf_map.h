/* perf_map - names of code that a program generated, from the file that it wrote for perf:
 *
 *   START SIZE NAME      hexadecimal addresses of the process; node --perf-basic-prof,
 *   ...                  python3 -X perf, agents of Java virtual machines
 *
 * The file is read as it is now. Addresses may be reused: the latest line that contains an address
 * is the valid one.
 *
 * Memory: 24 bytes a line, and the names, of at most 2^22 lines and 256 MiB. */
#ifndef MALLOCTAPE_SYMBOLS_PERF_MAP_H
#define MALLOCTAPE_SYMBOLS_PERF_MAP_H

#include "symbols/code_ranges.h"
#include "symbols/strings.h"

struct perf_map {
    struct code_ranges lines;
};

/* Adds the lines of a file. Ignores a file that is not regular, whose owner is neither this user
 * nor root, or that was last written before `since_s` (seconds since the epoch). False: there is no
 * file, or no memory. */
bool perf_map_read(struct perf_map *map, const char *path, double since_s, struct strings *strings);
void perf_map_free(struct perf_map *map);

/* The name, or 0: none. */
uint32_t perf_map_find(const struct perf_map *map, uint64_t address);

#endif
