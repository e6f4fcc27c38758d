/* split_unit - the debug information of a unit that lies in a file of its own (.dwo), or in one with
 * that of others (.dwp), made by -gsplit-dwarf.
 *
 *   skeleton unit: name of the file, id --> its sections --+
 *   the program:   .debug_addr, .debug_ranges -------------+--> an ELF file in memory --> libdw
 *
 * libdw would open the file that a skeleton names, whatever it is, and knows no .dwp (0.188). So it
 * gets what belongs to the unit as one file that is not split; nothing is copied.
 *
 * Ranges need care: what they are relative to stands in the skeleton (split_unit_range()). One
 * thread. */
#ifndef MALLOCTAPE_SYMBOLS_SPLIT_UNIT_H
#define MALLOCTAPE_SYMBOLS_SPLIT_UNIT_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct split_unit {
    Dwarf *dwarf; /* NULL: none */
    Dwarf_Die die;

    /* From here on: split_unit.c only. */
    Elf *image;
    uint64_t base;        /* of addresses in ranges */
    uint64_t ranges_base; /* DWARF 4: where the skeleton's ranges begin */
    const uint8_t *info_end;
    const uint8_t *lists; /* .debug_rnglists */
    uint64_t lists_bytes;
};

/* The name of the file of a skeleton unit and the directory that it is relative to; NULL: not said. */
const char *split_unit_file(Dwarf_Die *skeleton, const char **directory);

/* `program` has the skeleton and must have been given to libdw before; `file` is a .dwo or .dwp. Both
 * must live as long as the unit. False: the unit is not in the file, or the file is damaged. */
bool split_unit_open(struct split_unit *split, Dwarf_Die *skeleton, Elf *program, Elf *file);
void split_unit_close(struct split_unit *split);

/* As dwarf_ranges(), for an entry of a split unit. */
ptrdiff_t split_unit_range(const struct split_unit *split, Dwarf_Die *die, ptrdiff_t at,
                           Dwarf_Addr *base, Dwarf_Addr *begin, Dwarf_Addr *end);

#endif
