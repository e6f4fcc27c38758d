/* symbols - the functions and lines that an address in a program or library belongs to.
 *
 *   module (path, build id) --symbol_file--> its file --libdw, .symtab, .eh_frame--> frames
 *
 *     symbols_open(&symbols, directories, count);
 *     module = symbols_module(&symbols, path, build_id, build_id_bytes);
 *     count = symbols_find(&symbols, module, address, frames);
 *
 * Addresses are those in the ELF file (as `nm` prints them). A return address is that of the
 * instruction after the call, so callers must ask for the byte before it.
 *
 * An address has one frame, plus one for each function that was inlined there, innermost first.
 * Overloaded functions share a name, and two builds of a program have the same names
 * (symbol_name.h).
 *
 *   debug information     name, file and line of all frames (symbol_debug.h)
 *   a symbol table        the name of one frame
 *   neither               "FILE+0x1234", where the function begins if .eh_frame says so
 *
 * symbol_file.h says which files are tried. Each is opened at most once; symbols_state() says what
 * was wrong with it.
 *
 * Memory: symbol_debug.h and symbol_table.h for each file. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_SYMBOLS_H
#define MALLOCTAPE_SYMBOLS_SYMBOLS_H

#include "symbols/strings.h"
#include "symbols/symbol_file.h"
#include "symbols/symbol_frame.h"

struct symbols {
    struct strings strings;
    size_t count; /* of modules */

    /* From here on: symbols.c only. */
    struct symbol_places places;
    struct symbol_module **modules;
    size_t room;
    uint32_t *slots; /* by path and build id: a module's number, plus 1 */
    size_t slots_count;
    bool no_memory;
};

/* `directories` (symbol_file.h) must live as long as `symbols`, which must not move. False: no
 * memory. */
bool symbols_open(struct symbols *symbols, const char *const *directories, size_t count);
void symbols_close(struct symbols *symbols);

/* The number of a module, the same for the same path and build id. `path` may be any text; an empty
 * build id means none; both are copied. UINT32_MAX: no memory. */
uint32_t symbols_module(struct symbols *symbols, const char *path, const uint8_t *build_id,
                        size_t build_id_bytes);

/* Fills `frames` (SYMBOL_FRAMES_MAX of them) and returns how many are used: at least one. */
unsigned symbols_find(struct symbols *symbols, uint32_t module, uint64_t address,
                      struct symbol_frame *frames);

/* The path of a module, printable. */
const char *symbols_path(const struct symbols *symbols, uint32_t module);

/* Whether the module's file was found, and if not, why. Only after symbols_find() for it. */
enum symbol_file_state symbols_state(const struct symbols *symbols, uint32_t module);

/* The only segment with code of a module's file, in whole pages. False: there is none, or more than
 * one. Only after symbols_find() for it. */
struct symbol_segment {
    uint64_t begin, end; /* addresses in the ELF file */
    uint64_t offset;     /* of `begin`, in the file */
};
bool symbols_segment(const struct symbols *symbols, uint32_t module,
                     struct symbol_segment *segment);

/* SYMBOL_LACKS_..., of what was needed so far. */
unsigned symbols_lack(const struct symbols *symbols, uint32_t module);

/* Whether there has been enough memory so far. */
bool symbols_are_whole(const struct symbols *symbols);

#endif
