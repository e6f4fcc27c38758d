/* The base as instructions: all events of the lives that were kept, in their order. */
#include <stdlib.h>

#include "base/base_own.h"
#include "common/array.h"
#include "common/pages.h"

/* How many events ahead a life is fetched into the cache. */
enum { BASE_EVENTS_AHEAD = 16 };

/* Of the numbers by which events are sorted. */
enum { BASE_DIGIT_BITS = 11 };

enum base_event_what { EVENT_BEGINS, EVENT_ENDS, EVENT_THREAD, EVENT_THREAD_END, EVENT_SETTING };

struct base_event {
    uint64_t at : 61, what : 3;
    uint64_t ns;
    uint32_t of; /* the life, the thread, the setting */
};

struct base_writing {
    const struct base *base;
    struct instruction_writer *writer;
    struct base_event *events;
    uint64_t count, capacity;
    uint32_t *names; /* by life: its register */
    uint64_t ns;     /* of the latest tick that was written */
};

/* ---- which events there are ---- */

static void base_event_add(struct base_writing *state, enum base_event_what what, uint64_t at,
                           uint64_t ns, uint32_t of)
{
    state->events[state->count++] = (struct base_event){at, what, ns, of};
}

/* A thread is there if it runs, or something of it has been kept. */
static void base_add_threads(struct base_writing *state, const bool *is_used)
{
    for (uint32_t i = 0; i < state->base->threads_count; i++) {
        const struct base_thread *thread = &state->base->threads[i];
        const bool runs =
            thread->is_used && thread->ended == BASE_ALIVE && state->base->limits.takes == NULL;
        const bool has_ended = thread->ended != BASE_ALIVE;
        if (!thread->has_id || !(runs || is_used[i])) continue;
        base_event_add(state, EVENT_THREAD, thread->began, thread->began_ns, i);
        if (has_ended) base_event_add(state, EVENT_THREAD_END, thread->ended, thread->ended_ns, i);
    }
}

static void base_add_lives(struct base_writing *state, bool *is_used)
{
    const struct base *base = state->base;
    for (uint32_t i = 0; i < base->lives_end; i++) {
        const struct base_life *life = &base->lives[i];
        if (life->died == 0) continue;
        is_used[life->thread] = true;
        if (life->before == BASE_NONE)
            base_event_add(state, EVENT_BEGINS, life->born, life->born_ns, i);
        if (life->died == BASE_ALIVE) continue;
        is_used[life->died_thread] = true;
        base_event_add(state, EVENT_ENDS, life->died, life->died_ns, i);
    }
}

static uint64_t base_event_key(const struct base_event *event)
{
    return (uint64_t)event->at << 3 | event->what;
}

/* Events that have the same digit stay in their order. */
static void base_sort_by_digit(const struct base_event *from, struct base_event *to, uint64_t count,
                               unsigned shift)
{
    uint64_t at[1 << BASE_DIGIT_BITS] = {0}, sum = 0;
    const uint64_t mask = (1 << BASE_DIGIT_BITS) - 1;
    for (uint64_t i = 0; i < count; i++)
        at[base_event_key(&from[i]) >> shift & mask]++;
    for (uint64_t digit = 0; digit <= mask; digit++) {
        const uint64_t here = at[digit];
        at[digit] = sum;
        sum += here;
    }
    for (uint64_t i = 0; i < count; i++)
        to[at[base_event_key(&from[i]) >> shift & mask]++] = from[i];
}

/* By the call that they belong to: digit by digit, which takes a third of what comparing them takes.
 * False: no memory. */
static bool base_sort_events(struct base_writing *state)
{
    const uint64_t bytes = state->count * sizeof *state->events;
    struct base_event *from = state->events, *to = pages_map(bytes);
    uint64_t used = 0;
    if (to == NULL) return false;
    for (uint64_t i = 0; i < state->count; i++)
        used |= base_event_key(&from[i]);
    for (unsigned shift = 0; shift < 64 && used >> shift != 0; shift += BASE_DIGIT_BITS) {
        base_sort_by_digit(from, to, state->count, shift);
        struct base_event *sorted = to;
        to = from;
        from = sorted;
    }
    if (from == state->events) {
        pages_unmap(to, bytes);
        return true;
    }
    pages_unmap(state->events, state->capacity * sizeof *state->events);
    state->events = from;
    state->capacity = state->count;
    return true;
}

/* False: no memory. */
static bool base_list_events(struct base_writing *state)
{
    const struct base *base = state->base;
    bool *is_used = calloc(base->threads_count + 1, sizeof *is_used);
    const bool good = is_used != NULL && pages_reserve(&state->events, &state->capacity,
                                                       2 * (base->lives_end + base->threads_count) +
                                                           base->settings_count + 1,
                                                       1, sizeof *state->events);
    for (uint32_t i = 0; good && i < base->settings_count; i++) {
        const struct base_setting *setting = &base->settings[i];
        is_used[setting->thread] = true;
        base_event_add(state, EVENT_SETTING, setting->at, setting->ns, i);
    }
    if (good) base_add_lives(state, is_used);
    if (good) base_add_threads(state, is_used);
    free(is_used);
    return good && (state->count < 2 || base_sort_events(state));
}

/* ---- one event ---- */

static void base_put_begin(struct base_writing *state, uint32_t at)
{
    const struct base_life *life = &state->base->lives[at];
    instruction_put_stack(state->writer, life->stack);
    state->names[at] = instruction_put_allocation_with(state->writer, (enum call_kind)life->kind,
                                                       life->size, life->alignment, life->address);
}

static void base_put_end(struct base_writing *state, uint32_t at)
{
    const struct base_life *life = &state->base->lives[at];
    struct instruction_writer *writer = state->writer;
    const bool is_realloc =
        life->died_kind == CALL_REALLOC_MOVED || life->died_kind == CALL_REALLOC_IN_PLACE;
    if (life->after == BASE_NONE) {
        /* The life after it may have been dropped. */
        const enum call_kind kind = is_realloc ? CALL_FREE : (enum call_kind)life->died_kind;
        instruction_put_stack(writer, is_realloc ? STACK_END : life->died_stack);
        instruction_put_free_with(writer, kind, state->names[at], life->size, life->alignment);
        return;
    }
    const struct base_life *next = &state->base->lives[life->after];
    instruction_put_stack(writer, next->stack);
    instruction_put_realloc(writer, (enum call_kind)life->died_kind, state->names[at], next->size,
                            next->address);
    state->names[life->after] = state->names[at];
}

static uint32_t base_event_thread(const struct base *base, const struct base_event *event)
{
    switch (event->what) {
    case EVENT_BEGINS: return base->lives[event->of].thread;
    case EVENT_ENDS: return base->lives[event->of].died_thread;
    case EVENT_SETTING: return base->settings[event->of].thread;
    default: return event->of;
    }
}

static void base_put_event(struct base_writing *state, const struct base_event *event)
{
    const struct base *base = state->base;
    const struct base_thread *thread = &base->threads[base_event_thread(base, event)];
    if (event->ns > state->ns) {
        instruction_put_tick(state->writer, event->ns - state->ns, 0, 0);
        state->ns = event->ns;
    }
    instruction_put_lane(state->writer, thread->lane);
    instruction_put_stack(state->writer, STACK_END);
    switch (event->what) {
    case EVENT_BEGINS: base_put_begin(state, event->of); break;
    case EVENT_ENDS: base_put_end(state, event->of); break;
    case EVENT_THREAD: instruction_put_thread_begin(state->writer, thread->id); break;
    case EVENT_THREAD_END: instruction_put_thread_end(state->writer); break;
    case EVENT_SETTING: {
        const struct base_setting *setting = &base->settings[event->of];
        instruction_put_heap(state->writer, (enum call_kind)setting->kind, setting->count,
                             setting->numbers);
        break;
    }
    }
}

/* ---- all of it ---- */

/* The latest tick has all that was said then. */
static void base_put_last_tick(struct base_writing *state)
{
    const struct base *base = state->base;
    const uint64_t ns = base->ns - state->ns;
    if (base->has_usage)
        instruction_put_tick_with_usage(state->writer, ns, base->rss_bytes, base->heap_bytes,
                                        &base->usage, &base->statistics);
    else if (base->ns > 0)
        instruction_put_tick(state->writer, ns, base->rss_bytes, base->heap_bytes);
}

bool base_write(const struct base *base, struct instruction_writer *writer, uint32_t *registers)
{
    struct base_writing state = {.base = base, .writer = writer};
    const size_t names_bytes = (base->lives_end + 1) * sizeof *state.names;
    state.names = pages_map(names_bytes);
    const bool good = state.names != NULL && base_list_events(&state);
    if (good) {
        if (writer->features & INSTRUCTION_FEATURE_STACKS) base_write_stacks(&base->stacks, writer);
        for (uint64_t i = 0; i < state.count; i++) {
            const uint64_t ahead = i + BASE_EVENTS_AHEAD;
            if (ahead < state.count) __builtin_prefetch(&base->lives[state.events[ahead].of]);
            base_put_event(&state, &state.events[i]);
        }
        for (uint64_t i = 0; i < base->live; i++)
            registers[i] =
                base->row[i] != BASE_NONE ? state.names[base->row[i]] : INSTRUCTION_NO_REGISTER;
    }
    if (good && !base_write_mappings(&base->mappings, writer)) {
        pages_unmap(state.names, names_bytes);
        pages_unmap(state.events, state.capacity * sizeof *state.events);
        return false;
    }
    if (good) {
        instruction_put_lane(writer, base->lane);
        base_put_last_tick(&state);
        instruction_put_base_end(writer);
    }
    pages_unmap(state.names, names_bytes);
    pages_unmap(state.events, state.capacity * sizeof *state.events);
    return good;
}

bool base_write_live(const struct base *base, struct instruction_writer *writer)
{
    struct base_writing state = {.base = base, .writer = writer};
    if (writer->features & INSTRUCTION_FEATURE_STACKS) base_write_stacks(&base->stacks, writer);
    for (uint64_t i = 0; i < base->lives_end; i++) {
        const struct base_life *life = &base->lives[i];
        if (life->died != BASE_ALIVE) continue;
        instruction_put_stack(writer, life->stack);
        instruction_put_allocation_with(writer, (enum call_kind)life->kind, life->size,
                                        life->alignment, life->address);
    }
    if (!base_write_mappings(&base->mappings, writer)) return false;
    base_put_last_tick(&state);
    instruction_put_base_end(writer);
    return true;
}
