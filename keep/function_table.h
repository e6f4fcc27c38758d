/* function_table - what functions have and do, of a trace with call stacks, from
 *
 *   trace --malloctape export --to folded--> lines "outer;...;inner NUMBER" --> name, bytes, calls
 *
 * Names are those of the innermost functions that neither allocate themselves nor are of C++'s library.
 * Threads   one. */
#ifndef MALLOCTAPE_KEEP_FUNCTION_TABLE_H
#define MALLOCTAPE_KEEP_FUNCTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct function_row {
    char *name;
    uint64_t bytes; /* alive */
    uint64_t calls; /* from the base's end on */
};

struct function_table {
    struct function_row *rows; /* by name, once it is merged */
    size_t count, room;
};

/* Adds a measure of `malloctape export`: "calls", or one of bytes. False: it has failed. */
bool function_table_take(struct function_table *table, const char *trace, const char *measure);

/* Of each name one row. */
void function_table_merge(struct function_table *table);

/* Of a merged table; 0: it has no such row. */
uint64_t function_table_bytes(const struct function_table *table, const char *name);

void function_table_free(struct function_table *table);

#endif
