#include "change/change_growth.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/pages.h"
#include "launch/process.h"

/* An object that is alive; `first`, `most` and `change` are those of the one that it continues. */
struct growing {
    uint64_t made, first, size, most;
    uint32_t change, stack;
    uint32_t lane;
    bool has_grown;
    bool is_resized; /* not just made: it is no copy */
    bool is_taken;   /* by a change that stands before and does not reserve */
};

struct growth_state {
    struct change_growth *growth;
    struct change_match *match;
    struct growing *objects; /* by register */
    uint64_t capacity;
    uint32_t *latest; /* by lane: the object that its latest call made; or NO_REGISTER */
    uint64_t made, calls;
    uint32_t lane;
    bool good;
};

#define GROWTH_LANES_BYTES (INSTRUCTION_LANES_MAX * sizeof(uint32_t))

static void growth_add(struct growth_state *state, const struct change_grown *grown)
{
    struct change_growth *growth = state->growth;
    state->good = state->good &&
                  array_reserve(&growth->at, &growth->room, growth->count + 1, sizeof *growth->at);
    if (state->good) growth->at[growth->count++] = *grown;
}

/* The change, if it is one that reserves. */
static uint32_t growth_reserving(const struct growth_state *state, uint32_t change)
{
    if (change == CHANGE_NONE) return change;
    return state->match->list->at[change].action == CHANGE_RESERVE ? change : CHANGE_NONE;
}

static void growth_begin(struct growth_state *state, uint32_t object, uint64_t size, uint32_t stack)
{
    const uint64_t made = state->made++;
    const uint32_t change = change_match_of(state->match, stack, size),
                   reserving = growth_reserving(state, change);
    state->objects[object] = (struct growing){.made = made,
                                              .first = made,
                                              .size = size,
                                              .most = size,
                                              .change = reserving,
                                              .stack = stack,
                                              .lane = state->lane,
                                              .is_taken = reserving != change};
    state->latest[state->lane] = object;
}

static void growth_resize(struct growth_state *state, uint32_t object, uint64_t size,
                          uint32_t stack)
{
    struct growing *growing = &state->objects[object];
    if (growing->change == CHANGE_NONE && !growing->is_taken)
        growing->change =
            growth_reserving(state, change_match_of(state->match, stack, growing->size));
    growing->has_grown = growing->has_grown || size > growing->size;
    growing->is_resized = true;
    growing->size = size;
    if (size > growing->most) growing->most = size;
    state->latest[state->lane] = INSTRUCTION_NO_REGISTER;
}

/* The object is not needed any more: its last size is known. */
static void growth_end(struct growth_state *state, const struct growing *growing)
{
    const struct change_grown grown = {.made = growing->first,
                                       .size = growing->size,
                                       .change = growing->change,
                                       .has_shrunk = growing->size < growing->most};
    if (growing->has_grown && growing->change != CHANGE_NONE) growth_add(state, &grown);
}

/* Whether an object is a copy of one that is being freed. */
static bool growth_continues(const struct growing *copy, const struct growing *freed)
{
    return copy != freed && copy->stack == freed->stack && copy->stack != STACK_END &&
           copy->lane == freed->lane && !copy->is_resized && copy->size > freed->size &&
           copy->size >= freed->size + freed->size / 2 && freed->change != CHANGE_NONE &&
           copy->made != UINT64_MAX;
}

static void growth_free(struct growth_state *state, uint32_t object)
{
    struct growing *freed = &state->objects[object];
    const uint32_t latest = state->latest[state->lane];
    state->latest[state->lane] = INSTRUCTION_NO_REGISTER;
    struct growing *copy = latest != INSTRUCTION_NO_REGISTER ? &state->objects[latest] : freed;
    if (!growth_continues(copy, freed)) {
        growth_end(state, freed);
        freed->made = UINT64_MAX;
        return;
    }
    growth_add(state, &(struct change_grown){.made = copy->made, .continues = true});
    copy->first = freed->first;
    copy->change = freed->change;
    if (freed->most > copy->most) copy->most = freed->most;
    copy->has_grown = copy->is_resized = true;
    freed->made = UINT64_MAX;
}

static void growth_take(struct growth_state *state, const struct instruction *one,
                        const struct instruction_batch *batch, uint32_t stack)
{
    state->calls += instruction_does[one->opcode] != INSTRUCTION_OTHER;
    switch (instruction_does[one->opcode]) {
    case INSTRUCTION_BEGINS: growth_begin(state, one->object, one->size, stack); break;
    case INSTRUCTION_RESIZES: growth_resize(state, one->object, one->size, stack); break;
    case INSTRUCTION_ENDS: growth_free(state, one->object); break;
    case INSTRUCTION_CALLS: state->latest[state->lane] = INSTRUCTION_NO_REGISTER; break;
    default:
        if (instruction_number(one) == INSTRUCTION_LANE)
            state->lane = (uint32_t)batch->operands[one->operand_at];
        break;
    }
}

static bool growth_take_batch(struct growth_state *state, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    const uint64_t before = state->capacity;
    if (!pages_reserve(&state->objects, &state->capacity, batch->registers, INSTRUCTION_BLOCK_MAX,
                       sizeof *state->objects))
        return false;
    for (uint64_t i = before; i < state->capacity; i++)
        state->objects[i].made = UINT64_MAX;
    while (state->good && instruction_walk_next(&walk, &one)) {
        instruction_walk_fetch(&walk, state->objects, sizeof *state->objects);
        growth_take(state, &one, batch, instruction_walk_stack(&walk));
    }
    return state->good;
}

static int growth_ascending(const void *one, const void *other)
{
    const struct change_grown *left = one, *right = other;
    return (left->made > right->made) - (left->made < right->made);
}

static const char *growth_ignore(void *of, const struct stack_definition *definition)
{
    (void)of;
    (void)definition;
    return NULL;
}

bool change_growth_read(struct change_growth *growth, const struct change_trace *trace,
                        struct change_match *match, char *why, size_t why_bytes)
{
    struct growth_state state = {.growth = growth, .match = match, .good = true};
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct input input;
    bool good = change_trace_read(trace, &reader, &input, growth_ignore, NULL);
    if (!good) error_text(&reader.error, why, why_bytes);
    state.latest = pages_map(GROWTH_LANES_BYTES);
    for (uint32_t i = 0; state.latest != NULL && i < INSTRUCTION_LANES_MAX; i++)
        state.latest[i] = INSTRUCTION_NO_REGISTER;
    state.good = state.latest != NULL;
    while (good && state.good && !process_interrupted() &&
           (trace->calls_max == 0 || state.calls < trace->calls_max) &&
           instruction_reader_next(&reader, &batch))
        state.good = growth_take_batch(&state, &batch);
    for (uint64_t i = 0; i < state.capacity; i++) /* those that are alive */
        if (state.objects[i].made != UINT64_MAX) growth_end(&state, &state.objects[i]);
    if (good && process_interrupted()) good = error_explain(why, why_bytes, CHANGE_INTERRUPTED);
    if (good && !state.good) good = error_explain(why, why_bytes, "no memory for objects");
    if (growth->count > 0) qsort(growth->at, growth->count, sizeof *growth->at, growth_ascending);
    pages_unmap(state.latest, GROWTH_LANES_BYTES);
    pages_unmap(state.objects, state.capacity * sizeof *state.objects);
    instruction_reader_close(&reader);
    input_close(&input);
    return good;
}

void change_growth_free(struct change_growth *growth)
{
    free(growth->at);
    *growth = (struct change_growth){.count = 0};
}
