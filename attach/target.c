#include "attach/target.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/output_name.h"

/* ---- mappings ---- */

/* TARGET_NONE: no memory. */
static size_t target_module_put(struct target *target, const char *path)
{
    for (size_t i = target->modules_count; i > 0; i--)
        if (strcmp(target->modules[i - 1].path, path) == 0) return i - 1;
    struct target_module *more =
        realloc(target->modules, (target->modules_count + 1) * sizeof *more);
    if (more == NULL) return TARGET_NONE;
    target->modules = more;
    struct target_module *module = &more[target->modules_count];
    *module = (struct target_module){.file = -1, .base = UINT64_MAX};
    snprintf(module->path, sizeof module->path, "%s", path);
    return target->modules_count++;
}

/* False: no memory. */
static bool target_mapping_put(struct target *target, const struct target_mapping *mapping,
                               const char *path)
{
    struct target_mapping *more =
        realloc(target->mappings, (target->mappings_count + 1) * sizeof *more);
    if (more == NULL) return false;
    target->mappings = more;
    more[target->mappings_count] = *mapping;
    more[target->mappings_count].module = target_module_put(target, path);
    return more[target->mappings_count++].module != TARGET_NONE;
}

/* Takes one line: START-END RIGHTS OFFSET DEVICE INODE PATH. */
static bool line_take(struct target *target, char *line)
{
    struct target_mapping mapping;
    char rights[8];
    int path = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &mapping.start,
               &mapping.end, rights, &mapping.offset, &path) < 4 ||
        path == 0)
        return true;
    if (strcmp(line + path, "[vdso]") == 0) {
        target->kernel_code_start = mapping.start;
        target->kernel_code_end = mapping.end;
    }
    if (line[path] != '/') return true;
    mapping.is_executable = rights[2] == 'x';
    mapping.is_private = rights[3] == 'p';
    return target_mapping_put(target, &mapping, line + path);
}

bool target_open(struct target *target, pid_t process, const char *original)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool good = true;
    *target = (struct target){.process = process, .original = original};
    elf_version(EV_CURRENT);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (good && getline(&line, &room, file) > 0)
        good = line_take(target, line);
    const bool is_empty = good && target->mappings_count == 0;
    free(line);
    fclose(file);
    if (good && !is_empty) return true;
    target_close(target);
    errno = is_empty ? ESRCH : ENOMEM;
    return false;
}

void target_close(struct target *target)
{
    for (size_t i = 0; i < target->modules_count; i++) {
        if (target->modules[i].elf != NULL) elf_end(target->modules[i].elf);
        if (target->modules[i].file >= 0) close(target->modules[i].file);
    }
    free(target->modules);
    free(target->mappings);
    *target = (struct target){0};
}

size_t target_module_at(const struct target *target, uint64_t address)
{
    for (size_t i = 0; i < target->mappings_count; i++) {
        const struct target_mapping *mapping = &target->mappings[i];
        if (mapping->is_executable && address >= mapping->start && address < mapping->end)
            return mapping->module;
    }
    return TARGET_NONE;
}

size_t target_module_named(const struct target *target, const char *name)
{
    for (size_t i = 0; i < target->modules_count; i++)
        if (strncmp(output_name_last(target->modules[i].path), name, strlen(name)) == 0) return i;
    return TARGET_NONE;
}

/* ---- symbols ---- */

/* Opens the file that the process has mapped: its root may differ, and the file may have been
 * replaced. */
static int target_module_open(const struct target *target, const struct target_mapping *mapping)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)target->process,
             mapping->start, mapping->end);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) return file;
    if (target->original != NULL &&
        strstr(target->modules[mapping->module].path, ":" TARGET_COPY) != NULL)
        return open(target->original, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)target->process,
             target->modules[mapping->module].path);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static void symbols_find(struct target_module *module)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(module->elf, section)) != NULL) {
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_DYNSYM ||
            header.sh_entsize == 0)
            continue;
        module->symbols = elf_getdata(section, NULL);
        module->symbols_count = header.sh_size / header.sh_entsize;
        module->strings_section = header.sh_link;
        return;
    }
}

/* Finds the base from the segment that is mapped by `mapping`. */
static void base_find(struct target_module *module, const struct target_mapping *mapping)
{
    size_t count = 0;
    GElf_Phdr segment;
    elf_getphdrnum(module->elf, &count);
    for (size_t i = 0; i < count && module->base == UINT64_MAX; i++)
        if (gelf_getphdr(module->elf, (int)i, &segment) != NULL && segment.p_type == PT_LOAD &&
            (segment.p_flags & PF_X) != 0 &&
            mapping->offset + (mapping->end - mapping->start) > segment.p_offset &&
            mapping->offset < segment.p_offset + segment.p_filesz)
            module->base = mapping->start - mapping->offset + segment.p_offset - segment.p_vaddr;
}

static bool module_read(struct target *target, size_t number)
{
    struct target_module *module = &target->modules[number];
    if (module->elf != NULL) return module->symbols != NULL && module->base != UINT64_MAX;
    for (size_t i = 0; i < target->mappings_count; i++) {
        const struct target_mapping *mapping = &target->mappings[i];
        if (mapping->module != number || !mapping->is_executable) continue;
        if (module->file < 0) module->file = target_module_open(target, mapping);
        if (module->file < 0) return false;
        if (module->elf == NULL) module->elf = elf_begin(module->file, ELF_C_READ_MMAP, NULL);
        if (module->elf == NULL) return false;
        base_find(module, mapping);
    }
    if (module->elf != NULL) symbols_find(module);
    return module->symbols != NULL && module->base != UINT64_MAX;
}

static bool symbol_get(const struct target_module *module, size_t index, GElf_Sym *symbol)
{
    return gelf_getsym(module->symbols, (int)index, symbol) != NULL &&
           symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0;
}

static bool function_get(const struct target_module *module, size_t index, GElf_Sym *symbol)
{
    return symbol_get(module, index, symbol) && (GELF_ST_TYPE(symbol->st_info) == STT_FUNC ||
                                                 GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC);
}

static const char *target_name_of(const struct target_module *module, const GElf_Sym *symbol)
{
    const char *name = elf_strptr(module->elf, module->strings_section, symbol->st_name);
    return name != NULL ? name : "";
}

/* The address of the first exported symbol of this type and name; 0: there is none. */
static uint64_t symbol_find(struct target *target, size_t module, unsigned type, const char *name,
                            GElf_Sym *symbol)
{
    if (module == TARGET_NONE || !module_read(target, module)) return 0;
    const struct target_module *of = &target->modules[module];
    for (size_t i = 1; i < of->symbols_count; i++)
        if (symbol_get(of, i, symbol) && GELF_ST_TYPE(symbol->st_info) == type &&
            strcmp(target_name_of(of, symbol), name) == 0)
            return of->base + symbol->st_value;
    return 0;
}

uint64_t target_function(struct target *target, size_t module, const char *name)
{
    GElf_Sym symbol;
    return symbol_find(target, module, STT_FUNC, name, &symbol);
}

/* Where in the file the bytes at this address are, of the file's own addresses; -1: not there. */
static off_t offset_of(const struct target_module *module, uint64_t address, size_t bytes)
{
    size_t count = 0;
    GElf_Phdr segment;
    elf_getphdrnum(module->elf, &count);
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(module->elf, (int)i, &segment) != NULL && segment.p_type == PT_LOAD &&
            address >= segment.p_vaddr && address + bytes <= segment.p_vaddr + segment.p_filesz)
            return (off_t)(address - segment.p_vaddr + segment.p_offset);
    return -1;
}

uint64_t target_variable(struct target *target, size_t module, const char *name, void *initial,
                         size_t *bytes)
{
    GElf_Sym symbol;
    const uint64_t address = symbol_find(target, module, STT_OBJECT, name, &symbol);
    if (address == 0) return 0;
    const struct target_module *of = &target->modules[module];
    if (symbol.st_size < *bytes) *bytes = symbol.st_size;
    const off_t offset = offset_of(of, symbol.st_value, *bytes);
    if (offset < 0 || pread(of->file, initial, *bytes, offset) != (ssize_t)*bytes) return 0;
    return address;
}

uint64_t target_function_bytes(struct target *target, size_t module, uint64_t address)
{
    GElf_Sym symbol;
    if (module == TARGET_NONE || !module_read(target, module)) return 0;
    const struct target_module *of = &target->modules[module];
    for (size_t i = 1; i < of->symbols_count; i++)
        if (function_get(of, i, &symbol) && of->base + symbol.st_value == address)
            return symbol.st_size;
    return 0;
}

/* ---- its memory ---- */

size_t target_read(const struct target *target, uint64_t address, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
    const ssize_t got = process_vm_readv(target->process, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

enum { SPARE_ALIGNMENT = 64 };

/* Whether these addresses are of a private mapping of the module. */
static bool is_mapped(const struct target *target, size_t module, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < target->mappings_count; i++) {
        const struct target_mapping *mapping = &target->mappings[i];
        if (mapping->module == module && mapping->is_private && mapping->start <= start &&
            end <= mapping->end)
            return true;
    }
    return false;
}

/* Whether a segment of the module begins in the page of which this is the end. */
static bool begins_before(const struct target_module *module, size_t count, uint64_t address,
                          uint64_t page_end)
{
    GElf_Phdr segment;
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(module->elf, (int)i, &segment) != NULL && segment.p_type == PT_LOAD &&
            module->base + segment.p_vaddr >= address && module->base + segment.p_vaddr < page_end)
            return true;
    return false;
}

/* `is_sealed`: only in segments that cannot be written. */
static uint64_t spare_in(const struct target *target, size_t number, size_t bytes, bool is_sealed)
{
    const struct target_module *module = &target->modules[number];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    size_t count = 0;
    GElf_Phdr segment;
    elf_getphdrnum(module->elf, &count);
    for (size_t i = 0; i < count; i++) {
        if (gelf_getphdr(module->elf, (int)i, &segment) == NULL || segment.p_type != PT_LOAD ||
            (is_sealed && (segment.p_flags & PF_W) != 0))
            continue;
        const uint64_t end = module->base + segment.p_vaddr + segment.p_memsz;
        const uint64_t page_end = (end + page - 1) & -page;
        const uint64_t start = (end + SPARE_ALIGNMENT - 1) & -(uint64_t)SPARE_ALIGNMENT;
        if (start + bytes <= page_end && is_mapped(target, number, start, page_end) &&
            !begins_before(module, count, end, page_end))
            return start;
    }
    return 0;
}

/* The index of the program; TARGET_NONE: unknown. */
static size_t program_find(const struct target *target)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)target->process);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (size_t i = 0; i < target->modules_count; i++)
        if (strcmp(target->modules[i].path, path) == 0) return i;
    return TARGET_NONE;
}

/* The name of the library that this entry of a dynamic section needs; NULL: none. */
static const char *needed_name(const struct target_module *module, const GElf_Dyn *entry)
{
    if (entry->d_tag != DT_NEEDED) return NULL;
    return elf_strptr(module->elf, module->strings_section, entry->d_un.d_val);
}

/* Whether the program was started with this library: then it stays. (An address of another one may
 * be something else's by now.) */
static bool is_needed(struct target *target, size_t program, size_t number)
{
    const char *file = output_name_last(target->modules[number].path), *name;
    const struct target_module *module = &target->modules[program];
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Dyn entry;
    while ((section = elf_nextscn(module->elf, section)) != NULL) {
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_DYNAMIC) continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (int i = 0; gelf_getdyn(data, i, &entry) != NULL && entry.d_tag != DT_NULL; i++)
            if ((name = needed_name(module, &entry)) != NULL &&
                strncmp(file, name, strlen(name)) == 0)
                return true;
    }
    return false;
}

uint64_t target_spare(struct target *target, size_t bytes)
{
    const size_t program = program_find(target), libc = target_module_named(target, "libc.so.6");
    uint64_t found = 0;
    const bool is_known = program != TARGET_NONE && module_read(target, program);
    for (size_t i = 0; i < target->modules_count && found == 0; i++) {
        const bool is_linker = strncmp(output_name_last(target->modules[i].path), "ld-", 3) == 0;
        const bool stays =
            i == libc || is_linker || (is_known && (i == program || is_needed(target, program, i)));
        /* The dynamic linker allocates behind its own data. */
        if (stays && module_read(target, i)) found = spare_in(target, i, bytes, is_linker);
    }
    return found;
}

/* ---- its status ---- */

bool target_status(pid_t process, const char *name, char *value, size_t bytes)
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const size_t length = strlen(name);
        if (strncmp(line, name, length) != 0 || line[length] != ':') continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(value, bytes, "%s", line + length + 1 + strspn(line + length + 1, "\t "));
        found = true;
    }
    fclose(file);
    return found;
}
