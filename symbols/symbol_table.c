#include "symbols/symbol_table.h"

#include <gelf.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>

#include "symbols/elf_section.h"

/* ---- a table ---- */

static bool symbols_table_is_function(const GElf_Sym *symbol)
{
    const unsigned type = GELF_ST_TYPE(symbol->st_info);
    return symbol->st_name != 0 && symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
           (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/* Adds the functions that have a length. The range's owner: the section and the symbol. */
static bool add_functions(struct symbol_table *table, unsigned number)
{
    const struct symbol_section *section = &table->sections[number];
    bool good = true;
    GElf_Sym symbol;
    for (int i = 1; good && gelf_getsym(section->symbols, i, &symbol) != NULL; i++)
        if (symbols_table_is_function(&symbol))
            good =
                code_ranges_add(&table->ranges, symbol.st_value, symbol.st_value + symbol.st_size,
                                (uint64_t)number << 32 | (uint64_t)i);
    return good;
}

/* Whether there is such a section. */
static bool add_section(struct symbol_table *table, Elf *elf, unsigned type, bool *good)
{
    GElf_Shdr header;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != type) continue;
        Elf_Data *symbols = elf_getdata(section, NULL);
        if (symbols == NULL || table->count == SYMBOL_TABLES_MAX) return false;
        table->sections[table->count] = (struct symbol_section){elf, symbols, header.sh_link};
        *good = *good && add_functions(table, table->count++);
        return true;
    }
    return false;
}

/* ---- .gnu_debugdata: an ELF file, packed by xz ---- */

static Elf *symbols_table_unpack(struct symbol_table *table, const Elf_Data *packed)
{
    uint64_t memory = UINT64_C(1) << 28;
    size_t in = 0, out = 0;
    void *bytes = mmap(NULL, SYMBOL_UNPACKED_MAX, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) return NULL;
    table->unpacked_bytes = bytes;
    if (lzma_stream_buffer_decode(&memory, 0, NULL, packed->d_buf, &in, packed->d_size, bytes, &out,
                                  SYMBOL_UNPACKED_MAX) != LZMA_OK)
        return NULL;
    return elf_memory(bytes, out);
}

static bool add_unpacked(struct symbol_table *table, Elf *elf)
{
    const Elf_Data *packed = elf_section_data(elf, ".gnu_debugdata");
    bool good = true;
    if (packed == NULL || table->unpacked_bytes != NULL) return true;
    table->unpacked = symbols_table_unpack(table, packed);
    if (table->unpacked != NULL) add_section(table, table->unpacked, SHT_SYMTAB, &good);
    return good;
}

/* ---- all of them ---- */

bool symbol_table_add(struct symbol_table *table, Elf *elf, bool *good)
{
    if (add_section(table, elf, SHT_SYMTAB, good)) return true;
    add_section(table, elf, SHT_DYNSYM, good);
    *good = *good && add_unpacked(table, elf);
    return false;
}

void symbol_table_sort(struct symbol_table *table)
{
    code_ranges_sort(&table->ranges);
}

void symbol_table_free(struct symbol_table *table)
{
    code_ranges_free(&table->ranges);
    if (table->unpacked != NULL) elf_end(table->unpacked);
    if (table->unpacked_bytes != NULL) munmap(table->unpacked_bytes, SYMBOL_UNPACKED_MAX);
    *table = (struct symbol_table){.count = 0};
}

const char *symbol_table_find(const struct symbol_table *table, uint64_t address)
{
    const struct code_range *range = code_ranges_find(&table->ranges, address);
    GElf_Sym symbol;
    if (range == NULL) return NULL;
    const struct symbol_section *section = &table->sections[range->of >> 32];
    if (gelf_getsym(section->symbols, (int)(uint32_t)range->of, &symbol) == NULL) return NULL;
    return elf_strptr(section->elf, section->texts, symbol.st_name);
}
