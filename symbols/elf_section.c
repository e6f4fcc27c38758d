#include "symbols/elf_section.h"

#include <string.h>

/* How much larger than the file its sections may be, unpacked. zlib reaches 1032; debug information
 * 3 to 6. */
#define UNPACKED_LEAST (UINT64_C(16) << 20)
enum { UNPACKED_RATIO = 16, GNU_HEADER_BYTES = 12 };

Elf_Scn *elf_section_find(Elf *elf, const char *name)
{
    size_t texts;
    GElf_Shdr header;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &texts) != 0) return NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        const char *its = gelf_getshdr(section, &header) != NULL && header.sh_type != SHT_NOBITS
                              ? elf_strptr(elf, texts, header.sh_name)
                              : NULL;
        if (its != NULL && strcmp(its, name) == 0) return section;
    }
    return NULL;
}

Elf_Data *elf_section_data(Elf *elf, const char *name)
{
    Elf_Scn *section = elf_section_find(elf, name);
    Elf_Data *data = section != NULL ? elf_rawdata(section, NULL) : NULL;
    return data != NULL && data->d_buf != NULL && data->d_size > 0 ? data : NULL;
}

const char *elf_section_text(Elf *elf, const char *name)
{
    const Elf_Data *data = elf_section_data(elf, name);
    return data != NULL && memchr(data->d_buf, '\0', data->d_size) != NULL ? data->d_buf : NULL;
}

/* The size of a section when it is unpacked; 0: it is not packed. */
static uint64_t unpacked_bytes(Elf_Scn *section, const GElf_Shdr *header, const char *name,
                               bool *known)
{
    GElf_Chdr packed;
    if ((header->sh_flags & SHF_COMPRESSED) != 0) {
        if (gelf_getchdr(section, &packed) == NULL) return 0;
        *known = *known && packed.ch_type == ELFCOMPRESS_ZLIB;
        return packed.ch_size;
    }
    if (strncmp(name, ".zdebug", 7) != 0) return 0;
    /* "ZLIB", and the size, big-endian. */
    const Elf_Data *data = elf_rawdata(section, NULL);
    uint64_t bytes;
    if (data == NULL || data->d_buf == NULL || data->d_size < GNU_HEADER_BYTES) return 0;
    memcpy(&bytes, (const char *)data->d_buf + 4, sizeof bytes);
    return __builtin_bswap64(bytes);
}

enum elf_packing elf_section_packing(Elf *elf, uint64_t bytes)
{
    const uint64_t most = UNPACKED_LEAST + UNPACKED_RATIO * bytes;
    uint64_t sum = 0;
    size_t texts;
    bool known = true;
    GElf_Shdr header;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &texts) != 0) return ELF_PACKING_GOOD;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        if (gelf_getshdr(section, &header) == NULL) continue;
        const char *name = elf_strptr(elf, texts, header.sh_name);
        const uint64_t more = unpacked_bytes(section, &header, name != NULL ? name : "", &known);
        if (more > most - sum) return ELF_PACKING_LARGE;
        sum += more;
    }
    return known ? ELF_PACKING_GOOD : ELF_PACKING_UNKNOWN;
}
