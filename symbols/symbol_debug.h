/* symbol_debug - functions, with those that are inlined, and lines: from debug information (DWARF).
 *
 *     symbol_debug_open(&debug, &file, shared);      the file has .debug_info
 *     count = symbol_debug_find(&debug, strings, address, frames);
 *
 * The files are not trusted, and libdw neither bounds its work nor what it opens. So entries are
 * visited forwards, each once in a walk; a walk takes from a budget that the size of the file gives,
 * and without a budget nothing more is found (`lacks`). libdw opens no file itself: it is given what
 * debug information may be shared in, or an empty file, and it is never asked for what a skeleton
 * unit stands for: split_unit.h gives it that.
 *
 * Memory: what libdw takes, and 24 bytes for each function of the units that were needed. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOL_DEBUG_H
#define MALLOCTAPE_SYMBOLS_SYMBOL_DEBUG_H

#include <elfutils/libdw.h>

#include "symbols/code_ranges.h"
#include "symbols/strings.h"
#include "symbols/symbol_file.h"
#include "symbols/symbol_frame.h"

struct symbol_debug_file {
    Elf *elf;
    const char *path;
    uint64_t bytes;
    const struct symbol_places *places; /* where files of split units are looked for */
};

struct symbol_debug {
    Dwarf *dwarf;   /* NULL: there is none */
    unsigned lacks; /* SYMBOL_LACKS_... */

    /* From here on: symbol_debug.c only. */
    Dwarf *shared;
    Elf *empty;
    struct symbol_unit *units;
    size_t count, room;
    struct code_ranges ranges; /* of units, by index */
    uint64_t budget;
    struct symbol_debug_file file; /* its path is a copy */
    Elf *package;                  /* .dwp */
    bool is_package_tried;
};

/* `shared`: the file with what it shares with others, or NULL. The ELF files must live as long.
 * False: no memory. */
bool symbol_debug_open(struct symbol_debug *debug, const struct symbol_debug_file *file,
                       Elf *shared);
void symbol_debug_close(struct symbol_debug *debug);

/* Fills `frames` (SYMBOL_FRAMES_MAX of them), with function 0 where a name is not known, and returns
 * how many there are; 0: the address is in no unit. */
unsigned symbol_debug_find(struct symbol_debug *debug, struct strings *strings, uint64_t address,
                           struct symbol_frame *frames);

#endif
