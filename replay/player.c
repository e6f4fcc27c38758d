#include "replay/player.h"

#include <errno.h>
#include <stddef.h>

#include "common/pages.h"
#include "replay/engine.h"
#include "replay/futex.h"
#include "replay/shared.h"

/* Instructions after which a lane looks who waits for it. */
#define SLICE_INSTRUCTIONS 256u

/* Samples of calls that a thread keeps to itself until its run is over. */
#define SAMPLES_KEPT (LATENCY_LIST_MAX - SLICE_INSTRUCTIONS)

/* How often somebody looks again before he sleeps: some microseconds, about what falling asleep costs. */
#define SPINS 100u

/* Of a thread. Allocators, touching and our own loop need a fraction of it; the C library keeps 40 MiB of stacks for
 * reuse, so small ones save mappings. */
#define PLAYER_STACK_BYTES (256u * 1024)

#define PLAYERS_BYTES (INSTRUCTION_LANES_MAX * sizeof(struct player))
#define QUEUE_FLAGS   (PLAYER_STEP - 1)

/* ---- failure ---- */

static void players_set_failed(struct players *players)
{
    __atomic_store_n(&players->failed, 1, __ATOMIC_RELEASE);
    event_signal(&players->event);
}

static void players_fail_system(struct players *players, int code, const char *what)
{
    pthread_mutex_lock(&players->error_lock);
    errno = code;
    error_set_system(&players->error, "%s", what);
    pthread_mutex_unlock(&players->error_lock);
    players_set_failed(players);
}

/* The instruction at run->at could not be carried out. */
static void players_fail_allocation(struct players *players, const struct work_run *run)
{
    const struct work_unit *unit = run->unit;
    uint32_t index = run->first + run->at;
    pthread_mutex_lock(&players->error_lock);
    engine_set_allocation_error(&players->error, &unit->at[index],
                                unit->number + unit->positions[index], unit->offset);
    pthread_mutex_unlock(&players->error_lock);
    players_set_failed(players);
}

/* ---- waiting for objects ---- */

static bool wait_is_over(const struct player_wait *wait)
{
    void *object;
    return shared_get(wait->slot, wait->generation, &object);
}

/* Takes those out of the list who find their object, or all, and wakes them. */
static void player_wake_listed(struct player *player, bool all)
{
    pthread_mutex_lock(&player->lock);
    for (struct player_wait **link = &player->first; *link != NULL;) {
        struct player_wait *wait = *link;
        if (!all && !wait_is_over(wait)) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        wait->listed = false;
        __atomic_sub_fetch(&player->waiting, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&wait->woken, 1, __ATOMIC_RELEASE);
        futex_wake_one(&wait->woken);
    }
    pthread_mutex_unlock(&player->lock);
}

/* Wakes those for whom this lane has made an object. Both sides change `waiting`, so that one of the two comes
 * second: either this sees an entry, or who enters himself then sees what was stored before this. */
static inline void player_wake(struct player *player)
{
    if (__atomic_fetch_add(&player->waiting, 0, __ATOMIC_ACQ_REL) != 0)
        player_wake_listed(player, false);
}

static void player_list_enter(struct player *maker, struct player_wait *wait)
{
    pthread_mutex_lock(&maker->lock);
    wait->woken = 0;
    wait->listed = true;
    wait->next = maker->first;
    maker->first = wait;
    __atomic_add_fetch(&maker->waiting, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&maker->lock);
}

static void player_list_leave(struct player *maker, struct player_wait *wait)
{
    pthread_mutex_lock(&maker->lock);
    if (wait->listed) {
        struct player_wait **link = &maker->first;
        while (*link != wait)
            link = &(*link)->next;
        *link = wait->next;
        wait->listed = false;
        __atomic_sub_fetch(&maker->waiting, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&maker->lock);
}

/* May return early. */
static void player_sleep(struct player *player, struct player *maker)
{
    struct player_wait *wait = &player->wait;
    player_list_enter(maker, wait);
    while (!wait_is_over(wait) && !players_failed(player->players) &&
           __atomic_load_n(&wait->woken, __ATOMIC_ACQUIRE) == 0)
        futex_wait(&wait->woken, 0);
    player_list_leave(maker, wait);
}

/* The object of instruction `at` of the run is not there (carrier.h). */
static bool player_await(struct carrier *carrier, size_t at)
{
    struct player *player = (struct player *)((char *)carrier - offsetof(struct player, carrier));
    struct players *players = player->players;
    const struct work_unit *unit = player->run->unit;
    const size_t index = player->run->first + at;
    struct player_wait *wait = &player->wait;

    wait->slot = &carrier->objects[unit->at[index].object];
    wait->generation = unit->at[index].operands;
    player_wake(player);
    for (unsigned i = 0; i < SPINS; i++) {
        if (wait_is_over(wait)) return true;
        spin_pause();
    }
    while (!wait_is_over(wait)) {
        if (players_failed(players)) return false;
        player_sleep(player, &players->at[unit->makers[index]]);
    }
    return true;
}

/* ---- the queue ---- */

static bool queue_change(struct player *player, uint32_t *old, uint32_t new)
{
    return __atomic_compare_exchange_n(&player->queue, old, new, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static bool queue_is_empty(const struct player *player, uint32_t queue)
{
    return (queue & ~QUEUE_FLAGS) == player->done;
}

/* The next run, or what is left of it; waits for it. NULL: there will be none. */
static struct work_run *player_next_run(struct player *player)
{
    unsigned spins = 0;
    while (!players_failed(player->players)) {
        uint32_t queue = __atomic_load_n(&player->queue, __ATOMIC_ACQUIRE);
        if (!queue_is_empty(player, queue))
            return player->runs[player->done / PLAYER_STEP % PLAYER_UNITS];
        if (queue & PLAYER_STOP) return NULL;
        if (spins++ < SPINS)
            spin_pause();
        else if (queue_change(player, &queue, queue | PLAYER_SLEEPING))
            futex_wait(&player->queue, queue | PLAYER_SLEEPING);
    }
    return NULL;
}

static void player_finish_run(struct player *player)
{
    struct work_unit *unit = player->run->unit;
    player->done += PLAYER_STEP;
    if (__atomic_sub_fetch(&unit->unfinished, 1, __ATOMIC_ACQ_REL) == 0)
        event_signal(&player->players->event);
}

/* ---- threads ---- */

static void *player_main(void *argument);

/* Creates the lane's next thread. Whoever calls this has found the lane without one. */
static void player_start(struct player *player)
{
    struct players *players = player->players;
    pthread_t thread;
    int code = pthread_create(&thread, &players->attributes, player_main, player);
    if (code == 0) return;
    players_fail_system(players, code, "cannot create a thread");
    __atomic_or_fetch(&player->queue, PLAYER_ABSENT, __ATOMIC_RELEASE);
}

/* The calling thread ends where the original did. */
static void player_hand_on(struct player *player)
{
    uint32_t queue = __atomic_load_n(&player->queue, __ATOMIC_ACQUIRE);
    while (queue_is_empty(player, queue)) {
        if (!queue_change(player, &queue, queue | PLAYER_ABSENT)) continue;
        if (queue & PLAYER_STOP) event_signal(&player->players->event);
        return;
    }
    player_start(player);
}

/* The calling thread ends because there is nothing more to do. */
static void player_leave(struct player *player)
{
    __atomic_or_fetch(&player->queue, PLAYER_ABSENT, __ATOMIC_RELEASE);
    event_signal(&player->players->event);
}

/* Leaves the samples of this thread to the report. */
static void player_count_samples(struct player *player)
{
    struct players *players = player->players;
    if (player->carrier.samples->count == 0) return;
    pthread_mutex_lock(&players->latency_lock);
    latency_add_list(players->latency, player->carrier.samples);
    pthread_mutex_unlock(&players->latency_lock);
}

/* Carries the run out up to `to`. False: something failed. */
static bool player_carry_out(struct player *player, uint32_t to)
{
    struct work_run *run = player->run;
    const struct instruction_batch batch = work_run_batch(run);
    while (run->at < to) {
        uint32_t end = to - run->at > SLICE_INSTRUCTIONS ? run->at + SLICE_INSTRUCTIONS : to;
        run->at = (uint32_t)carrier_run(&player->carrier, &batch, run->at, end);
        player_wake(player);
        if (player->carrier.samples->count > SAMPLES_KEPT) player_count_samples(player);
        if (players_failed(player->players)) return false;
        if (run->at < end) {
            players_fail_allocation(player->players, run);
            return false;
        }
    }
    return true;
}

/* The index of the next instruction of the run at which a thread may begin or end. */
static uint32_t run_next_border(const struct work_run *run)
{
    const struct instruction *at = run->unit->at + run->first;
    uint32_t border = run->at;
    if (run->borders == 0) return run->count;
    while (border < run->count && at[border].opcode != INSTRUCTION_THREAD_BEGIN &&
           at[border].opcode != INSTRUCTION_THREAD_END)
        border++;
    return border;
}

enum player_step { STEP_NEXT_RUN, STEP_THREAD_ENDS, STEP_FAILED };

/* Carries out what the current run has for this thread, which is `fresh` until it has done something. */
static enum player_step player_play(struct player *player, bool *fresh)
{
    struct work_run *run = player->run;
    while (run->at < run->count) {
        uint32_t border = run_next_border(run);
        if (border > run->at) {
            *fresh = false;
            if (!player_carry_out(player, border)) return STEP_FAILED;
            continue;
        }
        if (run->unit->at[run->first + border].opcode == INSTRUCTION_THREAD_END) {
            run->at++;
            return STEP_THREAD_ENDS;
        }
        if (!*fresh) return STEP_THREAD_ENDS; /* what begins here is another thread */
        *fresh = false;
        run->at++;
    }
    return STEP_NEXT_RUN;
}

/* Waits until the lane's previous thread is gone. */
static void player_succeed(struct player *player)
{
    if (player->has_predecessor) pthread_join(player->thread, NULL);
    player->has_predecessor = true;
    player->thread = pthread_self();
}

static void *player_main(void *argument)
{
    struct player *player = argument;
    struct latency_list samples;
    bool fresh = true;
    samples.count = 0;
    player_succeed(player);
    while ((player->run = player_next_run(player)) != NULL) {
        player->carrier.objects = player->players->objects;
        player->carrier.objects_count = player->players->objects_count;
        player->carrier.samples = &samples;
        enum player_step step = player_play(player, &fresh);
        player_count_samples(player);
        if (step == STEP_FAILED) break;
        if (player->run->at == player->run->count) player_finish_run(player);
        if (step == STEP_NEXT_RUN) continue;
        player_hand_on(player);
        return NULL;
    }
    player_leave(player);
    return NULL;
}

/* ---- the dispatcher's side ---- */

bool players_open(struct players *players, const struct allocator *allocator,
                  const struct policy *policy, struct latency *latency, struct error *error)
{
    *players = (struct players){.allocator = allocator, .policy = policy, .latency = latency};
    players->at = pages_map(PLAYERS_BYTES);
    if (players->at == NULL) return error_set_system(error, "no memory for threads");
    pthread_mutex_init(&players->error_lock, NULL);
    pthread_mutex_init(&players->latency_lock, NULL);
    pthread_attr_init(&players->attributes);
    pthread_attr_setstacksize(&players->attributes, PLAYER_STACK_BYTES);
    return true;
}

static void players_add(struct players *players, uint32_t lane)
{
    struct player *player = &players->at[lane];
    if (player->players != NULL) return;
    player->players = players;
    player->queue = PLAYER_ABSENT;
    pthread_mutex_init(&player->lock, NULL);
    carrier_open_shared(&player->carrier, players->allocator, players->policy, players->latency,
                        lane, player_await);
    if (lane >= players->lanes) players->lanes = lane + 1;
}

static void player_push(struct player *player, struct work_run *run)
{
    uint32_t queue = __atomic_load_n(&player->queue, __ATOMIC_RELAXED);
    player->runs[player->pushed++ % PLAYER_UNITS] = run;
    while (
        !queue_change(player, &queue, (queue & ~(PLAYER_SLEEPING | PLAYER_ABSENT)) + PLAYER_STEP))
        ;
    if (queue & PLAYER_SLEEPING) futex_wake_one(&player->queue);
    if (queue & PLAYER_ABSENT) player_start(player);
}

void players_push(struct players *players, struct work_unit *unit)
{
    /* The unit may be gone as soon as the last one is pushed. */
    const uint32_t count = unit->runs_count;
    /* All of them first: a thread may wait for what any lane of the unit makes. */
    for (uint32_t i = 0; i < count; i++)
        players_add(players, unit->runs[i].lane);
    for (uint32_t i = 0; i < count; i++)
        player_push(&players->at[unit->runs[i].lane], &unit->runs[i]);
}

bool players_wait(struct players *players, const struct work_unit *unit)
{
    for (;;) {
        uint32_t seen = event_look(&players->event);
        if (players_failed(players)) return false;
        if (__atomic_load_n(&unit->unfinished, __ATOMIC_ACQUIRE) == 0) return true;
        event_sleep(&players->event, seen);
    }
}

static void player_stop(struct player *player)
{
    uint32_t queue = __atomic_load_n(&player->queue, __ATOMIC_RELAXED);
    while (!queue_change(player, &queue, (queue & ~PLAYER_SLEEPING) | PLAYER_STOP))
        ;
    if (queue & PLAYER_SLEEPING) futex_wake_one(&player->queue);
    /* After a failure what they wait for may never come. Who is not in the list yet will see it. */
    if (players_failed(player->players)) player_wake_listed(player, true);
}

/* Waits until the lane has no thread. */
static void player_join(struct player *player)
{
    struct players *players = player->players;
    for (;;) {
        uint32_t seen = event_look(&players->event);
        if (__atomic_load_n(&player->queue, __ATOMIC_ACQUIRE) & PLAYER_ABSENT) break;
        event_sleep(&players->event, seen);
    }
    if (player->has_predecessor) pthread_join(player->thread, NULL);
    player->has_predecessor = false;
}

void players_stop(struct players *players)
{
    for (uint32_t lane = 0; lane < players->lanes; lane++)
        if (players->at[lane].players != NULL) player_stop(&players->at[lane]);
    for (uint32_t lane = 0; lane < players->lanes; lane++)
        if (players->at[lane].players != NULL) player_join(&players->at[lane]);
}

void players_close(struct players *players)
{
    pages_unmap(players->objects, players->objects_count * sizeof *players->objects);
    pages_unmap(players->at, PLAYERS_BYTES);
    pthread_attr_destroy(&players->attributes);
}
