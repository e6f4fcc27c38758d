#include "replay/engine_threads.h"

#include "common/pages.h"
#include "replay/new_handler.h"
#include "replay/player.h"

struct engine_threads {
    struct work work;
    struct players players;
    struct work_unit units[PLAYER_UNITS];
    uint64_t handed_over; /* units; the next one is units[handed_over % PLAYER_UNITS] */
    bool stopped;         /* no thread is left, and none will be created */
};

static bool threads_open_units(struct engine_threads *threads, struct error *error)
{
    for (unsigned i = 0; i < PLAYER_UNITS; i++)
        if (!work_unit_open(&threads->units[i], error)) return false;
    return true;
}

bool threads_open(struct engine_state *state)
{
    struct engine_threads *threads = pages_map(sizeof *threads);
    if (threads == NULL) return error_set_system(&state->error, "no memory for threads");
    state->threads = threads;
    if (players_open(&threads->players, state->allocator, state->policy, state->latency,
                     &state->error) &&
        work_open(&threads->work, &state->error) && threads_open_units(threads, &state->error)) {
        new_handler_install();
        return true;
    }
    threads_finish(state);
    return false;
}

/* Waits for everything that was handed over. False: something failed. */
static bool threads_wait_for_all(struct engine_threads *threads)
{
    for (unsigned i = 0; i < PLAYER_UNITS; i++)
        if (!players_wait(&threads->players, &threads->units[i])) return false;
    return true;
}

static bool threads_grow_objects(struct players *players, uint64_t count)
{
    void **objects = pages_grow(players->objects, players->objects_count * sizeof *objects,
                                count * sizeof *objects);
    if (objects == NULL) return false;
    players->objects = objects;
    players->objects_count = count;
    return true;
}

bool threads_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    struct engine_threads *threads = state->threads;
    struct slots *slots = &threads->work.slots;
    struct players *players = &threads->players;
    bool good = slots_reserve_registers(slots, batch->registers) &&
                (slots_suffice(slots, batch->count) || slots_reserve(slots, batch->count));
    if (good && players->objects_count < slots->capacity) {
        /* The table moves, so nobody may be using it. This happens each time that it has doubled. */
        if (!threads_wait_for_all(threads)) return true; /* run() says what failed */
        good = threads_grow_objects(players, slots->capacity);
    }
    if (good) return true;
    return error_set_system(&state->error, "no memory for %llu objects",
                            (unsigned long long)(batch->registers));
}

size_t threads_run(struct engine_state *state, const struct instruction_batch *batch, size_t from,
                   size_t to)
{
    struct engine_threads *threads = state->threads;
    struct work_unit *unit = &threads->units[threads->handed_over % PLAYER_UNITS];
    if (!players_wait(&threads->players, unit)) {
        threads_drain(state);
        return from;
    }
    work_fill(&threads->work, unit, batch, from, to);
    threads->handed_over++;
    players_push(&threads->players, unit);
    return to;
}

static void threads_stop(struct engine_threads *threads)
{
    if (!threads->stopped) players_stop(&threads->players);
    threads->stopped = true;
}

/* Takes what the threads have left undone out of the totals. */
static void threads_take_back(struct engine_threads *threads, struct instruction_totals *totals)
{
    for (unsigned i = 0; i < PLAYER_UNITS; i++) {
        const struct work_unit *unit = &threads->units[i];
        for (uint32_t run = 0; run < unit->runs_count; run++) {
            const struct instruction_batch batch = work_run_batch(&unit->runs[run]);
            engine_take_back(totals, &batch, unit->runs[run].at);
        }
    }
}

bool threads_drain(struct engine_state *state)
{
    struct engine_threads *threads = state->threads;
    if (threads->stopped) return !error_is_set(&state->error);
    if (threads_wait_for_all(threads)) return true;
    threads_stop(threads);
    state->error = threads->players.error;
    threads_take_back(threads, state->totals);
    return false;
}

void threads_finish(struct engine_state *state)
{
    struct engine_threads *threads = state->threads;
    if (threads->players.at != NULL) {
        threads_stop(threads);
        players_close(&threads->players);
    }
    work_close(&threads->work);
    for (unsigned i = 0; i < PLAYER_UNITS; i++)
        work_unit_close(&threads->units[i]);
    pages_unmap(threads, sizeof *threads);
    state->threads = NULL;
}
