#include "symbols/symbols.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "symbols/elf_section.h"
#include "symbols/function_name.h"
#include "symbols/symbol_debug.h"
#include "symbols/symbol_name.h"
#include "symbols/symbol_table.h"

enum { SLOTS_LEAST = 256 };

struct symbol_module {
    char *path;
    uint32_t text; /* the number of the same, printable */
    uint8_t build_id[BUILD_ID_MAX];
    size_t build_id_bytes;
    enum symbol_file_state state;
    bool is_tried, is_named, is_framed;

    Elf *file;   /* NULL: none */
    Elf *apart;  /* with debug information; NULL: none, or it is in `file` */
    Elf *shared; /* with what its debug information shares with others; NULL: none */
    struct symbol_debug debug;
    struct symbol_table table; /* is_named */
    Dwarf_CFI *frames;         /* is_framed; NULL: none */
};

/* ---- files ---- */

static bool has_debug(Elf *elf)
{
    return elf_section_find(elf, ".debug_info") != NULL ||
           elf_section_find(elf, ".zdebug_info") != NULL;
}

/* The file that .gnu_debugaltlink of the file `from` names; NULL: none. */
static Elf *shared_open(const struct symbols *symbols, Elf *elf, const char *from)
{
    static const char section[] = ".gnu_debugaltlink";
    char found[PATH_MAX];
    uint64_t bytes;
    const char *name = elf_section_text(elf, section);
    if (name == NULL) return NULL;
    const size_t before = strlen(name) + 1, all = elf_section_data(elf, section)->d_size;
    const struct symbol_module_name shared = {name, (const uint8_t *)name + before, all - before};
    if (all == before || all - before > BUILD_ID_MAX) return NULL;
    Elf *other =
        symbol_file_read(symbol_file_open_named(&symbols->places, from, &shared, found), &bytes);
    if (other == NULL || elf_section_packing(other, bytes) != ELF_PACKING_LARGE) return other;
    elf_end(other);
    return NULL;
}

/* False: no memory. */
static bool symbols_module_open(const struct symbols *symbols, struct symbol_module *module)
{
    char path[PATH_MAX];
    uint64_t bytes;
    const struct symbol_module_name names = {module->path, module->build_id,
                                             module->build_id_bytes};
    module->is_tried = true;
    module->file =
        symbol_file_read(symbol_file_open(&symbols->places, &names, path, &module->state), &bytes);
    Elf *debug = module->file;
    if (debug == NULL) return true;
    if (!has_debug(debug)) {
        const char *link = elf_section_text(debug, ".gnu_debuglink");
        debug =
            symbol_file_read(symbol_file_open_debug(&symbols->places, &names, link, path), &bytes);
        module->apart = debug;
    }
    if (debug == NULL) return true;
    module->shared = shared_open(symbols, debug, path);
    const struct symbol_debug_file file = {debug, path, bytes, &symbols->places};
    return symbol_debug_open(&module->debug, &file, module->shared);
}

static void module_close(struct symbol_module *module)
{
    symbol_debug_close(&module->debug);
    symbol_table_free(&module->table);
    if (module->frames != NULL) dwarf_cfi_end(module->frames);
    elf_end(module->shared);
    elf_end(module->apart);
    elf_end(module->file);
    free(module->path);
    free(module);
}

/* ---- without debug information ---- */

/* Takes the name from the symbol table, if it is there. */
static void take_symbol(struct symbols *symbols, struct symbol_module *module, uint64_t address,
                        struct symbol_frame *frame)
{
    bool good = true;
    if (!module->is_named) {
        module->is_named = true;
        if (!symbol_table_add(&module->table, module->file, &good) && module->apart != NULL)
            symbol_table_add(&module->table, module->apart, &good);
        symbol_table_sort(&module->table);
    }
    if (!good) symbols->no_memory = true;
    const char *name = symbol_table_find(&module->table, address);
    if (name == NULL) return;
    frame->function = symbol_name_put(&symbols->strings, name);
    frame->is_rust = function_name_is_rust(name);
}

/* The beginning of the function by the unwind information; if there is none, the address. */
static uint64_t begin_of(struct symbol_module *module, uint64_t address)
{
    Dwarf_Addr begin = address, end;
    Dwarf_Frame *frame = NULL;
    bool signal;
    if (!module->is_framed && module->file != NULL) module->frames = dwarf_getcfi_elf(module->file);
    module->is_framed = true;
    if (module->frames == NULL || dwarf_cfi_addrframe(module->frames, address, &frame) != 0)
        return address;
    dwarf_frame_info(frame, &begin, &end, &signal);
    free(frame);
    return begin;
}

static uint32_t name_by_number(struct symbols *symbols, struct symbol_module *module,
                               uint64_t address)
{
    char text[PATH_MAX + 32];
    const char *name = basename(module->path);
    snprintf(text, sizeof text, "%.1024s+0x%" PRIx64, *name != '\0' ? name : "?",
             begin_of(module, address));
    return strings_put(&symbols->strings, text);
}

/* ---- all of it ---- */

bool symbols_open(struct symbols *symbols, const char *const *directories, size_t count)
{
    *symbols = (struct symbols){.places = {directories, count, false}};
    for (size_t i = 0; i < count; i++)
        if (strcmp(directories[i], "none") == 0) symbols->places.nowhere = true;
    elf_version(EV_CURRENT);
    return strings_open(&symbols->strings);
}

void symbols_close(struct symbols *symbols)
{
    for (size_t i = 0; i < symbols->count; i++)
        module_close(symbols->modules[i]);
    free(symbols->modules);
    free(symbols->slots);
    strings_free(&symbols->strings);
    *symbols = (struct symbols){.count = 0};
}

/* ---- modules by path and build id ---- */

static uint64_t symbols_hash(uint32_t text, const uint8_t *build_id, size_t bytes)
{
    uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ text) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ build_id[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash ^ hash >> 32;
}

/* The slot of the module, or the free one where it would be. */
static uint32_t *symbols_slot_of(const struct symbols *symbols, uint32_t text,
                                 const uint8_t *build_id, size_t bytes)
{
    const size_t last = symbols->slots_count - 1;
    for (size_t at = symbols_hash(text, build_id, bytes) & last;; at = (at + 1) & last) {
        uint32_t *slot = &symbols->slots[at];
        const struct symbol_module *one = *slot != 0 ? symbols->modules[*slot - 1] : NULL;
        if (one == NULL || (one->text == text && one->build_id_bytes == bytes &&
                            memcmp(one->build_id, build_id, bytes) == 0))
            return slot;
    }
}

/* Makes room for one more. False: no memory. */
static bool symbols_reserve(struct symbols *symbols)
{
    if (!array_reserve(&symbols->modules, &symbols->room, symbols->count + 1,
                       sizeof *symbols->modules))
        return false;
    if (2 * (symbols->count + 1) <= symbols->slots_count) return true;
    const size_t more = symbols->slots_count == 0 ? SLOTS_LEAST : 2 * symbols->slots_count;
    uint32_t *slots = calloc(more, sizeof *slots);
    if (slots == NULL) return false;
    free(symbols->slots);
    symbols->slots = slots;
    symbols->slots_count = more;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct symbol_module *one = symbols->modules[i];
        *symbols_slot_of(symbols, one->text, one->build_id, one->build_id_bytes) = (uint32_t)i + 1;
    }
    return true;
}

uint32_t symbols_module(struct symbols *symbols, const char *path, const uint8_t *build_id,
                        size_t build_id_bytes)
{
    if (build_id_bytes > BUILD_ID_MAX) build_id_bytes = 0;
    const uint32_t text = strings_put(&symbols->strings, path);
    if (!symbols_reserve(symbols)) {
        symbols->no_memory = true;
        return UINT32_MAX;
    }
    uint32_t *slot = symbols_slot_of(symbols, text, build_id, build_id_bytes);
    if (*slot != 0) return *slot - 1;
    struct symbol_module *module = calloc(1, sizeof *module);
    char *copy = strdup(path);
    if (module == NULL || copy == NULL) {
        free(copy);
        free(module);
        symbols->no_memory = true;
        return UINT32_MAX;
    }
    *module = (struct symbol_module){.path = copy, .text = text, .build_id_bytes = build_id_bytes};
    if (build_id_bytes > 0) memcpy(module->build_id, build_id, build_id_bytes);
    symbols->modules[symbols->count] = module;
    *slot = (uint32_t)++symbols->count;
    return *slot - 1;
}

unsigned symbols_find(struct symbols *symbols, uint32_t number, uint64_t address,
                      struct symbol_frame *frames)
{
    struct symbol_module *module = symbols->modules[number];
    if (!module->is_tried && !symbols_module_open(symbols, module)) symbols->no_memory = true;
    unsigned count = module->debug.dwarf != NULL
                         ? symbol_debug_find(&module->debug, &symbols->strings, address, frames)
                         : 0;
    if (count == 0) {
        frames[0] = (struct symbol_frame){.function = 0};
        count = 1;
    }
    /* Only the outermost function can be in the symbol table, not inlined ones. */
    struct symbol_frame *outermost = &frames[count - 1];
    if (outermost->function == 0 && module->file != NULL)
        take_symbol(symbols, module, address, outermost);
    for (unsigned i = 0; i < count; i++)
        if (frames[i].function == 0) frames[i].function = name_by_number(symbols, module, address);
    return count;
}

const char *symbols_path(const struct symbols *symbols, uint32_t module)
{
    return symbols->strings.at[symbols->modules[module]->text];
}

enum symbol_file_state symbols_state(const struct symbols *symbols, uint32_t module)
{
    return symbols->modules[module]->state;
}

bool symbols_segment(const struct symbols *symbols, uint32_t module, struct symbol_segment *segment)
{
    Elf *file = symbols->modules[module]->file;
    size_t count = 0, found = 0;
    GElf_Phdr one;
    if (file == NULL || elf_getphdrnum(file, &count) != 0) return false;
    for (int i = 0; i < (int)count; i++) {
        if (gelf_getphdr(file, i, &one) == NULL || one.p_type != PT_LOAD ||
            (one.p_flags & PF_X) == 0)
            continue;
        uint64_t before = one.p_align > 1 ? one.p_vaddr % one.p_align : 0;
        if (before > one.p_offset) before = one.p_vaddr % 4096; /* mapped by pages */
        if (before > one.p_offset) return false;
        *segment = (struct symbol_segment){one.p_vaddr - before, one.p_vaddr + one.p_memsz,
                                           one.p_offset - before};
        found++;
    }
    return found == 1;
}

unsigned symbols_lack(const struct symbols *symbols, uint32_t module)
{
    return symbols->modules[module]->debug.lacks;
}

bool symbols_are_whole(const struct symbols *symbols)
{
    return !symbols->no_memory && !symbols->strings.no_memory;
}
