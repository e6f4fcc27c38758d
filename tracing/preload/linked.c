#include "tracing/preload/linked.h"

#include "common/output_name.h"
#include "tracing/os/os.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

/* The parts of a library's dynamic section that are needed to look up a name. */
struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *gnu_hash; /* which all linkers have made since 2006 */
    const uint16_t *versions;
};

/* An address in the dynamic section, which some systems leave relative, as it is in the file. */
static const void *linked_address_in(const struct link_map *library, ElfW(Addr) address)
{
    return (const void *)(address < library->l_addr ? library->l_addr + address : address);
}

static struct symbols symbols_of(const struct link_map *library)
{
    struct symbols symbols = {0};
    for (const ElfW(Dyn) *entry = library->l_ld; entry != NULL && entry->d_tag != DT_NULL;
         entry++) {
        const void *at = linked_address_in(library, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB: symbols.table = at; break;
        case DT_STRTAB: symbols.names = at; break;
        case DT_GNU_HASH: symbols.gnu_hash = at; break;
        case DT_VERSYM: symbols.versions = at; break;
        default: break;
        }
    }
    return symbols;
}

/* An old version, which only programs get that were linked with it, is not looked for. */
static bool linked_is_function(const struct symbols *symbols, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &symbols->table[index];
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
        ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
        return false;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return false;
    if (symbols->versions != NULL && symbols->versions[index] & 0x8000u) return false;
    return strcmp(symbols->names + symbol->st_name, name) == 0;
}

/* The index of the symbol; 0: there is none. */
static uint32_t find_symbol(const struct symbols *symbols, const char *name)
{
    const uint32_t *table = symbols->gnu_hash;
    uint32_t buckets = table[0], first = table[1], bloom_words = table[2], hash = 5381;
    const uint32_t *bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *chain = bucket + buckets;
    for (const char *at = name; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    if (buckets == 0) return 0;
    uint32_t index = bucket[hash % buckets];
    if (index < first) return 0;
    for (;; index++) {
        uint32_t its_hash = chain[index - first];
        if ((its_hash | 1) == (hash | 1) && linked_is_function(symbols, index, name)) return index;
        if (its_hash & 1) return 0;
    }
}

void *linked_function_in(const struct link_map *library, const char *name)
{
    struct symbols symbols = symbols_of(library);
    if (symbols.table == NULL || symbols.names == NULL || symbols.gnu_hash == NULL) return NULL;
    uint32_t index = find_symbol(&symbols, name);
    if (index == 0) return NULL;
    uintptr_t address = library->l_addr + symbols.table[index].st_value;
    if (ELF64_ST_TYPE(symbols.table[index].st_info) == STT_GNU_IFUNC)
        address = ((uintptr_t(*)(void))address)();
    return (void *)address;
}

void *linked_function(const struct link_map *behind, const char *name,
                      const struct link_map **found)
{
    const struct link_map *library = behind != NULL ? behind->l_next : _r_debug.r_map;
    for (; library != NULL; library = library->l_next) {
        void *function = linked_function_in(library, name);
        if (function == NULL) continue;
        if (found != NULL) *found = library;
        return function;
    }
    return NULL;
}

struct search {
    const struct link_map *behind; /* NULL: found already, or all */
    const struct link_map *except; /* or NULL */
    const char *name;
    void *found;
};

/* Libraries come in the order of the list. */
static int search_in(struct dl_phdr_info *library, size_t bytes, void *of)
{
    struct search *search = of;
    struct link_map map = {.l_addr = library->dlpi_addr};
    (void)bytes;
    for (unsigned i = 0; i < library->dlpi_phnum; i++)
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
    if (search->behind != NULL) {
        if (map.l_ld == search->behind->l_ld) search->behind = NULL;
        return 0;
    }
    if (search->except != NULL && map.l_ld == search->except->l_ld) return 0;
    search->found = linked_function_in(&map, search->name);
    return search->found != NULL;
}

void *linked_function_now(const struct link_map *behind, const char *name)
{
    struct search search = {.behind = behind, .name = name};
    dl_iterate_phdr(search_in, &search);
    return search.found;
}

void *linked_function_now_of_others(const struct link_map *own, const char *name)
{
    struct search search = {.except = own, .name = name};
    dl_iterate_phdr(search_in, &search);
    return search.found;
}

void *linked_function_of_others(const struct link_map *own, const char *name,
                                const struct link_map **found)
{
    for (const struct link_map *library = _r_debug.r_map; library != NULL;
         library = library->l_next) {
        void *function = library != own ? linked_function_in(library, name) : NULL;
        if (function == NULL) continue;
        if (found != NULL) *found = library;
        return function;
    }
    return NULL;
}

/* ---- segments ---- */

/* Whether these are the program headers of this library. */
static bool are_segments_of(const struct link_map *library, const ElfW(Phdr) * segments,
                            size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            return library->l_addr + segments[i].p_vaddr == (uintptr_t)library->l_ld;
    return false;
}

/* False: not all of it can be read. */
static bool linked_copy(void *to, uintptr_t from, size_t bytes)
{
    return os_memory_copy(os_thread_id(), to, (const void *)from, bytes) == bytes;
}

/* If the library's file begins at this address. */
static const ElfW(Phdr) *
    segments_behind(const struct link_map *library, uintptr_t address, size_t *count)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) last;
    if (!linked_copy(&header, address, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof last ||
        header.e_phnum == 0)
        return NULL;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(address + header.e_phoff);
    if (!linked_copy(&last, (uintptr_t)&segments[header.e_phnum - 1], sizeof last)) return NULL;
    *count = header.e_phnum;
    return are_segments_of(library, segments, *count) ? segments : NULL;
}

/* dl_iterate_phdr() would tell, but holds a lock meanwhile that stays taken for ever in a child that
 * another thread forks. */
const ElfW(Phdr) * linked_segments(const struct link_map *library, size_t *count)
{
    enum { PAGES_MAX = 16384 };
    const size_t page = getauxval(AT_PAGESZ);
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    *count = getauxval(AT_PHNUM);
    if (segments != NULL && are_segments_of(library, segments, *count)) return segments;
    /* In nearly all libraries, addresses begin with 0. */
    segments = segments_behind(library, library->l_addr, count);
    uintptr_t at = (uintptr_t)library->l_ld & -page;
    for (unsigned i = 0; i < PAGES_MAX && segments == NULL && at > page; i++, at -= page)
        segments = segments_behind(library, at, count);
    return segments;
}

static const ElfW(Dyn) * linked_find_entry(const struct link_map *library, long tag)
{
    for (const ElfW(Dyn) *entry = library->l_ld; entry != NULL && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag) return entry;
    return NULL;
}

const void *linked_table(const struct link_map *library, long tag)
{
    const ElfW(Dyn) *entry = linked_find_entry(library, tag);
    return entry != NULL ? linked_address_in(library, entry->d_un.d_ptr) : NULL;
}

size_t linked_number(const struct link_map *library, long tag)
{
    const ElfW(Dyn) *entry = linked_find_entry(library, tag);
    return entry != NULL ? entry->d_un.d_val : 0;
}

/* The one with the highest start that is not above it, as in memory. */
const struct link_map *linked_library(const void *address)
{
    const struct link_map *best = NULL;
    for (const struct link_map *library = _r_debug.r_map; library != NULL;
         library = library->l_next)
        if (library->l_addr <= (uintptr_t)address &&
            (best == NULL || library->l_addr > best->l_addr))
            best = library;
    return best;
}

const char *linked_file(const struct link_map *library)
{
    return output_name_last(library->l_name);
}
