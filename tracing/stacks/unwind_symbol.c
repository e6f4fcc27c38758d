#include "tracing/stacks/unwind_symbol.h"

#include <elf.h>
#include <link.h>
#include <string.h>

/* More entries are none: they are read from memory that may be anything. */
#define DYNAMIC_MAX  256u
#define CHAIN_MAX    4096u
#define NAME_MAX     64u
#define SEGMENTS_MAX 64u

_Static_assert(UNWIND_SYMBOL_DATA == STT_OBJECT && UNWIND_SYMBOL_FUNCTION == STT_FUNC &&
                   UNWIND_SYMBOL_OF_THREAD == STT_TLS,
               "as in ELF");

void unwind_symbols_widen(struct unwind_memory *memory, struct unwind_object *object)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (!unwind_read(memory, object, object->start, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > SEGMENTS_MAX)
        return;
    const uintptr_t segments = object->start + header.e_phoff;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (!unwind_read(memory, object, segments + i * sizeof segment, &segment, sizeof segment))
            return;
        const uintptr_t end = object->bias + segment.p_vaddr + segment.p_memsz;
        if (segment.p_type == PT_LOAD && end > object->end) object->end = end;
    }
}

/* glibc has made addresses of the offsets, but where it may not write. */
static uintptr_t unwind_symbol_place(const struct unwind_object *object, uintptr_t value)
{
    return value < object->start ? value + object->bias : value;
}

static bool read_dynamic(struct unwind_memory *memory, const struct unwind_object *object,
                         struct unwind_symbols *symbols)
{
    const struct link_map *map = object->id;
    uintptr_t at;
    Elf64_Dyn entry;
    if (!unwind_read_text(memory, (uintptr_t)&map->l_ld, &at, sizeof at)) return false;
    for (uint32_t i = 0; i < DYNAMIC_MAX; i++, at += sizeof entry) {
        if (!unwind_read(memory, object, at, &entry, sizeof entry)) return false;
        const uintptr_t place = unwind_symbol_place(object, entry.d_un.d_ptr);
        switch (entry.d_tag) {
        case DT_NULL: return symbols->hash && symbols->symbols && symbols->names;
        case DT_GNU_HASH: symbols->hash = place; break;
        case DT_SYMTAB: symbols->symbols = place; break;
        case DT_STRTAB: symbols->names = place; break;
        case DT_RELA: symbols->relocations = place; break;
        case DT_RELASZ: symbols->relocations_bytes = entry.d_un.d_val; break;
        case DT_RELACOUNT: symbols->relative = entry.d_un.d_val; break;
        default: break;
        }
    }
    return false;
}

bool unwind_symbols_open(struct unwind_memory *memory, const struct unwind_object *object,
                         struct unwind_symbols *symbols)
{
    uint32_t head[4];
    *symbols = (struct unwind_symbols){.hash = 0};
    if (!read_dynamic(memory, object, symbols) ||
        !unwind_read(memory, object, symbols->hash, head, sizeof head))
        return false;
    symbols->buckets = head[0];
    symbols->first = head[1];
    symbols->blooms = head[2];
    symbols->shift = head[3];
    return symbols->buckets && symbols->blooms && symbols->shift < 32;
}

static uint32_t unwind_symbol_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (uint8_t)*name;
    return hash;
}

/* Whether the symbol `i` is defined and has this name and kind; then its address and size. */
static bool unwind_symbol_is(struct unwind_memory *memory, const struct unwind_object *object,
                             const struct unwind_symbols *symbols, uint32_t i, const char *name,
                             enum unwind_symbol_kind kind, uintptr_t *address, uintptr_t *size)
{
    Elf64_Sym symbol;
    char there[NAME_MAX];
    const size_t bytes = strlen(name) + 1;
    if (bytes > sizeof there ||
        !unwind_read(memory, object, symbols->symbols + (uintptr_t)i * sizeof symbol, &symbol,
                     sizeof symbol) ||
        symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != kind ||
        !unwind_read(memory, object, symbols->names + symbol.st_name, there, bytes) ||
        memcmp(there, name, bytes) != 0)
        return false;
    *address = object->bias + symbol.st_value;
    if (size != NULL) *size = symbol.st_size;
    return *address >= object->start && *address < object->end;
}

uintptr_t unwind_symbol(struct unwind_memory *memory, const struct unwind_object *object,
                        const struct unwind_symbols *symbols, const char *name,
                        enum unwind_symbol_kind kind, uintptr_t *bytes)
{
    const uint32_t hash = unwind_symbol_hash(name);
    const uintptr_t blooms = symbols->hash + 16,
                    buckets = blooms + (uintptr_t)symbols->blooms * sizeof(uint64_t),
                    chains = buckets + (uintptr_t)symbols->buckets * sizeof(uint32_t);
    const uint64_t bits = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> symbols->shift) % 64;
    uint64_t bloom;
    uint32_t i, link;
    uintptr_t address;
    if (!unwind_read(memory, object, blooms + hash / 64 % symbols->blooms * sizeof bloom, &bloom,
                     sizeof bloom) ||
        (bloom & bits) != bits ||
        !unwind_read(memory, object, buckets + hash % symbols->buckets * sizeof i, &i, sizeof i) ||
        i < symbols->first)
        return 0;
    for (uint32_t count = 0; count < CHAIN_MAX; count++, i++) {
        if (!unwind_read(memory, object, chains + (uintptr_t)(i - symbols->first) * sizeof link,
                         &link, sizeof link))
            return 0;
        if ((link | 1) == (hash | 1) &&
            unwind_symbol_is(memory, object, symbols, i, name, kind, &address, bytes))
            return address;
        if (link & 1) return 0;
    }
    return 0;
}
