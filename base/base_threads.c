/* Threads of the lives, and what calls on the whole heap have set. */
#include <stdlib.h>

#include "base/base_own.h"
#include "common/array.h"
#include "common/pages.h"

#define RUNNING_BYTES    (INSTRUCTION_LANES_MAX * sizeof(uint32_t))
#define THREADS_AT_LEAST 4096u /* before it is worth looking for some that may go */

bool base_threads_open(struct base *base)
{
    base->running = pages_map(RUNNING_BYTES);
    for (uint32_t lane = 0; base->running != NULL && lane < INSTRUCTION_LANES_MAX; lane++)
        base->running[lane] = BASE_NONE;
    return base->running != NULL;
}

void base_threads_close(struct base *base)
{
    if (base->running != NULL) pages_unmap(base->running, RUNNING_BYTES);
    free(base->threads);
    free(base->settings);
    base->running = NULL;
    base->threads = NULL;
    base->settings = NULL;
}

/* Lets threads go that have ended and of which no life is left: their entries are free then. */
static void base_threads_prune(struct base *base)
{
    for (uint32_t i = 0; i < base->lives_end; i++) {
        const struct base_life *life = &base->lives[i];
        if (life->died == 0) continue;
        base->threads[life->thread].is_marked = true;
        if (life->died != BASE_ALIVE) base->threads[life->died_thread].is_marked = true;
    }
    for (size_t i = 0; i < base->settings_count; i++)
        base->threads[base->settings[i].thread].is_marked = true;
    base->threads_pruned = 0;
    for (size_t i = 0; i < base->threads_count; i++) {
        struct base_thread *thread = &base->threads[i];
        if (!thread->is_marked && thread->ended != BASE_ALIVE && thread->is_used) {
            thread->is_used = false;
            thread->next_free = base->threads_free;
            base->threads_free = (uint32_t)i;
        }
        thread->is_marked = false;
        base->threads_pruned += thread->is_used;
    }
}

/* An entry that is free. False: no memory. */
static bool base_thread_entry(struct base *base, uint32_t *at)
{
    if (base->threads_free == BASE_NONE &&
        base->threads_count >= 2 * base->threads_pruned + THREADS_AT_LEAST)
        base_threads_prune(base);
    if (base->threads_free != BASE_NONE) {
        *at = base->threads_free;
        base->threads_free = base->threads[*at].next_free;
        return true;
    }
    if (!array_reserve(&base->threads, &base->threads_room, base->threads_count + 1,
                       sizeof *base->threads))
        return false;
    *at = (uint32_t)base->threads_count++;
    return true;
}

static bool base_thread_add(struct base *base, uint64_t id, bool has_id)
{
    uint32_t at;
    if (!base_thread_entry(base, &at)) return false;
    base->threads[at] = (struct base_thread){.id = id,
                                             .began = base->at,
                                             .ended = BASE_ALIVE,
                                             .began_ns = base->ns,
                                             .lane = base->lane,
                                             .has_id = has_id,
                                             .is_used = true};
    base->running[base->lane] = at;
    return true;
}

uint32_t base_thread(struct base *base)
{
    if (base->running[base->lane] == BASE_NONE && !base_thread_add(base, 0, false))
        return BASE_NONE;
    return base->running[base->lane];
}

void base_thread_ends(struct base *base)
{
    const uint32_t at = base->running[base->lane];
    if (at == BASE_NONE) return;
    base->threads[at].ended = base->at;
    base->threads[at].ended_ns = base->ns;
    base->running[base->lane] = BASE_NONE;
}

bool base_thread_begins(struct base *base, uint64_t id)
{
    base_thread_ends(base);
    return base_thread_add(base, id, true);
}

/* Whether only the latest call with this kind and first number matters. */
static bool setting_stays(unsigned kind)
{
    return kind == CALL_SET_PROPERTY || kind == CALL_SET_RELEASE_RATE || kind == CALL_MALLOPT;
}

bool base_set(struct base *base, unsigned kind, const uint64_t *numbers, unsigned count)
{
    const uint32_t thread = base_thread(base);
    size_t at = 0;
    if (!setting_stays(kind)) return true;
    while (at < base->settings_count &&
           (base->settings[at].kind != kind ||
            (count > 1 && base->settings[at].numbers[0] != numbers[0])))
        at++;
    if (thread == BASE_NONE ||
        !array_reserve(&base->settings, &base->settings_room, at + 1, sizeof *base->settings))
        return false;
    if (at == base->settings_count) base->settings_count++;
    base->settings[at] =
        (struct base_setting){.at = base->at,
                              .ns = base->ns,
                              .numbers = {count > 0 ? numbers[0] : 0, count > 1 ? numbers[1] : 0},
                              .kind = kind,
                              .count = count,
                              .thread = thread};
    return true;
}
