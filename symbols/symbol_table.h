/* symbol_table - names of functions from the symbol tables of a program or library, and where a
 * function begins.
 *
 *     symbol_table_add(&table, elf);           each ELF file that may have a table
 *     symbol_table_sort(&table);
 *     name = symbol_table_find(&table, address);
 *
 * A file's .symtab counts, else its .dynsym and what is packed in .gnu_debugdata (Fedora's).
 *
 * Memory: 24 bytes a function, and .gnu_debugdata unpacked (at most SYMBOL_UNPACKED_MAX). The ELF
 * files must live as long. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOL_TABLE_H
#define MALLOCTAPE_SYMBOLS_SYMBOL_TABLE_H

#include <libelf.h>

#include "symbols/code_ranges.h"

enum { SYMBOL_TABLES_MAX = 4, SYMBOL_UNPACKED_MAX = 1 << 26 };

struct symbol_table {
    struct code_ranges ranges;

    /* From here on: symbol_table.c only. */
    struct symbol_section {
        Elf *elf;
        Elf_Data *symbols;
        size_t texts; /* the section with names */
    } sections[SYMBOL_TABLES_MAX];
    unsigned count;
    Elf *unpacked;
    void *unpacked_bytes;
};

/* All zero: an empty table. Whether the file has a .symtab; `good` becomes false if there is no
 * memory. */
bool symbol_table_add(struct symbol_table *table, Elf *elf, bool *good);
void symbol_table_sort(struct symbol_table *table);
void symbol_table_free(struct symbol_table *table);

/* NULL: none. */
const char *symbol_table_find(const struct symbol_table *table, uint64_t address);

#endif
