/* compare/machine - what the machine is, as far as results depend on it.
 *
 *   processor, processors, system      the model, how many, kernel and architecture
 *   host, load                         its name; the mean load of the last minute
 *   governor                           of the processors' frequency, each that any of them has
 *   numa_nodes                         how many
 *   transparent_hugepages, ..._defrag  when the kernel gives large pages, and when it makes them
 *
 * What the system does not tell is null (docs/compare.md). */
#ifndef MALLOCTAPE_COMPARE_MACHINE_H
#define MALLOCTAPE_COMPARE_MACHINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Now: to ask before replays, which are load themselves. The caller owns it. */
json_t *machine_json(void);

/* "Xeon 8488C, 2 processors, Linux 6.1.0 x86_64, governor performance, transparent huge pages
 * madvise, load 0.12": what is known of it, the load if that is wanted. */
void machine_print(const json_t *machine, bool load, FILE *to);

#endif
