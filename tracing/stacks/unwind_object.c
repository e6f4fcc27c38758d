#include "tracing/stacks/unwind_own.h"

#include "tracing/os/os.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

/* Weak, because an older C library does not have it. */
extern int _dl_find_object(void *address, struct dl_find_object *result) __attribute__((weak));

bool unwind_can_find(void)
{
    return _dl_find_object != NULL;
}

bool unwind_is_program(const void *id)
{
    struct dl_find_object found;
    return _dl_find_object((void *)getauxval(AT_ENTRY), &found) == 0 && found.dlfo_link_map == id;
}

/* The program's segment that has this address of its file; NULL: there is none. */
static const Elf64_Phdr *segment_of_program(uintptr_t address)
{
    const Elf64_Phdr *segment = (const Elf64_Phdr *)getauxval(AT_PHDR);
    for (uint64_t i = segment != NULL ? getauxval(AT_PHNUM) : 0; i > 0; i--, segment++)
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz)
            return segment;
    return NULL;
}

/* For a program with holes between its segments, such as node, the C library reports only where the
 * code is. The program headers tell where all of it is; that must include the table. */
static void widen(struct unwind_object *object)
{
    const uintptr_t table = object->table, headers = getauxval(AT_PHDR);
    const Elf64_Phdr *segment = (const Elf64_Phdr *)headers;
    if (!table || !headers || !unwind_is_program(object->id)) return;
    const uintptr_t bias = ((const struct link_map *)object->id)->l_addr;
    uintptr_t start = headers & ~(UNWIND_PAGE_BYTES - 1), end = object->end;
    for (uint64_t i = getauxval(AT_PHNUM); i > 0; i--, segment++)
        if (segment->p_type == PT_LOAD && bias + segment->p_vaddr + segment->p_memsz > end)
            end = bias + segment->p_vaddr + segment->p_memsz;
    if (start > object->start || table < start || table >= end) return;
    object->start = start;
    object->end = end;
}

bool unwind_find(uintptr_t address, struct unwind_object *object)
{
    struct dl_find_object found;
    if (_dl_find_object == NULL || _dl_find_object((void *)address, &found) != 0) return false;
    *object = (struct unwind_object){.start = (uintptr_t)found.dlfo_map_start,
                                     .end = (uintptr_t)found.dlfo_map_end,
                                     .id = found.dlfo_link_map,
                                     .table = (uintptr_t)found.dlfo_eh_frame};
    if (object->table < object->start || object->table >= object->end) widen(object);
    return true;
}

/* A thread that cannot have memory copied has to read what the linker says is there. */
bool unwind_read_text(struct unwind_memory *memory, uintptr_t from, void *to, size_t bytes)
{
    if (os_memory_can_be_copied()) return unwind_memory_copy(memory, from, to, bytes);
    memcpy(to, (const void *)from, bytes);
    return true;
}

bool unwind_read(struct unwind_memory *memory, const struct unwind_object *object, uintptr_t from,
                 void *to, size_t bytes)
{
    if (from >= object->stays_from && from < object->stays_to && bytes <= object->stays_to - from) {
        memcpy(to, (const void *)from, bytes);
        return true;
    }
    if (from < object->start || from >= object->end || bytes > object->end - from) return false;
    return os_memory_can_be_copied() ? unwind_memory_copy_of_object(memory, from, to, bytes)
                                     : unwind_read_text(memory, from, to, bytes);
}

/* Nobody unloads the program. Its file cannot become shorter while it runs, but may always have been
 * too short for the segment. */
void unwind_learn_program(struct unwind_object *object)
{
    const struct link_map *map = object->id;
    const Elf64_Phdr *segment = segment_of_program(object->table - map->l_addr);
    object->bias = map->l_addr;
    object->path = 0;
    if (segment == NULL || !(segment->p_flags & PF_R)) return;
    const uintptr_t start = object->bias + segment->p_vaddr, end = start + segment->p_filesz;
    if (!os_memory_is_readable((const void *)((end - 1) & ~(uintptr_t)7))) return;
    object->stays_from = start;
    object->stays_to = end;
}
