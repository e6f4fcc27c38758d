#include "symbols/split_unit.h"

#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#include "symbols/elf_section.h"

/* The sections of the image, in this order. */
enum section {
    NAMES,
    INFO,
    ABBREV,
    STR,
    STR_OFFSETS,
    LINE,
    LISTS,
    LINE_STR,
    ADDRESSES,
    RANGES,
    SECTIONS
};

/* `column`: of a .dwp's index, by version of the index 2 and 5; 0: it is not divided. */
static const struct {
    const char *name, *of_file;
    unsigned column[2];
} sections[SECTIONS] = {
    [INFO] = {".debug_info", ".debug_info.dwo", {1, 1}},
    [ABBREV] = {".debug_abbrev", ".debug_abbrev.dwo", {3, 3}},
    [STR] = {".debug_str", ".debug_str.dwo", {0, 0}},
    [STR_OFFSETS] = {".debug_str_offsets", ".debug_str_offsets.dwo", {6, 6}},
    [LINE] = {".debug_line", ".debug_line.dwo", {4, 4}},
    [LISTS] = {".debug_rnglists", ".debug_rnglists.dwo", {0, 8}},
    [LINE_STR] = {".debug_line_str", ".debug_line_str.dwo", {0, 0}},
    [ADDRESSES] = {".debug_addr", NULL, {0, 0}},
    [RANGES] = {".debug_ranges", NULL, {0, 0}},
};

struct part {
    const uint8_t *at;
    uint64_t bytes;
};

/* ---- sections ---- */

static struct part section_part(Elf *elf, const char *name)
{
    Elf_Scn *section = elf_section_find(elf, name);
    GElf_Shdr header;
    if (section == NULL || gelf_getshdr(section, &header) == NULL) return (struct part){NULL, 0};
    if ((header.sh_flags & SHF_COMPRESSED) != 0 && elf_compress(section, 0, 0) < 0)
        return (struct part){NULL, 0};
    const Elf_Data *data = elf_getdata(section, NULL);
    if (data == NULL || data->d_buf == NULL) return (struct part){NULL, 0};
    return (struct part){data->d_buf, data->d_size};
}

static struct part part_of(struct part whole, uint64_t begin, uint64_t bytes)
{
    if (whole.bytes == 0 || begin > whole.bytes) return (struct part){NULL, 0};
    const uint64_t there = whole.bytes - begin;
    return (struct part){whole.at + begin, bytes < there ? bytes : there};
}

static uint32_t split_unit_number_at(struct part part, uint64_t offset)
{
    uint32_t number = 0;
    if (offset <= part.bytes && part.bytes - offset >= sizeof number)
        memcpy(&number, part.at + offset, sizeof number);
    return number;
}

/* ---- the index of a .dwp ---- */

struct index {
    struct part all;
    uint32_t version, columns, units, slots;
    uint64_t columns_at;
    uint32_t row; /* from 0 */
};

/* Finds the row of the unit with this id. */
static bool index_find(struct index *index, uint64_t id)
{
    enum { HEADER_BYTES = 16 };
    const struct part all = index->all;
    index->version = split_unit_number_at(all, 0) & 0xffff;
    index->columns = split_unit_number_at(all, 4);
    index->units = split_unit_number_at(all, 8);
    index->slots = split_unit_number_at(all, 12);
    index->columns_at = HEADER_BYTES + UINT64_C(12) * index->slots;
    if ((index->version != 2 && index->version != 5) || index->columns_at > all.bytes) return false;
    for (uint64_t i = 0; i < index->slots; i++) {
        const uint32_t row =
            split_unit_number_at(all, HEADER_BYTES + UINT64_C(8) * index->slots + 4 * i);
        if (row == 0 || row > index->units ||
            memcmp(all.at + HEADER_BYTES + 8 * i, &id, sizeof id) != 0)
            continue;
        index->row = row - 1;
        return true;
    }
    return false;
}

/* The unit's part of a section. */
static struct part index_part(const struct index *index, struct part whole, enum section section)
{
    const unsigned column = sections[section].column[index->version == 5];
    const uint64_t row_bytes = UINT64_C(4) * index->columns;
    if (column == 0) return whole;
    for (uint64_t i = 0; i < index->columns && index->columns_at + 4 * i < index->all.bytes; i++) {
        if (split_unit_number_at(index->all, index->columns_at + 4 * i) != column) continue;
        const uint64_t offset = index->columns_at + row_bytes * (1 + index->row) + 4 * i;
        return part_of(whole, split_unit_number_at(index->all, offset),
                       split_unit_number_at(index->all, offset + row_bytes * index->units));
    }
    return (struct part){NULL, 0};
}

/* ---- the image ---- */

static bool image_add(Elf *image, size_t name, unsigned type, const void *at, uint64_t bytes)
{
    GElf_Shdr header;
    Elf_Scn *section = elf_newscn(image);
    Elf_Data *data = section != NULL ? elf_newdata(section) : NULL;
    if (data == NULL || gelf_getshdr(section, &header) == NULL) return false;
    data->d_buf = (void *)(uintptr_t)at; /* which is only read */
    data->d_size = bytes;
    data->d_align = 1;
    header.sh_name = (GElf_Word)name;
    header.sh_type = type;
    header.sh_size = bytes;
    return gelf_update_shdr(section, &header) != 0;
}

static Elf *image_make(const struct part parts[SECTIONS])
{
    static char names[256];
    size_t starts[SECTIONS] = {0}, used = 1;
    GElf_Ehdr header;
    for (enum section i = INFO; i < SECTIONS; i++) {
        starts[i] = used;
        strcpy(names + used, sections[i].name);
        used += strlen(sections[i].name) + 1;
    }
    const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* nothing is written */
    Elf *image = fd >= 0 ? elf_begin(fd, ELF_C_WRITE, NULL) : NULL;
    bool good = image != NULL && gelf_newehdr(image, ELFCLASS64) != NULL &&
                gelf_getehdr(image, &header) != NULL;
    if (good) {
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_type = ET_REL;
        header.e_version = EV_CURRENT;
        header.e_shstrndx = 1;
        good = gelf_update_ehdr(image, &header) != 0 &&
               image_add(image, 0, SHT_STRTAB, names, sizeof names) &&
               elf_cntl(image, ELF_C_FDDONE) == 0;
    }
    if (fd >= 0) close(fd);
    for (enum section i = INFO; i < SECTIONS && good; i++)
        if (parts[i].bytes > 0)
            good = image_add(image, starts[i], SHT_PROGBITS, parts[i].at, parts[i].bytes);
    if (good || image == NULL) return image;
    elf_end(image);
    return NULL;
}

/* ---- a unit ---- */

static uint64_t split_unit_number_of(Dwarf_Die *die, unsigned attribute, unsigned older)
{
    Dwarf_Attribute found;
    Dwarf_Word number;
    if (dwarf_attr(die, attribute, &found) == NULL && dwarf_attr(die, older, &found) == NULL)
        return 0;
    return dwarf_formudata(&found, &number) == 0 ? number : 0;
}

const char *split_unit_file(Dwarf_Die *skeleton, const char **directory)
{
    Dwarf_Attribute name;
    *directory = dwarf_formstring(dwarf_attr(skeleton, DW_AT_comp_dir, &name));
    if (dwarf_attr(skeleton, DW_AT_dwo_name, &name) == NULL &&
        dwarf_attr(skeleton, DW_AT_GNU_dwo_name, &name) == NULL)
        return NULL;
    return dwarf_formstring(&name);
}

/* Takes the sections that a unit needs; false: it is not in the file. */
static bool take_parts(Dwarf_Die *skeleton, Elf *program, Elf *file, uint64_t id,
                       struct part parts[SECTIONS])
{
    struct index index = {.all = section_part(file, ".debug_cu_index")};
    const bool is_package = index.all.bytes > 0;
    if (is_package && !index_find(&index, id)) return false;
    for (enum section i = INFO; i < SECTIONS; i++) {
        parts[i] =
            section_part(sections[i].of_file != NULL ? file : program,
                         sections[i].of_file != NULL ? sections[i].of_file : sections[i].name);
        if (is_package) parts[i] = index_part(&index, parts[i], i);
    }
    parts[ADDRESSES] =
        part_of(parts[ADDRESSES],
                split_unit_number_of(skeleton, DW_AT_addr_base, DW_AT_GNU_addr_base), UINT64_MAX);
    return true;
}

static bool find_unit(struct split_unit *split, uint64_t id)
{
    Dwarf_CU *unit = NULL;
    uint64_t its;
    while (dwarf_get_units(split->dwarf, unit, &unit, NULL, NULL, &split->die, NULL) == 0)
        if (dwarf_cu_info(unit, NULL, NULL, NULL, NULL, &its, NULL, NULL) == 0 && its == id)
            return true;
    return false;
}

bool split_unit_open(struct split_unit *split, Dwarf_Die *skeleton, Elf *program, Elf *file)
{
    struct part parts[SECTIONS] = {{NULL, 0}};
    uint64_t id;
    Dwarf_Half version;
    *split = (struct split_unit){.dwarf = NULL};
    if (dwarf_cu_info(skeleton->cu, &version, NULL, NULL, NULL, &id, NULL, NULL) != 0 ||
        !take_parts(skeleton, program, file, id, parts))
        return false;
    split->image = image_make(parts);
    if (split->image != NULL) split->dwarf = dwarf_begin_elf(split->image, DWARF_C_READ, NULL);
    if (split->dwarf == NULL || !find_unit(split, id)) {
        split_unit_close(split);
        return false;
    }
    split->info_end = parts[INFO].at + parts[INFO].bytes;
    split->lists = parts[LISTS].at;
    split->lists_bytes = parts[LISTS].bytes;
    if (version < 5) split->ranges_base = split_unit_number_of(skeleton, DW_AT_GNU_ranges_base, 0);
    dwarf_lowpc(skeleton, &split->base);
    return true;
}

void split_unit_close(struct split_unit *split)
{
    if (split->dwarf != NULL) dwarf_end(split->dwarf);
    if (split->image != NULL) elf_end(split->image);
    *split = (struct split_unit){.dwarf = NULL};
}

/* ---- ranges ---- */

/* Where the list with this number begins in .debug_rnglists; 0: nowhere. Its header is 12 bytes long
 * (32-bit DWARF). */
static uint64_t list_at(const struct split_unit *split, const uint8_t *number)
{
    enum { HEADER_BYTES = 12 };
    const struct part lists = {split->lists, split->lists_bytes};
    uint64_t index = 0;
    for (unsigned shift = 0; shift < 28 && number < split->info_end; shift += 7, number++) {
        index |= (uint64_t)(*number & 0x7f) << shift;
        if ((*number & 0x80) == 0) break;
    }
    const uint32_t offset = split_unit_number_at(lists, HEADER_BYTES + 4 * index);
    return offset != 0 && offset < lists.bytes ? HEADER_BYTES + (uint64_t)offset : 0;
}

ptrdiff_t split_unit_range(const struct split_unit *split, Dwarf_Die *die, ptrdiff_t at,
                           Dwarf_Addr *base, Dwarf_Addr *begin, Dwarf_Addr *end)
{
    Dwarf_Attribute ranges;
    Dwarf_Word offset = 0;
    if (at != 0 || dwarf_hasattr(die, DW_AT_low_pc) ||
        dwarf_attr(die, DW_AT_ranges, &ranges) == NULL)
        return dwarf_ranges(die, at, base, begin, end);
    if (ranges.form == DW_FORM_rnglistx)
        offset = list_at(split, ranges.valp);
    else if (dwarf_formudata(&ranges, &offset) == 0)
        offset += split->ranges_base;
    *base = split->base;
    if (offset > 1 && offset < PTRDIFF_MAX)
        return dwarf_ranges(die, (ptrdiff_t)offset, base, begin, end);
    /* A list at 0 is taken for that of the attribute, which is the same, but without our base. */
    const ptrdiff_t next = dwarf_ranges(die, 0, base, begin, end);
    if (next > 0 && ranges.form != DW_FORM_rnglistx && *base == 0) {
        *base = split->base;
        *begin += split->base;
        *end += split->base;
    }
    return next;
}
