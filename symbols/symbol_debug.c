#include "symbols/symbol_debug.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "symbols/elf_section.h"
#include "symbols/function_name.h"
#include "symbols/split_unit.h"
#include "symbols/symbol_name.h"

/* How deep in a tree of debug information functions, and those that are inlined, are looked for. */
enum { DEPTH_MAX = 64, INLINED_DEPTH_MAX = 256 };

/* How many functions a name has at most, each in the next one: lambdas. */
enum { FUNCTIONS_DEPTH_MAX = 8 };

/* Steps of walks: of a file, and for each of its bytes. LibreOffice's largest file takes a tenth. */
#define BUDGET_LEAST (UINT64_C(1) << 24)
enum { BUDGET_OF_BYTE = 1, STEPS_OF_RANGE = 4, SKIPPED_OF_STEP = 16 };

/* A compilation unit. */
struct symbol_unit {
    Dwarf_Die die; /* with lines; of a split unit, the skeleton's */
    bool is_read, is_split;
    struct code_ranges functions; /* of DIEs */
    struct split_unit split;
    Elf *split_file; /* of this unit alone; NULL: none */
};

/* ---- walks ---- */

static bool spend(struct symbol_debug *debug, uint64_t steps)
{
    if (debug->budget >= steps) {
        debug->budget -= steps;
        return true;
    }
    debug->budget = 0;
    debug->lacks |= SYMBOL_LACKS_BUDGET;
    return false;
}

/* Goes to the next entry of the same level, if it lies behind `*furthest`, the last one that was
 * visited: in a valid file it does. */
static bool symbol_debug_go_on(struct symbol_debug *debug, Dwarf_Die *die, Dwarf_Off *furthest)
{
    const Dwarf_Off before = dwarf_dieoffset(die);
    if (dwarf_siblingof(die, die) != 0) return false;
    const Dwarf_Off at = dwarf_dieoffset(die);
    if (at <= *furthest) return false;
    *furthest = at;
    return spend(debug, 1 + (at - before) / SKIPPED_OF_STEP);
}

static bool go_in(struct symbol_debug *debug, Dwarf_Die *parent, Dwarf_Die *child,
                  Dwarf_Off *furthest)
{
    if (dwarf_child(parent, child) != 0) return false;
    *furthest = dwarf_dieoffset(child);
    return spend(debug, 1);
}

/* As dwarf_ranges(). `split`: NULL, or the split unit of the DIE. */
static ptrdiff_t range_next(const struct split_unit *split, Dwarf_Die *die, ptrdiff_t at,
                            Dwarf_Addr *base, Dwarf_Addr *begin, Dwarf_Addr *end)
{
    return split != NULL && split->dwarf != NULL
               ? split_unit_range(split, die, at, base, begin, end)
               : dwarf_ranges(die, at, base, begin, end);
}

/* False: no memory. */
static bool ranges_add(struct symbol_debug *debug, const struct split_unit *split,
                       struct code_ranges *ranges, Dwarf_Die *die, uint64_t of)
{
    Dwarf_Addr base, begin, end;
    bool good = true;
    for (ptrdiff_t at = 0; good && (at = range_next(split, die, at, &base, &begin, &end)) > 0;) {
        if (!spend(debug, STEPS_OF_RANGE)) break;
        good = code_ranges_add(ranges, begin, end, of);
    }
    return good;
}

/* Adds the functions below a DIE that have code. False: no memory. */
static bool functions_read(struct symbol_debug *debug, struct symbol_unit *unit, Dwarf_Die *parent,
                           Dwarf_Off *furthest, unsigned depth)
{
    Dwarf_Die die;
    bool good = true;
    if (depth == DEPTH_MAX || !go_in(debug, parent, &die, furthest)) return true;
    do {
        const int tag = dwarf_tag(&die);
        switch (tag) {
        case DW_TAG_subprogram:
            good = ranges_add(debug, &unit->split, &unit->functions, &die, dwarf_dieoffset(&die));
            /* fall through */
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_lexical_block:
            good = good && functions_read(debug, unit, &die, furthest, depth + 1);
            break;
        default: break;
        }
    } while (good && symbol_debug_go_on(debug, &die, furthest));
    return good;
}

static bool has_address(struct symbol_debug *debug, const struct split_unit *split, Dwarf_Die *die,
                        uint64_t address)
{
    Dwarf_Addr base, begin, end;
    for (ptrdiff_t at = 0; (at = range_next(split, die, at, &base, &begin, &end)) > 0;) {
        if (address >= begin && address < end) return true;
        if (!spend(debug, STEPS_OF_RANGE)) break;
    }
    return false;
}

/* Finds the functions inlined at an address, inwards from die[0], the one that has the code.
 * Returns how many there are, die[0] included. */
static unsigned inlined_at(struct symbol_debug *debug, const struct split_unit *split,
                           Dwarf_Die die[SYMBOL_FRAMES_MAX], uint64_t address)
{
    unsigned count = 1;
    Dwarf_Die at = die[0], child;
    Dwarf_Off furthest;
    for (unsigned depth = 0; depth < INLINED_DEPTH_MAX && go_in(debug, &at, &child, &furthest);
         depth++) {
        bool found = false;
        do {
            const int tag = dwarf_tag(&child);
            found = (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
                    has_address(debug, split, &child, address);
        } while (!found && symbol_debug_go_on(debug, &child, &furthest));
        if (!found) break;
        at = child;
        if (dwarf_tag(&at) == DW_TAG_inlined_subroutine && count < SYMBOL_FRAMES_MAX)
            die[count++] = at;
    }
    return count;
}

/* Lists the DIEs around a DIE, from its unit's inwards, without it. */
static unsigned scopes_of(struct symbol_debug *debug, Dwarf_Die *die, Dwarf_Die scopes[DEPTH_MAX])
{
    const Dwarf_Off place = dwarf_dieoffset(die);
    unsigned count = 0;
    Dwarf_Off furthest;
    Dwarf_Die at, next;
    if (dwarf_diecu(die, &at, NULL, NULL) == NULL) return 0;
    while (count < DEPTH_MAX && dwarf_dieoffset(&at) < place) {
        scopes[count++] = at;
        if (!go_in(debug, &scopes[count - 1], &next, &furthest)) return 0;
        do
            at = next;
        while (symbol_debug_go_on(debug, &next, &furthest) && furthest <= place);
    }
    return dwarf_dieoffset(&at) == place ? count : 0;
}

/* ---- names ---- */

/* The DIE with functions and attributes of a unit. */
static Dwarf_Die *die_of(struct symbol_unit *unit)
{
    return unit->is_split ? &unit->split.die : &unit->die;
}

/* 0: unknown. */
static Dwarf_Word language_of(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    Dwarf_Word language;
    /* Not dwarf_srclang(), which would open the file that a skeleton unit names. */
    return dwarf_formudata(dwarf_attr(unit, DW_AT_language, &attribute), &language) == 0 ? language
                                                                                         : 0;
}

static bool is_c(Dwarf_Die *unit)
{
    const Dwarf_Word language = language_of(unit);
    return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 ||
           language == DW_LANG_C11;
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

static bool is_class(Dwarf_Die *die)
{
    const int tag = dwarf_tag(die);
    return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

/* What a scope adds to the name of a function; NULL: nothing. */
static const char *scope_name(Dwarf_Die *scope)
{
    const char *name = dwarf_diename(scope);
    const int tag = dwarf_tag(scope);
    if (is_class(scope)) return name != NULL ? name : "{unnamed}";
    if (tag == DW_TAG_namespace) return name != NULL ? name : "(anonymous namespace)";
    return tag == DW_TAG_module ? name : NULL;
}

static bool is_call(const char *name)
{
    return name != NULL && strncmp(name, "operator()", 10) == 0;
}

/* A class without a name, or as compilers call that of a lambda. */
static bool is_lambda(Dwarf_Die *scope)
{
    const char *name = dwarf_diename(scope);
    return is_class(scope) && (name == NULL || strncmp(name, "<lambda", 7) == 0);
}

/* Text that is made piece by piece; what does not fit is left out. */
struct name_text {
    char text[1024];
    size_t used;
    int lambda_line; /* of the last lambda; 0: unknown */
    bool of_lambda;  /* the linkage name says so: also what copies or destroys one has its name */
    bool lacks;      /* the name of a function around it is not known */
};

__attribute__((format(printf, 2, 3))) static void name_add(struct name_text *name,
                                                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    name->used += (size_t)vsnprintf(name->text + name->used, sizeof name->text - name->used, format,
                                    arguments);
    va_end(arguments);
    if (name->used >= sizeof name->text) name->used = sizeof name->text - 1;
}

/* Adds "{lambda:12}", with the line of its call operator. */
static void add_lambda(struct name_text *text, Dwarf_Die *call, Dwarf_Die *class)
{
    if (dwarf_decl_line(call, &text->lambda_line) == 0 ||
        dwarf_decl_line(class, &text->lambda_line) == 0)
        name_add(text, "{lambda:%d}", text->lambda_line);
    else
        name_add(text, "{lambda}");
}

/* Adds "outer::Class::name", "function::{lambda:12}". Returns whether it is a lambda. */
static bool add_qualified(struct symbol_debug *debug, struct name_text *text, Dwarf_Die *die,
                          unsigned depth)
{
    Dwarf_Die declared = declared_at(*die), scopes[DEPTH_MAX];
    const char *name = dwarf_diename(die);
    const unsigned count = depth < FUNCTIONS_DEPTH_MAX ? scopes_of(debug, &declared, scopes) : 0;
    const bool of_lambda = count > 0 && is_lambda(&scopes[count - 1]) &&
                           (is_call(name) || (depth == 0 && text->of_lambda));
    unsigned first = count - of_lambda; /* after the innermost function, if there is one */
    while (first > 0 && dwarf_tag(&scopes[first - 1]) != DW_TAG_subprogram)
        first--;
    if (first > 0) { /* it may have been declared elsewhere */
        add_qualified(debug, text, &scopes[first - 1], depth + 1);
        name_add(text, "::");
    }
    for (unsigned i = first; i < count - of_lambda; i++) {
        const char *scope = scope_name(&scopes[i]);
        if (scope != NULL) name_add(text, "%s::", scope);
    }
    if (of_lambda)
        add_lambda(text, &declared, &scopes[count - 1]);
    else
        name_add(text, "%s", name != NULL ? name : "");
    text->lacks = text->lacks || name == NULL;
    return of_lambda;
}

/* clang may leave out what a function around a lambda is called. The linkage name has it:
 * "f::{lambda#1}" or "f(int)::$_0::operator()". */
static uint32_t put_lambda(struct strings *strings, struct name_text *text, const char *linkage)
{
    char *name = text->lacks && linkage != NULL ? symbol_name_demangle(linkage) : NULL;
    char *end = name != NULL ? strrchr(name, '{') : NULL;
    if (name != NULL && end == NULL) end = strstr(name, "$_");
    if (end != NULL) {
        text->used = 0;
        name_add(text, "%.*s{lambda:%d}", (int)(end - name), name, text->lambda_line);
        function_name_shorten_lambdas(text->text);
    }
    free(name);
    return strings_put(strings, text->text);
}

/* 0: it has no name. */
static uint32_t name_of_die(struct symbol_debug *debug, struct strings *strings,
                            struct symbol_unit *unit, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
        name = dwarf_formstring(&attribute);
    const char *plain = dwarf_diename(die);
    struct name_text text = {
        .of_lambda = name != NULL && (strstr(name, "Ul") != NULL || strchr(name, '$') != NULL)};
    const bool may_be_lambda = text.of_lambda || (name == NULL && is_call(plain));
    if (may_be_lambda && add_qualified(debug, &text, die, 0))
        return put_lambda(strings, &text, name);
    if (name != NULL) return symbol_name_put(strings, name);
    if (plain == NULL) return 0;
    if (is_c(die_of(unit))) return symbol_name_put(strings, plain);
    if (!may_be_lambda) add_qualified(debug, &text, die, 0);
    return strings_put(strings, text.text);
}

/* ---- lines ---- */

/* Sets file and line of a frame to the place where an inlined function was called. */
static void take_call_place(struct strings *strings, struct symbol_unit *unit, Dwarf_Die *die,
                            struct symbol_frame *frame)
{
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word number;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &number) == 0)
        frame->line = (uint32_t)number;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &number) == 0 &&
        ((unit->is_split && dwarf_getsrcfiles(&unit->split.die, &files, NULL) == 0) ||
         dwarf_getsrcfiles(&unit->die, &files, NULL) == 0))
        frame->file = strings_put(strings, dwarf_filesrc(files, number, NULL, NULL));
}

static void symbol_debug_take_line(struct strings *strings, struct symbol_unit *unit,
                                   uint64_t address, struct symbol_frame *frame)
{
    Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
    int number;
    if (line == NULL) return;
    if (dwarf_lineno(line, &number) == 0) frame->line = (uint32_t)number;
    frame->file = strings_put(strings, dwarf_linesrc(line, NULL, NULL));
}

/* ---- split units ---- */

/* Opens a file that holds split units. NULL: there is none, or it unpacks to far more. */
static Elf *split_file(const struct symbol_debug *debug, const char *name)
{
    char found[PATH_MAX];
    uint64_t bytes;
    const struct symbol_module_name named = {name, NULL, 0};
    const struct symbol_debug_file *file = &debug->file;
    Elf *elf =
        symbol_file_read(symbol_file_open_named(file->places, file->path, &named, found), &bytes);
    if (elf == NULL || elf_section_packing(elf, bytes) != ELF_PACKING_LARGE) return elf;
    elf_end(elf);
    return NULL;
}

/* PROGRAM.dwp, or NULL. */
static Elf *package_of(struct symbol_debug *debug)
{
    char name[PATH_MAX];
    const char *program = basename(debug->file.path);
    const size_t length = strlen(program);
    const bool is_apart = length > 6 && strcmp(program + length - 6, ".debug") == 0;
    if (debug->is_package_tried) return debug->package;
    debug->is_package_tried = true;
    snprintf(name, sizeof name, "%s.dwp", program);
    debug->package = split_file(debug, name);
    if (debug->package != NULL || !is_apart) return debug->package;
    snprintf(name, sizeof name, "%.*s.dwp", (int)length - 6, program);
    return debug->package = split_file(debug, name);
}

/* Opens the file that a skeleton unit names, by its whole path or by its name. */
static bool split_open(struct symbol_debug *debug, struct symbol_unit *unit)
{
    char path[PATH_MAX];
    const char *directory, *name = split_unit_file(&unit->die, &directory);
    Elf *package = package_of(debug);
    if (package != NULL && split_unit_open(&unit->split, &unit->die, debug->file.elf, package))
        return true;
    for (int is_whole = 1; name != NULL && is_whole >= 0; is_whole--) {
        if (is_whole && (directory == NULL || *name == '/')) continue;
        snprintf(path, sizeof path, "%s%s%s", is_whole ? directory : "", is_whole ? "/" : "", name);
        unit->split_file = split_file(debug, path);
        if (unit->split_file == NULL) continue;
        if (split_unit_open(&unit->split, &unit->die, debug->file.elf, unit->split_file))
            return true;
        elf_end(unit->split_file);
        unit->split_file = NULL;
    }
    debug->lacks |= SYMBOL_LACKS_SPLIT;
    return false;
}

/* ---- an address ---- */

/* The functions at an address, from the one that has the code inwards; 0: none is known. */
static unsigned functions_at(struct symbol_debug *debug, struct strings *strings,
                             struct symbol_unit *unit, uint64_t address,
                             Dwarf_Die dies[SYMBOL_FRAMES_MAX])
{
    Dwarf_Off furthest = 0;
    if (!unit->is_read) {
        unit->is_read = true;
        if (unit->is_split) unit->is_split = split_open(debug, unit);
        if (!functions_read(debug, unit, die_of(unit), &furthest, 0)) strings->no_memory = true;
        code_ranges_sort(&unit->functions);
    }
    const struct code_range *range = code_ranges_find(&unit->functions, address);
    Dwarf *dwarf = unit->is_split ? unit->split.dwarf : debug->dwarf;
    if (range == NULL || dwarf_offdie(dwarf, range->of, &dies[0]) == NULL) return 0;
    return inlined_at(debug, &unit->split, dies, address);
}

/* "{lambda:12}" of no function is in any file: "{lambda:a.cc:12}". */
static void place_lambda(struct strings *strings, struct symbol_frame *frame)
{
    static const char lambda[] = "{lambda:";
    const char *name = strings->at[frame->function];
    char text[1024 + NAME_MAX];
    if (frame->file == 0 || strncmp(name, lambda, sizeof lambda - 1) != 0) return;
    snprintf(text, sizeof text, "%s%.*s:%s", lambda, NAME_MAX, basename(strings->at[frame->file]),
             name + sizeof lambda - 1);
    frame->function = strings_put(strings, text);
}

unsigned symbol_debug_find(struct symbol_debug *debug, struct strings *strings, uint64_t address,
                           struct symbol_frame *frames)
{
    Dwarf_Die dies[SYMBOL_FRAMES_MAX];
    const struct code_range *range = code_ranges_find(&debug->ranges, address);
    if (range == NULL) return 0;
    struct symbol_unit *unit = &debug->units[range->of];
    const unsigned count = functions_at(debug, strings, unit, address, dies);
    frames[0] = (struct symbol_frame){.function = 0};
    for (unsigned i = 0; i < count; i++) { /* from the innermost one */
        const unsigned at = count - 1 - i;
        frames[i] = (struct symbol_frame){.function = name_of_die(debug, strings, unit, &dies[at]),
                                          .is_rust = language_of(die_of(unit)) == DW_LANG_Rust};
        if (i > 0) take_call_place(strings, unit, &dies[at + 1], &frames[i]);
    }
    symbol_debug_take_line(strings, unit, address, &frames[0]);
    for (unsigned i = 0; i < count; i++)
        place_lambda(strings, &frames[i]);
    return count > 0 ? count : frames[0].line > 0;
}

/* ---- a file ---- */

/* False: no memory. */
static bool units_read(struct symbol_debug *debug)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    uint8_t type;
    /* Without the last argument, it opens no file of split debug information. */
    while (dwarf_get_units(debug->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0) {
        if (type == DW_UT_type || type == DW_UT_split_type || !spend(debug, 1)) continue;
        if (!array_reserve(&debug->units, &debug->room, debug->count + 1, sizeof *debug->units) ||
            !ranges_add(debug, NULL, &debug->ranges, &die, debug->count))
            return false;
        debug->units[debug->count].die = die;
        debug->units[debug->count++].is_split = type == DW_UT_skeleton;
    }
    code_ranges_sort(&debug->ranges);
    return true;
}

/* An ELF file in which libdw finds nothing. */
static Elf *empty_open(void)
{
    enum { NULL_SECTION, NAMES, INFO, SECTIONS };
    static struct {
        Elf64_Ehdr header;
        Elf64_Shdr sections[SECTIONS];
        char names[24], info[8];
    } file;
    const size_t names = (size_t)(file.names - (char *)&file),
                 info = (size_t)(file.info - (char *)&file);
    file.header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_version = EV_CURRENT,
        .e_shoff = sizeof file.header,
        .e_ehsize = sizeof file.header,
        .e_shentsize = sizeof *file.sections,
        .e_shnum = SECTIONS,
        .e_shstrndx = NAMES};
    memcpy(file.names, "\0.names\0.debug_info", 20);
    file.sections[NAMES] = (Elf64_Shdr){.sh_name = 1,
                                        .sh_type = SHT_STRTAB,
                                        .sh_offset = names,
                                        .sh_size = sizeof file.names,
                                        .sh_addralign = 1};
    file.sections[INFO] = (Elf64_Shdr){.sh_name = 8,
                                       .sh_type = SHT_PROGBITS,
                                       .sh_offset = info,
                                       .sh_size = sizeof file.info,
                                       .sh_addralign = 1};
    return elf_memory((char *)&file, sizeof file);
}

/* Gives libdw the file with what is shared, or an empty one, so that it does not look for one. */
static bool symbol_debug_share(struct symbol_debug *debug, Elf *shared)
{
    const char *name;
    const void *id;
    if (shared != NULL) debug->shared = dwarf_begin_elf(shared, DWARF_C_READ, NULL);
    if (debug->shared == NULL) {
        if (dwelf_dwarf_gnu_debugaltlink(debug->dwarf, &name, &id) > 0)
            debug->lacks |= SYMBOL_LACKS_SHARED;
        debug->empty = empty_open();
        debug->shared =
            debug->empty != NULL ? dwarf_begin_elf(debug->empty, DWARF_C_READ, NULL) : NULL;
    }
    if (debug->shared != NULL) dwarf_setalt(debug->dwarf, debug->shared);
    return debug->shared != NULL;
}

bool symbol_debug_open(struct symbol_debug *debug, const struct symbol_debug_file *file,
                       Elf *shared)
{
    const enum elf_packing packing = elf_section_packing(file->elf, file->bytes);
    *debug =
        (struct symbol_debug){.budget = BUDGET_LEAST + BUDGET_OF_BYTE * file->bytes, .file = *file};
    debug->file.path = strdup(file->path);
    if (debug->file.path == NULL) return false;
    if (packing != ELF_PACKING_GOOD) debug->lacks |= SYMBOL_LACKS_UNPACKED;
    /* .debug_sup: libdw takes references to the other file for references to this one. */
    if (elf_section_find(file->elf, ".debug_sup") != NULL) debug->lacks |= SYMBOL_LACKS_SHARED;
    if (packing == ELF_PACKING_LARGE || debug->lacks & SYMBOL_LACKS_SHARED) return true;
    debug->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
    return debug->dwarf == NULL || (symbol_debug_share(debug, shared) && units_read(debug));
}

void symbol_debug_close(struct symbol_debug *debug)
{
    for (size_t i = 0; i < debug->count; i++) {
        struct symbol_unit *unit = &debug->units[i];
        code_ranges_free(&unit->functions);
        split_unit_close(&unit->split);
        elf_end(unit->split_file);
    }
    free(debug->units);
    code_ranges_free(&debug->ranges);
    if (debug->dwarf != NULL) dwarf_end(debug->dwarf);
    if (debug->shared != NULL) dwarf_end(debug->shared);
    elf_end(debug->empty);
    elf_end(debug->package);
    free((char *)(uintptr_t)debug->file.path);
    *debug = (struct symbol_debug){.dwarf = NULL};
}
