#include "tracing/preload/redirect.h"

#include "common/arch.h"
#include "tracing/os/next_function.h"
#include "tracing/preload/entry_points.h"
#include "tracing/preload/linked.h"
#include "tracing/preload/next.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

struct function {
    const char *name;
    uintptr_t ours, theirs; /* `theirs` 0: nobody else has it */
};

#define FUNCTION(function, ...) {#function, 0, 0},
static struct function functions[] = {
    ENTRY_ALLOCATIONS(FUNCTION) ENTRY_FREES(FUNCTION) FUNCTION(realloc) FUNCTION(posix_memalign)
        FUNCTION(mallopt) FUNCTION(malloc_trim) FUNCTION(malloc_usable_size)
    /* The other functions that the recorder replaces where it is preloaded: they take away system
     * calls and rights, end the process or the program in it, or unload code. */
    FUNCTION(setuid) FUNCTION(seteuid) FUNCTION(setreuid) FUNCTION(setresuid) FUNCTION(setfsuid)
        FUNCTION(setgid) FUNCTION(setegid) FUNCTION(setregid) FUNCTION(setresgid) FUNCTION(setfsgid)
            FUNCTION(setgroups) FUNCTION(initgroups) FUNCTION(capset) FUNCTION(pivot_root)
                FUNCTION(prctl) FUNCTION(syscall) FUNCTION(chroot) FUNCTION(unshare)
                    FUNCTION(setrlimit) FUNCTION(setrlimit64) FUNCTION(prlimit) FUNCTION(prlimit64)
                        FUNCTION(execve) FUNCTION(execvpe) FUNCTION(fexecve) FUNCTION(execveat)
                            FUNCTION(execv) FUNCTION(execvp) FUNCTION(execl) FUNCTION(execlp)
                                FUNCTION(execle) FUNCTION(_exit) FUNCTION(_Exit) FUNCTION(dlclose)
    /* And those that change the address space. */
    FUNCTION(mmap) FUNCTION(mmap64) FUNCTION(munmap) FUNCTION(mremap) FUNCTION(madvise)
        FUNCTION(posix_madvise) FUNCTION(mprotect) FUNCTION(shmat) FUNCTION(shmdt) FUNCTION(brk)
            FUNCTION(sbrk)};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
_Static_assert(FUNCTIONS < UINT8_MAX, "a number of a function is a byte");

/* What is done to the slots of all libraries. */
struct redirection {
    bool back;
    int slots; /* that lead where they should */
    int error; /* an errno value, if some could not be written */
};

/* A library as it lies in memory. */
struct library {
    const struct link_map *map;
    const ElfW(Sym) * symbols;
    const char *names;
    uintptr_t start, end;         /* of its segments */
    uintptr_t sealed, sealed_end; /* pages that the linker has made read-only */
    bool is_open;                 /* these can be written now */
};

/* Functions by their first letters, because a process may have 100 000 names, and stands still
 * meanwhile: 1 + the index of the first one with these letters, and of the next one; 0: none. */
static uint8_t redirect_begins[256], continues[FUNCTIONS + 1];

static uint8_t letters_of(const char *name)
{
    if (!name[0] || !name[1]) return 0;
    return (uint8_t)(name[0] + 5 * name[1] + 11 * name[2]);
}

static void sort_functions(void)
{
    memset(redirect_begins, 0, sizeof redirect_begins);
    for (int i = 0; i < FUNCTIONS; i++) {
        uint8_t *first = &redirect_begins[letters_of(functions[i].name)];
        continues[i + 1] = *first;
        *first = (uint8_t)(i + 1);
    }
}

static const struct function *function_named(const char *name)
{
    for (unsigned at = redirect_begins[letters_of(name)]; at != 0; at = continues[at])
        if (strcmp(functions[at - 1].name, name) == 0) return &functions[at - 1];
    return NULL;
}

static void find_functions(void)
{
    sort_functions();
    const struct link_map *own = next_own_library();
    for (int i = 0; i < FUNCTIONS; i++) {
        functions[i].ours = (uintptr_t)linked_function_in(own, functions[i].name);
        functions[i].theirs = (uintptr_t)linked_function_of_others(own, functions[i].name, NULL);
        /* It may be another library's, which itself calls libc's. */
        if (functions[i].theirs) next_functions_lead(functions[i].name, functions[i].theirs);
    }
}

static bool redirect_open_page(struct library *library, const void *slot)
{
    const uintptr_t at = (uintptr_t)slot;
    if (library->is_open || at < library->sealed || at >= library->sealed_end) return true;
    library->is_open = mprotect((void *)library->sealed, library->sealed_end - library->sealed,
                                PROT_READ | PROT_WRITE) == 0;
    return library->is_open;
}

/* The linker fills a slot at the first call: until then it leads into the library itself. */
static bool is_not_filled(const struct library *library, uintptr_t value)
{
    return value >= library->start && value < library->end;
}

/* One relocation. */
static void visit(struct library *library, const ElfW(Rela) * entry, struct redirection *todo)
{
    const unsigned type = ELF64_R_TYPE(entry->r_info);
    if (type != ARCH_RELOCATION_CALL && type != ARCH_RELOCATION_GLOBAL &&
        type != ARCH_RELOCATION_WORD)
        return;
    const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(entry->r_info)];
    const struct function *function = function_named(library->names + symbol->st_name);
    if (function == NULL || !function->ours || !function->theirs || entry->r_addend != 0) return;
    uintptr_t *slot = (uintptr_t *)(library->map->l_addr + entry->r_offset);
    const uintptr_t value = __atomic_load_n(slot, __ATOMIC_RELAXED);
    const uintptr_t wanted = todo->back ? function->theirs : function->ours;
    const bool is_other = todo->back
                              ? value == function->ours
                              : value == function->theirs || (type == ARCH_RELOCATION_CALL &&
                                                              symbol->st_shndx == SHN_UNDEF &&
                                                              is_not_filled(library, value));
    if (is_other && !redirect_open_page(library, slot))
        todo->error = errno;
    else if (is_other)
        __atomic_store_n(slot, wanted, __ATOMIC_RELEASE);
    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == wanted && (is_other || !todo->back))
        todo->slots++;
}

static void visit_all(struct library *library, const void *table, size_t bytes,
                      struct redirection *todo)
{
    const ElfW(Rela) *entries = table;
    for (size_t i = 0; entries != NULL && i < bytes / sizeof *entries; i++)
        visit(library, &entries[i], todo);
}

/* Sets where its segments are. False: not known. */
static bool segments_find(struct library *library)
{
    const uintptr_t page = getauxval(AT_PAGESZ);
    size_t count;
    const ElfW(Phdr) *segments = linked_segments(library->map, &count);
    for (size_t i = 0; segments != NULL && i < count; i++) {
        const ElfW(Phdr) *segment = &segments[i];
        const uintptr_t start = library->map->l_addr + segment->p_vaddr;
        const uintptr_t end = start + segment->p_memsz;
        if (segment->p_type == PT_LOAD && start < library->start) library->start = start;
        if (segment->p_type == PT_LOAD && end > library->end) library->end = end;
        if (segment->p_type != PT_GNU_RELRO) continue;
        library->sealed = start & -page;
        library->sealed_end = end & -page;
    }
    return segments != NULL;
}

static void visit_library(const struct link_map *map, struct redirection *todo)
{
    struct library library = {.map = map, .start = UINTPTR_MAX};
    if (map == next_own_library() || !segments_find(&library)) return;
    const void *relocations = linked_table(map, DT_RELA), *jumps = linked_table(map, DT_JMPREL);
    library.symbols = linked_table(map, DT_SYMTAB);
    library.names = linked_table(map, DT_STRTAB);
    if (library.symbols == NULL || library.names == NULL) return;
    visit_all(&library, relocations, linked_number(map, DT_RELASZ), todo);
    visit_all(&library, jumps, linked_number(map, DT_PLTRELSZ), todo);
    if (library.is_open)
        mprotect((void *)library.sealed, library.sealed_end - library.sealed, PROT_READ);
}

static int redirect(bool back)
{
    struct redirection todo = {.back = back};
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next)
        visit_library(map, &todo);
    return todo.error ? -todo.error : todo.slots;
}

int redirect_here(void)
{
    find_functions();
    return redirect(false);
}

int redirect_back(void)
{
    return redirect(true);
}
