/* interpreter_own - what the files of interpreters share (interpreter.h).
 *
 *   interpreter.c          which language it is
 *   interpreter_marks.c    whether what is read is in its place
 *   interpreter_NAME.c     a language: how its interpreter is found, and the frames of a thread
 *   NAME_code.c            its functions: what is read of them, and their definitions */
#ifndef MALLOCTAPE_INTERPRETER_OWN_H
#define MALLOCTAPE_INTERPRETER_OWN_H

#include "tracing/stacks/interpreter.h"

struct interpreter_reader {
    struct unwind_memory *memory;
    bool is_direct; /* memory is read as it is */
};

/* At most UNWIND_COPY_BYTES. False: it cannot be read. */
static inline bool interpreter_read(struct interpreter_reader *reader, uintptr_t from, void *to,
                                    size_t bytes)
{
    if (!reader->is_direct) return unwind_memory_copy(reader->memory, from, to, bytes);
    if (from < UNWIND_COPY_BYTES) return false;
    __builtin_memcpy(to, (const void *)from, bytes);
    return true;
}

static inline bool interpreter_word(struct interpreter_reader *reader, uintptr_t from,
                                    uintptr_t *word)
{
    if (!reader->is_direct) return unwind_memory_word(reader->memory, from, word);
    return from % sizeof *word == 0 && interpreter_read(reader, from, word, sizeof *word);
}

/* Bytes anywhere, without another copy. NULL: they cannot be read. */
static inline const uint8_t *interpreter_piece(struct interpreter_reader *reader, uintptr_t from,
                                               size_t bytes)
{
    if (!reader->is_direct) return unwind_memory_piece(reader->memory, from, bytes);
    return from < UNWIND_COPY_BYTES ? NULL : (const uint8_t *)from;
}

static inline uint64_t interpreter_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

/* Whether an object may be at this address. */
static inline bool interpreter_is_object(uintptr_t address)
{
    return address >= UNWIND_COPY_BYTES && address % sizeof(uintptr_t) == 0;
}

/* Reads as it is. */
static inline uintptr_t interpreter_at(uintptr_t object, uint32_t offset)
{
    uintptr_t word;
    __builtin_memcpy(&word, (const void *)(object + offset), sizeof word);
    return word;
}

static inline uint32_t interpreter_half_at(uintptr_t object, uint32_t offset)
{
    uint32_t half;
    __builtin_memcpy(&half, (const void *)(object + offset), sizeof half);
    return half;
}

/* Where a walk is. */
struct interpreter_walk {
    struct interpreter_reader reader;
    struct interpreter_stack *stack;
    const struct interpreter_native *native;
    bool is_placed;     /* the mark of the innermost run has been looked at, */
    uint32_t placed_at; /* and is where this native frame would have it */
};

enum interpreter_step {
    INTERPRETER_ON,
    INTERPRETER_ENDS_RUN,
    INTERPRETER_CUT,
    INTERPRETER_NOT_THERE
};

/* One of these is used by a process. */
struct interpreter_language {
    const char *name, *title; /* as in the stream, and to be read */
    /* What a thread with the lock refers to stays even if its marks are not in their places. */
    bool stays;
    /* Whether an object is the interpreter, of a version that is known. Only one thread asks. */
    bool (*is_it)(struct unwind_memory *memory, const struct unwind_object *object);
    /* The state of the calling thread; 0: it has none. `*has_lock`: nobody else runs in the
     * interpreter now, and what the thread's frames need stays. The reader is direct if the layout
     * is right and the interpreter's loop is in the stack. */
    uintptr_t (*state)(const struct malloctape_lane *lane, struct interpreter_reader *reader,
                       bool *has_lock);
    /* All functions of a state, in runs. */
    enum interpreter_step (*runs)(struct interpreter_walk *walk, uintptr_t state);
    /* Defines a function that has no number yet. `text` has room for INTERPRETER_TEXT_MAX. */
    bool (*define)(struct malloctape_lane *lane, struct interpreter_reader *reader,
                   const struct interpreter_function *function, uint8_t *text, uint32_t *number);
};

extern const struct interpreter_language interpreter_python, interpreter_ruby;

/* Whether what is read has been found in its place. */
enum interpreter_trust { INTERPRETER_UNTRIED, INTERPRETER_TRUSTED, INTERPRETER_REFUSED };

/* Nothing is known of an interpreter of this language. NULL: there is none yet. */
void interpreter_marks_begin(const struct interpreter_language *language);

enum interpreter_trust interpreter_trust(void);

/* A stack was read by copies, with the lock. */
void interpreter_try(const struct interpreter_stack *stack,
                     const struct interpreter_native *native);

/* A frame of what is not known as the loop has the mark, as far below its end as the loop's have
 * it: it is a part of the loop that the compiler has moved elsewhere. */
void interpreter_learn_rest(struct unwind_memory *memory, const struct interpreter_stack *stack,
                            const struct interpreter_native_frame *frame);

/* The mark of the innermost run, before what is there is read. False: it is not in its place. */
bool interpreter_place(struct interpreter_walk *walk, uintptr_t mark);

/* The mark that the innermost native frame of the loop has, of a language whose mark is in its
 * place in each such frame. Another mark was not in its place; from now on copies are read. */
uintptr_t interpreter_mark_in_loop(struct interpreter_walk *walk);

/* Adds a function to the run, of which this hash is recorded. The stack's count and key may be
 * elsewhere meanwhile. */
static inline enum interpreter_step interpreter_add_to(struct interpreter_stack *stack,
                                                       uint32_t *count, uint64_t *key,
                                                       uintptr_t code, int64_t at, uint64_t its_key)
{
    if (*count == INTERPRETER_DEPTH_MAX) {
        stack->is_deeper = true;
        return INTERPRETER_CUT;
    }
    stack->function[(*count)++] =
        (struct interpreter_function){.code = code, .at = at, .key = its_key};
    *key = interpreter_mix(*key, its_key);
    return INTERPRETER_ON;
}

static inline enum interpreter_step interpreter_add(struct interpreter_stack *stack, uintptr_t code,
                                                    int64_t at, uint64_t key)
{
    return interpreter_add_to(stack, &stack->count, &stack->key, code, at, key);
}

/* Whether there may be another run. */
static inline bool interpreter_has_room(struct interpreter_stack *stack)
{
    if (stack->runs < INTERPRETER_RUNS_MAX) return true;
    stack->is_deeper = true;
    return false;
}

static inline void interpreter_end_run(struct interpreter_stack *stack, uintptr_t mark)
{
    if (stack->count == (stack->runs ? stack->run[stack->runs - 1].end : 0)) return;
    stack->run[stack->runs++] = (struct interpreter_run){.mark = mark, .end = stack->count};
    stack->key = interpreter_mix(stack->key, mark);
}

#endif
