#include "symbols/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <libiberty/demangle.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "symbols/code_ranges.h"

/* How deep in a tree of debug information functions are looked for. */
enum { DEPTH_MAX = 64 };

/* A compilation unit. */
struct unit {
    Dwarf_Die die;
    bool is_read;
    struct code_ranges functions; /* of DIEs */
};

struct symbol_module {
    char *path;
    uint32_t text; /* the number of the same, printable */
    uint8_t build_id[BUILD_ID_MAX];
    size_t build_id_bytes;
    enum symbol_file_state state;
    bool is_tried;
    const struct symbol_places *places; /* for find_debuginfo() */

    /* NULL, 0: there is no file, or nothing in it. */
    Dwfl *dwfl;
    Dwfl_Module *elf;
    Dwarf_Addr bias; /* to be added to addresses of debug information */
    struct unit *units;
    size_t units_count, units_room;
    struct code_ranges ranges; /* of units, by index */
    struct code_ranges named;  /* of symbols, because libdw searches linearly for each address */
    bool is_named;
};

/* ---- names ---- */

/* The length of a name without the suffix that a compiler adds for a copy or a part. */
static size_t length_without_suffix(const char *name)
{
    static const char *const suffixes[] = {".cold",      ".part.", ".constprop.", ".isra.",
                                           ".lto_priv.", ".llvm.", ".localalias"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *at = strstr(name, suffixes[i]);
        if (at != NULL && at > name && (size_t)(at - name) < length) length = (size_t)(at - name);
    }
    return length;
}

/* Removes ABI tags, which tell builds of the C++ library apart: "build[abi:cxx11]". */
static void take_out_tags(char *name)
{
    for (char *at; (at = strstr(name, "[abi:")) != NULL;) {
        const char *end = strchr(at, ']');
        if (end == NULL) break;
        memmove(at, end + 1, strlen(end + 1) + 1);
    }
}

char *symbols_demangle(const char *name)
{
    char *plain = strndup(name, length_without_suffix(name));
    char *demangled = plain != NULL ? cplus_demangle(plain, DMGL_AUTO | DMGL_ANSI) : NULL;
    if (demangled == NULL) return plain;
    free(plain);
    take_out_tags(demangled);
    return demangled;
}

static uint32_t put_name(struct symbols *symbols, const char *mangled)
{
    char *name = symbols_demangle(mangled);
    if (name == NULL) symbols->no_memory = true;
    const uint32_t number = strings_put(&symbols->strings, name);
    free(name);
    return number;
}

/* ---- files ---- */

static int find_debuginfo(Dwfl_Module *elf, void **userdata, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **found)
{
    struct symbol_module *module = *userdata;
    (void)elf, (void)name, (void)base, (void)file, (void)link, (void)crc;
    char path[PATH_MAX];
    const struct symbol_module_name names = {module->path, module->build_id,
                                             module->build_id_bytes};
    const int fd = symbol_file_open_debug(module->places, &names, path);
    *found = fd >= 0 ? strdup(path) : NULL;
    return fd;
}

static void module_open(struct symbol_module *module)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                             .find_debuginfo = find_debuginfo,
                                             .section_address = dwfl_offline_section_address};
    char path[PATH_MAX];
    const struct symbol_module_name names = {module->path, module->build_id,
                                             module->build_id_bytes};
    void **userdata;
    module->is_tried = true;
    int fd = symbol_file_open(module->places, &names, path, &module->state);
    if (fd < 0) return;
    module->dwfl = dwfl_begin(&callbacks);
    if (module->dwfl != NULL) {
        dwfl_report_begin(module->dwfl);
        module->elf = dwfl_report_elf(module->dwfl, path, path, fd, 0, true);
        if (module->elf != NULL) fd = -1; /* libdwfl owns it now */
        dwfl_report_end(module->dwfl, NULL, NULL);
    }
    if (fd >= 0) close(fd);
    if (module->elf == NULL) return;
    dwfl_module_info(module->elf, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
    *userdata = module;
}

static void module_close(struct symbol_module *module)
{
    for (size_t i = 0; i < module->units_count; i++)
        code_ranges_free(&module->units[i].functions);
    free(module->units);
    code_ranges_free(&module->ranges);
    code_ranges_free(&module->named);
    free(module->path);
    if (module->dwfl != NULL) dwfl_end(module->dwfl);
    free(module);
}

/* ---- ranges of code ---- */

static bool ranges_add(struct code_ranges *ranges, Dwarf_Die *die, uint64_t of)
{
    Dwarf_Addr base, begin, end;
    bool good = true;
    for (ptrdiff_t at = 0; good && (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;)
        good = code_ranges_add(ranges, begin, end, of);
    return good;
}

/* ---- debug information ---- */

static bool units_read(struct symbol_module *module)
{
    Dwarf_Die *die = NULL;
    Dwarf_Addr bias;
    while ((die = dwfl_module_nextcu(module->elf, die, &bias)) != NULL) {
        if (!array_reserve(&module->units, &module->units_room, module->units_count + 1,
                           sizeof *module->units) ||
            !ranges_add(&module->ranges, die, module->units_count))
            return false;
        module->units[module->units_count++].die = *die;
        module->bias = bias;
    }
    code_ranges_sort(&module->ranges);
    return true;
}

/* The functions below a DIE that have code. */
static bool functions_read(struct code_ranges *functions, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    bool good = true;
    if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0) return true;
    do {
        const int tag = dwarf_tag(&die);
        switch (tag) {
        case DW_TAG_subprogram:
            good = ranges_add(functions, &die, dwarf_dieoffset(&die));
            /* fall through */
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_lexical_block: good = good && functions_read(functions, &die, depth + 1); break;
        default: break;
        }
    } while (good && dwarf_siblingof(&die, &die) == 0);
    return good;
}

static bool is_c(Dwarf_Die *unit)
{
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11: return true;
    default: return false;
    }
}

/* The DIE where a function is declared: for one without a linkage name, that is inside its
 * class. */
static Dwarf_Die declared_at(Dwarf_Die die)
{
    static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
    for (size_t i = 0; i < 2; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Die other;
        if (dwarf_attr(&die, links[i], &attribute) != NULL &&
            dwarf_formref_die(&attribute, &other) != NULL)
            die = other;
    }
    return die;
}

/* "outer::Class::name", "function::{lambda}::operator()" */
static uint32_t put_qualified(struct symbols *symbols, Dwarf_Die *die, const char *name)
{
    Dwarf_Die declared = declared_at(*die), *scopes = NULL;
    const int count = dwarf_getscopes_die(&declared, &scopes);
    char text[1024];
    size_t used = 0;
    for (int i = count - 1; i > 0; i--) {
        const int tag = dwarf_tag(&scopes[i]);
        const char *scope = dwarf_diename(&scopes[i]);
        switch (tag) {
        case DW_TAG_namespace:
            if (scope == NULL) scope = "(anonymous namespace)";
            break;
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
            if (scope == NULL) scope = strcmp(name, "operator()") == 0 ? "{lambda}" : "{unnamed}";
            break;
        case DW_TAG_module:
        case DW_TAG_subprogram: break;
        default: scope = NULL;
        }
        if (scope != NULL && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s::", scope);
    }
    free(scopes);
    if (used < sizeof text) snprintf(text + used, sizeof text - used, "%s", name);
    return strings_put(&symbols->strings, text);
}

/* 0: it has no name. */
static uint32_t name_of_die(struct symbols *symbols, struct unit *unit, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
        name = dwarf_formstring(&attribute);
    if (name != NULL) return put_name(symbols, name);
    name = dwarf_diename(die);
    if (name == NULL) return 0;
    return is_c(&unit->die) ? put_name(symbols, name) : put_qualified(symbols, die, name);
}

/* Sets file and line of a frame to the place where an inlined function was called. */
static void take_call_place(struct symbols *symbols, struct unit *unit, Dwarf_Die *die,
                            struct symbol_frame *frame)
{
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word number;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &number) == 0)
        frame->line = (uint32_t)number;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &number) == 0 &&
        dwarf_getsrcfiles(&unit->die, &files, NULL) == 0)
        frame->file = strings_put(&symbols->strings, dwarf_filesrc(files, number, NULL, NULL));
}

static void take_line(struct symbols *symbols, struct unit *unit, uint64_t address,
                      struct symbol_frame *frame)
{
    Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
    int number;
    if (line == NULL) return;
    if (dwarf_lineno(line, &number) == 0) frame->line = (uint32_t)number;
    frame->file = strings_put(&symbols->strings, dwarf_linesrc(line, NULL, NULL));
}

/* Finds the functions inlined at an address, inwards from die[0], the one that has the code.
 * Returns how many there are, die[0] included. */
static unsigned inlined_at(Dwarf_Die die[SYMBOL_FRAMES_MAX], uint64_t address)
{
    unsigned count = 1;
    Dwarf_Die at = die[0], child;
    for (unsigned depth = 0; depth < DEPTH_MAX * 4 && dwarf_child(&at, &child) == 0; depth++) {
        bool found = false;
        do {
            const int tag = dwarf_tag(&child);
            found = (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
                    dwarf_haspc(&child, address) > 0;
        } while (!found && dwarf_siblingof(&child, &child) == 0);
        if (!found) break;
        at = child;
        if (dwarf_tag(&at) == DW_TAG_inlined_subroutine && count < SYMBOL_FRAMES_MAX)
            die[count++] = at;
    }
    return count;
}

/* Gets the frames from debug information; 0: none. `address` is without the bias. */
static unsigned find_die(struct symbols *symbols, struct symbol_module *module, uint64_t address,
                         struct symbol_frame *frames)
{
    Dwarf_Die dies[SYMBOL_FRAMES_MAX];
    const struct code_range *range = code_ranges_find(&module->ranges, address);
    if (range == NULL) return 0;
    struct unit *unit = &module->units[range->of];
    if (!unit->is_read) {
        if (!functions_read(&unit->functions, &unit->die, 0)) symbols->no_memory = true;
        code_ranges_sort(&unit->functions);
        unit->is_read = true;
    }
    range = code_ranges_find(&unit->functions, address);
    Dwarf_Addr bias;
    if (range == NULL ||
        dwarf_offdie(dwfl_module_getdwarf(module->elf, &bias), range->of, &dies[0]) == NULL)
        return 0;
    const unsigned count = inlined_at(dies, address);
    for (unsigned i = 0; i < count; i++) { /* from the innermost one */
        struct symbol_frame *frame = &frames[i];
        const unsigned at = count - 1 - i;
        *frame = (struct symbol_frame){.function = name_of_die(symbols, unit, &dies[at])};
        if (i == 0)
            take_line(symbols, unit, address, frame);
        else
            take_call_place(symbols, unit, &dies[at + 1], frame);
    }
    return count;
}

/* ---- without it ---- */

/* Reads the functions of the symbol table that have a length. */
static bool named_read(struct symbol_module *module)
{
    const int count = dwfl_module_getsymtab(module->elf);
    bool good = true;
    for (int i = 1; i < count && good; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name =
            dwfl_module_getsym_info(module->elf, i, &symbol, &address, &section, NULL, NULL);
        const unsigned type = GELF_ST_TYPE(symbol.st_info);
        if (name != NULL && *name != '\0' && section != SHN_UNDEF && section != SHN_ABS &&
            (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE))
            good = code_ranges_add(&module->named, address, address + symbol.st_size, (uint64_t)i);
    }
    code_ranges_sort(&module->named);
    return good;
}

/* The name from the symbol table; 0: none. */
static uint32_t name_of_symbol(struct symbols *symbols, struct symbol_module *module,
                               uint64_t address)
{
    GElf_Sym symbol;
    GElf_Addr begin;
    if (!module->is_named && !named_read(module)) symbols->no_memory = true;
    module->is_named = true;
    const struct code_range *range = code_ranges_find(&module->named, address);
    if (range == NULL) return 0;
    return put_name(symbols, dwfl_module_getsym_info(module->elf, (int)range->of, &symbol, &begin,
                                                     NULL, NULL, NULL));
}

/* The beginning of the function by the unwind information; if there is none, the address. */
static uint64_t begin_of(const struct symbol_module *module, uint64_t address)
{
    Dwarf_Addr bias, begin = address, end;
    Dwarf_Frame *frame = NULL;
    bool signal;
    Dwarf_CFI *cfi = module->elf != NULL ? dwfl_module_eh_cfi(module->elf, &bias) : NULL;
    if (cfi == NULL || dwarf_cfi_addrframe(cfi, address - bias, &frame) != 0) return address;
    dwarf_frame_info(frame, &begin, &end, &signal);
    free(frame);
    return begin + bias;
}

static uint32_t name_by_number(struct symbols *symbols, const struct symbol_module *module,
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
    strings_free(&symbols->strings);
    *symbols = (struct symbols){.count = 0};
}

uint32_t symbols_module(struct symbols *symbols, const char *path, const uint8_t *build_id,
                        size_t build_id_bytes)
{
    if (build_id_bytes > BUILD_ID_MAX) build_id_bytes = 0;
    const uint32_t text = strings_put(&symbols->strings, path);
    for (size_t i = 0; i < symbols->count; i++) {
        const struct symbol_module *one = symbols->modules[i];
        if (one->text == text && one->build_id_bytes == build_id_bytes &&
            memcmp(one->build_id, build_id, build_id_bytes) == 0)
            return (uint32_t)i;
    }
    struct symbol_module *module = calloc(1, sizeof *module);
    char *copy = strdup(path);
    if (module == NULL || copy == NULL ||
        !array_reserve(&symbols->modules, &symbols->room, symbols->count + 1,
                       sizeof *symbols->modules)) {
        free(copy);
        free(module);
        symbols->no_memory = true;
        return UINT32_MAX;
    }
    *module = (struct symbol_module){
        .path = copy, .text = text, .build_id_bytes = build_id_bytes, .places = &symbols->places};
    if (build_id_bytes > 0) memcpy(module->build_id, build_id, build_id_bytes);
    symbols->modules[symbols->count] = module;
    return (uint32_t)symbols->count++;
}

unsigned symbols_find(struct symbols *symbols, uint32_t number, uint64_t address,
                      struct symbol_frame *frames)
{
    struct symbol_module *module = symbols->modules[number];
    if (!module->is_tried) {
        module_open(module);
        if (module->elf != NULL && !units_read(module)) symbols->no_memory = true;
    }
    unsigned count =
        module->units_count > 0 ? find_die(symbols, module, address - module->bias, frames) : 0;
    if (count == 0) {
        frames[0] = (struct symbol_frame){.function = 0};
        count = 1;
    }
    /* Only the outermost function can be in the symbol table, not inlined ones. */
    struct symbol_frame *outermost = &frames[count - 1];
    if (outermost->function == 0 && module->elf != NULL)
        outermost->function = name_of_symbol(symbols, module, address);
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

bool symbols_are_whole(const struct symbols *symbols)
{
    return !symbols->no_memory && !symbols->strings.no_memory;
}
