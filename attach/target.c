#include "attach/target.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/output_name.h"

/* ---- mappings ---- */

/* TARGET_NONE: no memory. */
static size_t module_put(struct target *target, const char *path)
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
static bool mapping_put(struct target *target, const struct target_mapping *mapping,
                        const char *path)
{
    struct target_mapping *more =
        realloc(target->mappings, (target->mappings_count + 1) * sizeof *more);
    if (more == NULL) return false;
    target->mappings = more;
    more[target->mappings_count] = *mapping;
    more[target->mappings_count].module = module_put(target, path);
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
    return mapping_put(target, &mapping, line + path);
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
static int module_open(const struct target *target, const struct target_mapping *mapping)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)target->process,
             mapping->start, mapping->end);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) return file;
    if (target->original != NULL && strstr(target->modules[mapping->module].path, ":" TARGET_COPY))
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
        if (module->file < 0) module->file = module_open(target, mapping);
        if (module->file < 0) return false;
        if (module->elf == NULL) module->elf = elf_begin(module->file, ELF_C_READ_MMAP, NULL);
        if (module->elf == NULL) return false;
        base_find(module, mapping);
    }
    if (module->elf != NULL) symbols_find(module);
    return module->symbols != NULL && module->base != UINT64_MAX;
}

static bool function_get(const struct target_module *module, size_t index, GElf_Sym *symbol)
{
    return gelf_getsym(module->symbols, (int)index, symbol) != NULL &&
           symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           (GELF_ST_TYPE(symbol->st_info) == STT_FUNC ||
            GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC);
}

static const char *name_of(const struct target_module *module, const GElf_Sym *symbol)
{
    const char *name = elf_strptr(module->elf, module->strings_section, symbol->st_name);
    return name != NULL ? name : "";
}

uint64_t target_function(struct target *target, size_t module, const char *name)
{
    GElf_Sym symbol;
    if (module == TARGET_NONE || !module_read(target, module)) return 0;
    const struct target_module *of = &target->modules[module];
    for (size_t i = 1; i < of->symbols_count; i++)
        if (function_get(of, i, &symbol) && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
            strcmp(name_of(of, &symbol), name) == 0)
            return of->base + symbol.st_value;
    return 0;
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
