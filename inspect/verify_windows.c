#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/verify.h"

/* So many records that came early are followed at a time; further ones count as not judged. */
enum { EARLY_MAX = 64 };

/* Of a lane of which nothing had to come after the early record. */
#define NOTHING UINT64_MAX

/* ---- floors: what a record had to wait for ---- */

void verify_raise_floor(struct verify_lane *lane, uint32_t floor)
{
    if (floor > lane->floor) lane->floor = floor;
}

bool verify_floor_note(struct verify *verify, struct verify_lane *lane)
{
    if (lane->floors_count > 0 && lane->floors[lane->floors_count - 1].floor == lane->floor)
        return true;
    if (lane->floors_count == lane->floors_room) {
        uint32_t room = lane->floors_room == 0 ? 8 : lane->floors_room * 2;
        struct verify_floor *grown = realloc(lane->floors, room * sizeof *grown);
        if (grown == NULL) return verify_no_memory(verify);
        lane->floors = grown;
        lane->floors_room = room;
    }
    lane->floors[lane->floors_count++] = (struct verify_floor){lane->allocations, lane->floor};
    return true;
}

uint32_t verify_floor_of(const struct verify_lane *lane, uint64_t allocation)
{
    uint32_t low = 0, high = lane->floors_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lane->floors[middle].allocation <= allocation)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? lane->floors[low - 1].floor : 0;
}

/* ---- records that come early ---- */

/* A record that came more than one window early. It may, if something that had to come after it
 * belongs at most one window later than where it came. What had to come after it spreads as rules 1
 * to 3 say. */
struct verify_early {
    uint64_t position; /* its instruction */
    uint64_t record;   /* its number in the lane */
    uint64_t window;   /* where it came */
    uint32_t own;      /* its window in the recording */
    uint32_t lane;
    uint32_t lanes; /* elements of from */
    uint64_t *from; /* by lane: the first allocation that had to come after it; NOTHING: nothing of
                       the lane */
    uint64_t lowest[RAW_STRUCTURES]; /* numbers above it had to come after it */
};

static bool early_reach(struct verify_early *early, uint32_t lanes)
{
    if (lanes <= early->lanes) return true;
    uint64_t *grown = realloc(early->from, lanes * sizeof *grown);
    if (grown == NULL) return false;
    early->from = grown;
    for (; early->lanes < lanes; early->lanes++)
        early->from[early->lanes] = NOTHING;
    return true;
}

/* That of the same lane in the same window is replaced: it had to come before this one. */
static struct verify_early *early_place(struct verify *verify, const struct verify_lane *lane)
{
    uint64_t window = verify->counts.ticks;
    for (size_t i = 0; i < verify->early_count; i++) {
        struct verify_early *other = &verify->early[i];
        if (other->lane == lane->number && other->window == window) return other;
    }
    if (verify->early_count == EARLY_MAX) return NULL;
    if (verify->early == NULL) verify->early = calloc(EARLY_MAX, sizeof *verify->early);
    return verify->early != NULL ? &verify->early[verify->early_count++] : NULL;
}

static void number_reached(struct verify_early *early, struct verify_number number)
{
    uint64_t *lowest = &early->lowest[number.structure];
    if (number.number < *lowest) *lowest = number.number;
}

/* The record at the head of the lane and its numbers had to come after the early one, or are
 * that. */
static void record_reached(struct verify_early *early, const struct verify_lane *lane)
{
    if (early->from[lane->number] == NOTHING) early->from[lane->number] = lane->allocations + 1;
    for (uint32_t i = 0; i < lane->before_count; i++)
        number_reached(early, lane->before[i]);
}

static bool early_add(struct verify *verify, const struct verify_lane *lane, uint32_t own)
{
    struct verify_early *early = early_place(verify, lane);
    if (early == NULL) {
        verify->counts.not_judged++;
        return verify->early != NULL || verify_no_memory(verify);
    }
    early->lanes = 0;
    if (!early_reach(early, verify->raw.lanes_count)) return verify_no_memory(verify);
    memset(early->lowest, 0xff, sizeof early->lowest);
    early->position = verify->position;
    early->record = lane->first->first_record + lane->first->taken;
    early->window = verify->counts.ticks;
    early->own = own;
    early->lane = lane->number;
    record_reached(early, lane);
    return true;
}

static void early_remove(struct verify *verify, size_t index)
{
    struct verify_early removed = verify->early[index];
    verify->early[index] = verify->early[--verify->early_count];
    verify->early[verify->early_count] = removed; /* keeps its memory for another */
}

static bool is_reached(const struct verify_early *early, const struct verify_lane *lane,
                       const struct record *record)
{
    if (early->from[lane->number] != NOTHING) return true;
    if (record->bound != 0 && raw_births_lane(record->bound) < early->lanes &&
        early->from[raw_births_lane(record->bound)] <= raw_births_count(record->bound))
        return true;
    for (uint32_t i = 0; i < lane->before_count; i++)
        if (lane->before[i].number > early->lowest[lane->before[i].structure]) return true;
    return false;
}

/* The record at the head of the lane comes. */
static bool early_follow(struct verify *verify, const struct verify_lane *lane,
                         const struct record *record)
{
    for (size_t i = 0; i < verify->early_count;) {
        struct verify_early *early = &verify->early[i];
        if (!early_reach(early, verify->raw.lanes_count)) return verify_no_memory(verify);
        if (!is_reached(early, lane, record)) {
            i++;
        } else if (lane->first->window <= early->window + 1) {
            early_remove(verify, i);
        } else {
            record_reached(early, lane);
            i++;
        }
    }
    return true;
}

bool verify_window_number(struct verify *verify, struct verify_lane *lane,
                          struct verify_number number, uint32_t window)
{
    for (size_t i = 0; i < verify->early_count;) {
        struct verify_early *early = &verify->early[i];
        if (!early_reach(early, verify->raw.lanes_count)) return verify_no_memory(verify);
        uint64_t *from = &early->from[lane->number];
        bool later = number.number > early->lowest[number.structure];
        if (later && window <= early->window + 1) {
            early_remove(verify, i);
            continue;
        }
        if (later && *from == NOTHING) *from = lane->allocations + 1;
        if (*from != NOTHING) number_reached(early, number);
        i++;
    }
    return true;
}

static bool early_violates(struct verify *verify, const struct verify_early *early)
{
    return verify_violated(verify, VERIFY_WINDOWS, NULL,
                           "instruction %" PRIu64 " (lane %" PRIu32 ", record %" PRIu64
                           ") of window %" PRIu32 " comes in window %" PRIu64
                           ", and nothing of window %" PRIu64 " or before has to come after it",
                           early->position - 1, early->lane, early->record, early->own,
                           early->window, early->window + 1);
}

bool verify_windows_judge(struct verify *verify, bool all)
{
    for (size_t i = 0; i < verify->early_count; i++)
        if (all || verify->counts.ticks > verify->early[i].window + 2)
            return early_violates(verify, &verify->early[i]);
    return true;
}

void verify_windows_free(struct verify *verify)
{
    for (size_t i = 0; verify->early != NULL && i < EARLY_MAX; i++)
        free(verify->early[i].from);
    free(verify->early);
}

/* ---- any record, and ticks ---- */

bool verify_window(struct verify *verify, const struct verify_lane *lane,
                   const struct record *record)
{
    uint64_t here = verify->counts.ticks;
    uint32_t own = lane->first->window;
    if (verify->early_count > 0 && !early_follow(verify, lane, record)) return false;
    if (here <= (uint64_t)own + 1 && own <= here + 1) return true;
    verify->counts.far++;
    if (own > here) return early_add(verify, lane, own);
    if (here <= (uint64_t)lane->floor + 1) return true;
    return verify_violated(verify, VERIFY_WINDOWS, lane,
                           "a record of window %" PRIu32 " comes in window %" PRIu64
                           ", and nothing before it is later than window %" PRIu32,
                           own, here, lane->floor);
}

bool verify_tick(struct verify *verify, const uint64_t *operands)
{
    uint64_t number = verify->counts.ticks;
    while (number >= verify->raw.ticks_count && !verify->raw.ended)
        if (!verify_numbers_read(verify)) return false;
    if (number >= verify->raw.ticks_count)
        return verify_violated(verify, VERIFY_WINDOWS, NULL,
                               "instruction %" PRIu64 ": the recording has only %" PRIu64 " ticks",
                               verify->position - 1, number);
    const struct raw_tick *tick = &verify->raw.ticks[number];
    if (tick->since_start_ns - verify->last_tick_ns != operands[0] ||
        tick->rss_bytes != operands[1] || tick->heap_bytes != operands[2])
        return verify_violated(verify, VERIFY_WINDOWS, NULL,
                               "instruction %" PRIu64 ": tick %" PRIu64
                               " is not that of the recording",
                               verify->position - 1, number);
    verify->last_tick_ns = tick->since_start_ns;
    verify->counts.ticks++;
    return verify_windows_judge(verify, false);
}
