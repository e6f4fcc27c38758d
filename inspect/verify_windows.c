#include <inttypes.h>
#include <stdlib.h>

#include "inspect/verify.h"

/* ---- records that come early ---- */

/* Keeps the latest one of each lane and window only. */
static bool early_add(struct verify *verify, const struct verify_lane *lane)
{
    struct verify_early early = {verify->position, verify->counts.ticks, lane->number};
    for (size_t i = verify->earlies_count; i > 0; i--) {
        struct verify_early *other = &verify->earlies[i - 1];
        if (other->lane != early.lane || other->window != early.window) continue;
        other->position = early.position;
        return true;
    }
    if (verify->earlies_count == verify->earlies_room) {
        size_t room = verify->earlies_room == 0 ? 64 : verify->earlies_room * 2;
        struct verify_early *grown = realloc(verify->earlies, room * sizeof *grown);
        if (grown == NULL) return verify_no_memory(verify);
        verify->earlies = grown;
        verify->earlies_room = room;
    }
    verify->earlies[verify->earlies_count++] = early;
    return true;
}

/* A record may come where it does if something that had to come after it belongs at most one window later. */
static bool early_judge(struct verify *verify, const struct verify_early *early)
{
    struct history *history = &verify->history;
    const struct history_record *record = history_at(history, early->position);
    if (!history_reaches(history, early->position)) {
        verify->counts.early_far++;
        return true;
    }
    if (history_leads_to_window(history, early->position, (uint32_t)early->window + 1)) return true;
    return verify_violated(verify, VERIFY_WINDOWS, NULL,
                           "instruction %" PRIu64 " (lane %" PRIu32 ", record %" PRIu64
                           ") of window %" PRIu32 " comes in window %" PRIu64
                           ", and nothing of window %" PRIu64 " or before has to come after it",
                           early->position - 1, record->lane, record->number, record->window,
                           early->window, early->window + 1);
}

/* Records of the next window come at the latest one window after that. */
static bool is_ripe(const struct verify *verify, const struct verify_early *early, bool all)
{
    return all || verify->counts.ticks > early->window + 2 ||
           !history_reaches(&verify->history, early->position);
}

bool verify_windows_look(struct verify *verify, bool all)
{
    size_t kept = 0;
    bool good = true;
    for (size_t i = 0; i < verify->earlies_count && good; i++) {
        struct verify_early early = verify->earlies[i];
        if (is_ripe(verify, &early, all))
            good = early_judge(verify, &early);
        else
            verify->earlies[kept++] = early;
    }
    verify->earlies_count = kept;
    return good;
}

/* ---- any record, and ticks ---- */

bool verify_window(struct verify *verify, const struct verify_lane *lane)
{
    uint64_t here = verify->counts.ticks, own = lane->first->window;
    struct verify_counts *counts = &verify->counts;
    if (here == own) {
        counts->on_time++;
    } else if (here == own + 1) {
        counts->late++;
    } else if (here + 1 == own) {
        counts->early++;
    } else if (here < own) {
        counts->early_forced++; /* or a violation, as will be seen */
        return early_add(verify, lane);
    } else if (here <= (uint64_t)lane->floor + 1) {
        counts->late_forced++;
    } else {
        return verify_violated(verify, VERIFY_WINDOWS, lane,
                               "a record of window %" PRIu64 " comes in window %" PRIu64
                               ", and nothing before it is later than window %" PRIu32,
                               own, here, lane->floor);
    }
    return true;
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
    return true;
}
