/* elf_section - sections of an ELF file that is not trusted. */
#ifndef MALLOCTAPE_SYMBOLS_ELF_SECTION_H
#define MALLOCTAPE_SYMBOLS_ELF_SECTION_H

#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>

/* The first section of that name that has contents; NULL: none. */
Elf_Scn *elf_section_find(Elf *elf, const char *name);

/* Its contents, as they are in the file; NULL: none, or it is empty. */
Elf_Data *elf_section_data(Elf *elf, const char *name);

/* The text at the beginning of a section, with an end; NULL: none. */
const char *elf_section_text(Elf *elf, const char *name);

enum elf_packing {
    ELF_PACKING_GOOD,    /* not packed, or in a way that can be read */
    ELF_PACKING_UNKNOWN, /* a section is packed in another way (zstd) */
    ELF_PACKING_LARGE    /* unpacked, sections would be far larger than what unpacks to code */
};

/* What unpacking all sections would mean; `bytes` is the size of the file. */
enum elf_packing elf_section_packing(Elf *elf, uint64_t bytes);

#endif
