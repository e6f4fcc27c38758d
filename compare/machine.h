/* compare/machine - properties of the machine that results depend on.
 *
 *   processor, processors, system      the model, how many, kernel and architecture
 *   host, load                         its name; the mean load of the last minute
 *   governor                           all frequency governors that any processor has
 *   numa_nodes                         how many
 *   transparent_hugepages, ..._defrag  when the kernel gives large pages, and when it makes them
 *
 * What the system does not report is null (docs/compare.md). */
#ifndef MALLOCTAPE_COMPARE_MACHINE_H
#define MALLOCTAPE_COMPARE_MACHINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The machine now. Call before any replay, because replays are load, too. The caller owns it. */
json_t *machine_json(void);

/* "Xeon 8488C, 2 processors, Linux 6.1.0 x86_64, governor performance, transparent huge pages
 * madvise, load 0.12": as far as it is known; the load only if `load` is set. */
void machine_print(const json_t *machine, bool load, FILE *to);

#endif
