#include "tracing/stacks/unwind_memory.h"

#include "common/arch.h"
#include "tracing/os/os.h"

#include <string.h>

#define PAGE_BYTES          4096u /* or a part of a page */
/* The first thread's stack has grown by more only if this is another one. */
#define GROWTH_MAX          ((uintptr_t)64 << 20)
/* Of a thread, above its thread pointer: struct pthread, or static variables of threads. */
#define ABOVE_THE_STACK_MAX ((uintptr_t)1 << 20)
/* Where in struct pthread glibc has the stack: 1680 bytes behind its beginning in glibc 2.36. */
#define THREAD_BYTES_SOUGHT UNWIND_COPY_BYTES

/* What glibc has there, in this order. The guard is at the lower end. */
struct glibc_stack {
    uintptr_t start;
    size_t bytes, guard_bytes;
};

/* Where the first thread's stack begins. Weak: made by glibc's dynamic linker. */
extern const void *__libc_stack_end __attribute__((weak));

static uintptr_t unwind_memory_page_of(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

/* In place of the copy that has not been used for longest. */
static void copy_in(const struct unwind_memory *memory, struct unwind_copies *copies,
                    uintptr_t from)
{
    uint32_t to = 0;
    if (copies->count < UNWIND_COPIES)
        to = copies->count++;
    else
        for (uint32_t i = 1; i < UNWIND_COPIES; i++)
            if (copies->copy[i].used < copies->copy[to].used) to = i;
    copies->copy[to] = (struct unwind_copy){
        .from = from,
        .bytes = (uint32_t)os_memory_copy(memory->thread_id, copies->bytes[to], (const void *)from,
                                          UNWIND_COPY_BYTES),
        .used = ++copies->uses};
}

/* NULL: none of the copies has it. */
static const uint8_t *copied_piece(struct unwind_copies *copies, uintptr_t from, size_t bytes)
{
    for (uint32_t i = 0; i < copies->count; i++) {
        struct unwind_copy *copy = &copies->copy[i];
        const uintptr_t at = from - copy->from;
        if (at >= copy->bytes || bytes > copy->bytes - at) continue;
        copy->used = ++copies->uses;
        return copies->bytes[i] + at;
    }
    return NULL;
}

static const uint8_t *piece_in(const struct unwind_memory *memory, struct unwind_copies *copies,
                               uintptr_t from, size_t bytes)
{
    const uint8_t *piece = copied_piece(copies, from, bytes);
    if (piece != NULL || bytes > UNWIND_COPY_BYTES) return piece;
    copy_in(memory, copies, from);
    return copied_piece(copies, from, bytes);
}

const uint8_t *unwind_memory_piece(struct unwind_memory *memory, uintptr_t from, size_t bytes)
{
    return piece_in(memory, &memory->copies, from, bytes);
}

const uint8_t *unwind_memory_piece_below(struct unwind_memory *memory, uintptr_t from, size_t bytes)
{
    const uint8_t *piece = copied_piece(&memory->copies, from, bytes);
    if (piece != NULL || bytes > UNWIND_COPY_BYTES) return piece;
    const uintptr_t below = from + bytes - UNWIND_COPY_BYTES, page = unwind_memory_page_of(from);
    copy_in(memory, &memory->copies, below > page ? below : page);
    return unwind_memory_piece(memory, from, bytes);
}

static bool copy_out(const uint8_t *piece, void *to, size_t bytes)
{
    if (piece != NULL) memcpy(to, piece, bytes);
    return piece != NULL;
}

bool unwind_memory_copy(struct unwind_memory *memory, uintptr_t from, void *to, size_t bytes)
{
    return copy_out(unwind_memory_piece(memory, from, bytes), to, bytes);
}

bool unwind_memory_copy_of_object(struct unwind_memory *memory, uintptr_t from, void *to,
                                  size_t bytes)
{
    return copy_out(piece_in(memory, &memory->of_objects, from, bytes), to, bytes);
}

bool unwind_memory_copy_word(struct unwind_memory *memory, uintptr_t address, uintptr_t *word)
{
    return address % 8 == 0 && unwind_memory_copy(memory, address, word, sizeof *word);
}

/* ---- the thread's own stack ---- */

static bool is_stack_of(const struct glibc_stack *stack, uintptr_t thread)
{
    return stack->start != 0 && stack->start < thread && thread - stack->start < stack->bytes &&
           stack->bytes - (thread - stack->start) < ABOVE_THE_STACK_MAX &&
           stack->guard_bytes % PAGE_BYTES == 0 && stack->guard_bytes < thread - stack->start;
}

/* It is found by its contents: nothing else there looks like it. */
static void seek_in_thread(struct unwind_memory *memory)
{
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    struct glibc_stack stack;
    const uintptr_t from = ARCH_STORAGE_IS_BELOW ? thread : thread - THREAD_BYTES_SOUGHT;
    for (size_t at = 0; at + sizeof stack <= THREAD_BYTES_SOUGHT; at += sizeof(uintptr_t)) {
        if (!unwind_memory_copy(memory, from + at, &stack, sizeof stack)) return;
        if (!is_stack_of(&stack, thread)) continue;
        memory->own_from = stack.start + stack.guard_bytes;
        memory->own_to = thread;
        return;
    }
}

static bool are_readable(uintptr_t page, uintptr_t end)
{
    while (page != end && os_memory_is_readable((const void *)page))
        page += PAGE_BYTES;
    return page == end;
}

/* It grows, so where it begins is only known as far as it has been used. Nothing else lies close to
 * it: the kernel leaves a gap. */
static void seek_first(struct unwind_memory *memory, uintptr_t end, uintptr_t sp)
{
    const uintptr_t page = unwind_memory_page_of(sp),
                    known = memory->own_to ? memory->own_from : unwind_memory_page_of(end);
    if (sp >= end || known - page > GROWTH_MAX || !are_readable(page, known)) return;
    memory->own_from = page;
    memory->own_to = end;
}

bool unwind_memory_is_stack(const struct unwind_memory *memory, uintptr_t address)
{
    const uintptr_t end_of_first = &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0,
                    from = memory->own_to == end_of_first ? memory->own_to - GROWTH_MAX
                                                          : memory->own_from;
    return address - from < memory->own_to - from;
}

uintptr_t unwind_memory_seek(struct unwind_memory *memory, uintptr_t sp)
{
    const uintptr_t end_of_first = &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;
    if (memory->thread_id == 0) {
        memory->thread_id = os_thread_id();
        seek_in_thread(memory);
    }
    if (memory->own_to == 0 || memory->own_to == end_of_first) seek_first(memory, end_of_first, sp);
    const bool is_own = sp - memory->own_from < memory->own_to - memory->own_from;
    return is_own ? memory->own_to : unwind_memory_page_of(sp) + PAGE_BYTES;
}
