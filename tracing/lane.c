#include "lane.h"

#include "os.h"
#include "units.h"

/* How many ending lanes a beginning thread asks the kernel about: a thread that has just been
 * joined is among the latest, and each costs a system call. */
#define ENDING_LANES_TRIED 4

struct lane_registry *lane_registry_create(void)
{
    struct lane_registry *registry = os_memory_reserve_per_process(sizeof *registry);
    if (registry) registry->present = 1;
    return registry;
}

/* Held for a few instructions and at most ENDING_LANES_TRIED system calls, by threads that begin
 * or end. */
static void lock(struct lane_registry *registry)
{
    while (atomic_exchange_acquire(&registry->lock, 1))
        os_wait(&registry->lock, 1, 1000000);
}

static void unlock(struct lane_registry *registry)
{
    atomic_store_release(&registry->lock, 0);
    os_wake_all(&registry->lock);
}

static struct malloctape_lane *claim_ended(struct lane_registry *registry)
{
    uint32_t tried = 0;
    for (uint32_t i = 0;
         i < registry->used && tried < ENDING_LANES_TRIED && tried < registry->ending; i++) {
        uint32_t at = (registry->ending_from + i) % registry->used;
        struct malloctape_lane *lane = lane_at(registry, at);
        if (lane->state != LANE_ENDING) continue;
        tried++;
        if (lane->ended || os_thread_is_gone(lane->thread_id)) {
            registry->ending--;
            registry->ending_from = at;
            return lane;
        }
    }
    return NULL;
}

static struct malloctape_lane *claim_new(struct lane_registry *registry)
{
    uint32_t number = registry->used;
    /* Tokens count lanes from 1 (units.h). */
    if (number == RAW_LANES_MAX - 1) return NULL;
    if (number % LANE_BLOCK == 0) {
        struct malloctape_lane *block = os_memory_reserve_per_process(LANE_BLOCK * sizeof *block);
        if (!block) return NULL;
        registry->blocks[number / LANE_BLOCK] = block;
    }
    struct malloctape_lane *lane = lane_at(registry, number);
    lane->number = number;
    lane->next_token = units_token(number, 1);
    lane->slot = SPOOL_NO_SLOT;
    atomic_store_release(&registry->used, number + 1);
    return lane;
}

struct malloctape_lane *lane_claim(struct lane_registry *registry, int thread_id, bool *continued)
{
    lock(registry);
    struct malloctape_lane *lane = claim_ended(registry);
    *continued = lane != NULL;
    if (!lane) lane = claim_new(registry);
    if (lane) {
        lane->state = LANE_LIVE;
        lane->thread_id = thread_id;
        lane->exit_rounds = 0;
    }
    unlock(registry);
    return lane;
}

void lane_end(struct lane_registry *registry, struct malloctape_lane *lane)
{
    lock(registry);
    if (lane->state == LANE_LIVE) {
        lane->state = LANE_ENDING;
        registry->ending++;
        registry->ending_from = lane->number;
    }
    unlock(registry);
}

void lane_notice_gone(struct lane_registry *registry, struct malloctape_lane *lane)
{
    if (lane->state == LANE_LIVE && os_thread_is_gone(lane->thread_id)) lane_end(registry, lane);
}

bool lane_take_over(struct lane_registry *registry, struct malloctape_lane *lane)
{
    if (atomic_load_relaxed(&lane->state) != LANE_ENDING) return false;
    lock(registry);
    bool taken = lane->state == LANE_ENDING && os_thread_is_gone(lane->thread_id);
    if (taken) {
        lane->state = LANE_TAKEN_OVER;
        registry->ending--;
    }
    unlock(registry);
    return taken;
}

void lane_put_back(struct lane_registry *registry, struct malloctape_lane *lane)
{
    lock(registry);
    lane->state = LANE_ENDING;
    registry->ending++;
    unlock(registry);
}
