#include "tracing/stacks/unwind_thread.h"

#include "common/arch.h"

#include <elf.h>

/* More relocations are none. */
#define UNWIND_RELOCATIONS_MAX (1u << 20)

/* Whether a symbol is the variable at this offset. */
static bool unwind_thread_is(struct unwind_memory *memory, const struct unwind_object *object,
                             const struct unwind_symbols *symbols, uint64_t i, uintptr_t offset)
{
    Elf64_Sym symbol;
    return unwind_read(memory, object, symbols->symbols + i * sizeof symbol, &symbol,
                       sizeof symbol) &&
           symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_TLS &&
           symbol.st_value == offset;
}

bool unwind_thread_variable(struct unwind_memory *memory, const struct unwind_object *object,
                            const struct unwind_symbols *symbols, const char *name,
                            struct unwind_thread_variable *variable)
{
    Elf64_Rela entry;
    const uintptr_t address =
        unwind_symbol(memory, object, symbols, name, UNWIND_SYMBOL_OF_THREAD, NULL);
    if (!address || !symbols->relocations) return false;
    variable->offset = address - object->bias;
    /* The linker sorts them: those that need no symbol come first. */
    for (uintptr_t i = symbols->relative;
         i < symbols->relocations_bytes / sizeof entry && i < UNWIND_RELOCATIONS_MAX; i++) {
        if (!unwind_read(memory, object, symbols->relocations + i * sizeof entry, &entry,
                         sizeof entry))
            return false;
        if (ELF64_R_TYPE(entry.r_info) == ARCH_RELOCATION_MODULE &&
            unwind_thread_is(memory, object, symbols, ELF64_R_SYM(entry.r_info), variable->offset))
            return unwind_read(memory, object, object->bias + entry.r_offset, &variable->module,
                               sizeof variable->module) &&
                   variable->module != 0;
    }
    return false;
}

/* What the thread has of each module: where it is, and what is to be freed of it; before, how many
 * these are. */
bool unwind_thread_word(struct unwind_memory *memory, const struct unwind_thread_variable *variable,
                        uintptr_t *word)
{
    const uintptr_t *modules = (const uintptr_t *)arch_thread_modules();
    if (modules == NULL || variable->module > modules[-2]) return false;
    const uintptr_t at = modules[2 * variable->module];
    if (at == 0 || at == UINTPTR_MAX) return false;
    /* It stays as long as the thread, or may still be of a module that was unloaded. */
    if (modules[2 * variable->module + 1] != 0)
        return unwind_memory_word(memory, at + variable->offset, word);
    *word = *(const uintptr_t *)(at + variable->offset);
    return true;
}
