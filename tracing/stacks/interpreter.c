/* interpreter - what is the same for all languages (interpreter.h). */
#include "tracing/stacks/interpreter_own.h"

#include "common/atomic.h"
#include "tracing/recording/recording.h"
#include "tracing/stacks/unwind_symbol.h"

struct interpreter_range interpreter_range;

static const struct interpreter_language *const interpreter_languages[] = {&interpreter_python,
                                                                           &interpreter_ruby};
#define INTERPRETER_LANGUAGES (sizeof interpreter_languages / sizeof *interpreter_languages)

enum interpreter_state { INTERPRETER_NONE, INTERPRETER_BEGINS, INTERPRETER_THERE };

/* Whoever takes it out of NONE fills it, and stores THERE (release). */
static struct {
    uint32_t state;  /* enum interpreter_state */
    uint32_t module; /* of the interpreter */
    const struct interpreter_language *language;
} interpreter;

void interpreter_begin(void)
{
    interpreter_range.start = interpreter_range.end = 0;
    interpreter_marks_begin(NULL);
    interpreter.state = INTERPRETER_NONE;
}

/* The language whose interpreter an object is; NULL: it is none that is known. */
static const struct interpreter_language *interpreter_of(struct unwind_memory *memory,
                                                         const struct unwind_object *object)
{
    for (uint32_t i = 0; i < INTERPRETER_LANGUAGES; i++)
        if (interpreter_languages[i]->is_it(memory, object)) return interpreter_languages[i];
    return NULL;
}

static const char *interpreter_look(struct unwind_memory *memory,
                                    const struct unwind_object *object, uint32_t module)
{
    uint32_t none = INTERPRETER_NONE;
    struct unwind_object whole = *object;
    if (!atomic_swap_once(&interpreter.state, &none, INTERPRETER_BEGINS)) return NULL;
    unwind_symbols_widen(memory, &whole);
    interpreter.language = interpreter_of(memory, &whole);
    if (interpreter.language == NULL) {
        atomic_store_release(&interpreter.state, INTERPRETER_NONE);
        return NULL;
    }
    const char *name = interpreter.language->name;
    interpreter.module = module;
    interpreter_marks_begin(interpreter.language);
    atomic_store_relaxed(&interpreter_range.start, object->start);
    atomic_store_release(&interpreter.state, INTERPRETER_THERE);
    atomic_store_release(&interpreter_range.end, object->end);
    return name;
}

static void interpreter_unloaded(uint32_t module)
{
    if (atomic_load_acquire(&interpreter.state) != INTERPRETER_THERE ||
        interpreter.module != module)
        return;
    atomic_store_relaxed(&interpreter_range.end, atomic_load_relaxed(&interpreter_range.start));
    atomic_store_release(&interpreter.state, INTERPRETER_NONE);
}

const struct stack_table_watcher interpreter_watcher = {.seen = interpreter_look,
                                                        .unloaded = interpreter_unloaded};

/* ---- a stack ---- */

void interpreter_frames(const struct malloctape_lane *lane, struct unwind_memory *memory,
                        const struct interpreter_native *native, struct interpreter_stack *stack)
{
    bool has_lock;
    stack->count = stack->runs = 0;
    stack->is_deeper = stack->is_cut = stack->is_placed = false;
    stack->key = 0;
    if (atomic_load_acquire(&interpreter.state) != INTERPRETER_THERE) return;
    const uint32_t trust = interpreter_trust();
    if (trust == INTERPRETER_REFUSED) return;
    struct interpreter_reader reader = {
        .memory = memory, .is_direct = trust == INTERPRETER_TRUSTED && native->has_loop};
    const uintptr_t state = interpreter.language->state(lane, &reader, &has_lock);
    if (!state) return;
    struct interpreter_walk walk = {
        .reader = {.memory = memory, .is_direct = has_lock && trust == INTERPRETER_TRUSTED},
        .stack = stack,
        .native = native,
    };
    const enum interpreter_step step = interpreter.language->runs(&walk, state);
    if (step == INTERPRETER_NOT_THERE) stack->key = stack->count = stack->runs = 0;
    stack->is_cut = step != INTERPRETER_ENDS_RUN && !stack->is_deeper;
    stack->is_placed = walk.is_placed && walk.reader.is_direct && step != INTERPRETER_NOT_THERE;
    stack->key = interpreter_mix(stack->key, (uint64_t)stack->is_cut << 1 | stack->is_deeper);
    if (trust == INTERPRETER_UNTRIED && has_lock) interpreter_try(stack, native);
    if (has_lock && walk.is_placed && walk.placed_at < native->count &&
        (walk.placed_at + 1 < native->count || !native->has_loop))
        interpreter_learn_rest(memory, stack, &native->frame[walk.placed_at]);
}

static bool interpreter_number(struct malloctape_lane *lane, struct interpreter_reader *reader,
                               const struct interpreter_function *function,
                               struct interpreter_memory *memory, uint32_t *number)
{
    /* Numbers are of a recording. */
    const uint64_t now = interpreter_mix(function->key, recording.number);
    struct interpreter_number *latest = &memory->numbers[now % INTERPRETER_NUMBERS];
    if (latest->key == now) {
        *number = latest->number;
        return true;
    }
    if (!stack_table_of_source(function->key, number) &&
        !interpreter.language->define(lane, reader, function, memory->text, number))
        return false;
    *latest = (struct interpreter_number){.key = now, .number = *number};
    return true;
}

bool interpreter_numbers(struct malloctape_lane *lane, struct unwind_memory *memory,
                         struct interpreter_stack *stack)
{
    struct interpreter_reader reader = {.memory = memory, .is_direct = stack->is_placed};
    for (uint32_t i = 0; i < stack->count; i++)
        if (!interpreter_number(lane, &reader, &stack->function[i], &stack->memory,
                                &stack->code[i]))
            return false;
    return true;
}
