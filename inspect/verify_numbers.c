#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "inspect/verify.h"

/* A unit is looked at when so much more has been emitted: its stamps are known by then, and the history still
 * has them. Units that overtake each other are seldom further apart; where a thread was off its processor in the
 * middle of one they may be. */
#define LOOK_AFTER (HISTORY_POSITIONS / 4)

/* Looking at what is open takes time, and need not be done at each instruction. */
#define LOOK_EVERY UINT64_C(4096)

const char *verify_structure_text(uint32_t structure, char *to, size_t bytes)
{
    if (structure == RAW_STRUCTURE_PAGE_HEAP)
        snprintf(to, bytes, "the page heap");
    else
        snprintf(to, bytes, "class %" PRIu32, structure);
    return to;
}

static bool is_stamp(const struct record *record)
{
    return record->number == RAW_STAMP_BEFORE || record->number == RAW_STAMP_AFTER;
}

/* ---- lanes that wait ---- */

static void block(struct verify *verify, struct verify_lane *lane, uint32_t structure)
{
    lane->blocked_on = structure;
    lane->next_blocked = verify->structures[structure].blocked;
    verify->structures[structure].blocked = lane->number + 1;
}

/* Moves the lanes that wait for the number that is due now from the list of the structure to the ready ones. */
static void wake(struct verify *verify, struct verify_structure *structure)
{
    uint32_t *link = &structure->blocked;
    while (*link != 0) {
        struct verify_lane *lane = verify->raw.lanes[*link - 1];
        if (verify_lane_head(lane)->size > structure->due) {
            link = &lane->next_blocked;
            continue;
        }
        *link = lane->next_blocked;
        lane->blocked_on = VERIFY_NOT_BLOCKED;
        lane->next_blocked = verify->ready;
        verify->ready = lane->number + 1;
    }
}

/* ---- units out of order ---- */

static bool inversion_add(struct verify *verify, struct verify_inversion inversion)
{
    if (verify->inversions_count == verify->inversions_room) {
        size_t room = verify->inversions_room == 0 ? 64 : verify->inversions_room * 2;
        struct verify_inversion *grown = realloc(verify->inversions, room * sizeof *grown);
        if (grown == NULL) return verify_no_memory(verify);
        verify->inversions = grown;
        verify->inversions_room = room;
    }
    verify->inversions[verify->inversions_count++] = inversion;
    if (inversion.late == HISTORY_UNKNOWN_POSITION)
        verify->raw.lanes[inversion.late_lane]->open_inversions++;
    return true;
}

static bool inversion_violates(struct verify *verify, const struct verify_inversion *inversion)
{
    const struct history_record *early = history_at(&verify->history, inversion->early);
    const struct history_record *late = history_at(&verify->history, inversion->late);
    char name[32];
    return verify_violated(verify, VERIFY_NUMBERS, NULL,
                           "instruction %" PRIu64 " (lane %" PRIu32 ", record %" PRIu64
                           ") entered %s after instruction %" PRIu64 " (lane %" PRIu32
                           ", record %" PRIu64 ") did, but comes first, and nothing forces it to",
                           inversion->early - 1, early->lane, early->number,
                           verify_structure_text(inversion->structure, name, sizeof name),
                           inversion->late - 1, late->lane, late->number);
}

/* Both units have come. Whether the one at `late` had to be overtaken. */
static bool inversion_judge(struct verify *verify, struct verify_inversion *inversion)
{
    struct history *history = &verify->history;
    bool reached = history_reaches(history, inversion->early);
    inversion->lasted |= history_lasted(history, inversion->late);
    if (reached && history_forces(history, inversion->early, inversion->late))
        verify->counts.pairs_forced++;
    else if (inversion->lasted)
        verify->counts.pairs_interleaved++;
    else if (!reached)
        verify->counts.pairs_far++;
    else
        return inversion_violates(verify, inversion);
    return true;
}

static bool is_ripe(const struct verify *verify, uint64_t position, bool all)
{
    return position != HISTORY_UNKNOWN_POSITION &&
           (all || position + LOOK_AFTER < verify->position);
}

/* Looks at what is open. With `all`, nothing more will come: a late unit that has not come never will, because the
 * recording ended between its stamp and its record. */
static bool inversions_look(struct verify *verify, bool all)
{
    size_t kept = 0;
    bool good = true;
    for (size_t i = 0; i < verify->inversions_count && good; i++) {
        struct verify_inversion inversion = verify->inversions[i];
        if (!inversion.early_looked_at && is_ripe(verify, inversion.early, all)) {
            inversion.lasted |= history_lasted(&verify->history, inversion.early);
            inversion.early_looked_at = true;
        }
        if (is_ripe(verify, inversion.late, all))
            good = inversion_judge(verify, &inversion);
        else if (!all)
            verify->inversions[kept++] = inversion;
    }
    verify->inversions_count = kept;
    return good;
}

/* The late units of open inversions of this lane that have just come. */
static void inversions_settle(struct verify *verify, struct verify_lane *lane)
{
    for (size_t i = 0; i < verify->inversions_count && lane->open_inversions > 0; i++) {
        struct verify_inversion *inversion = &verify->inversions[i];
        if (inversion->late != HISTORY_UNKNOWN_POSITION || inversion->late_lane != lane->number ||
            inversion->late_unit != lane->units)
            continue;
        inversion->late = lane->unit_position;
        lane->open_inversions--;
    }
}

/* ---- taking stamps ---- */

static bool before_add(struct verify *verify, struct verify_lane *lane, struct verify_before before)
{
    if (lane->before_count == lane->before_room) {
        uint32_t room = lane->before_room == 0 ? 8 : lane->before_room * 2;
        struct verify_before *grown = realloc(lane->before, room * sizeof *grown);
        if (grown == NULL) return verify_no_memory(verify);
        lane->before = grown;
        lane->before_room = room;
    }
    lane->before[lane->before_count++] = before;
    return true;
}

/* A stamp for a unit that is yet to come: whoever has the number before has to come before it. */
static bool take_before(struct verify *verify, struct verify_lane *lane,
                        const struct record *record)
{
    struct verify_structure *structure = &verify->structures[record->structure];
    struct verify_before before = {.structure = record->structure, .window = lane->first->window};
    const struct verify_lane *last = verify->raw.lanes[structure->last_lane];
    if (structure->last_unit != 0 && structure->last_unit > last->units && last != lane) {
        before.previous_lane = structure->last_lane;
        before.previous_unit = structure->last_unit;
    }
    before.stamp = history_add_stamp(&verify->history, HISTORY_UNKNOWN_POSITION, record->structure,
                                     record->size);
    structure->last_lane = lane->number;
    structure->last_unit = lane->units + 1;
    structure->last_position = HISTORY_UNKNOWN_POSITION;
    return before_add(verify, lane, before);
}

/* A stamp of the unit that came latest: whoever has the number before should have come before it. */
static bool take_after(struct verify *verify, struct verify_lane *lane, const struct record *record)
{
    struct verify_structure *structure = &verify->structures[record->structure];
    struct verify_inversion inversion = {
        .early = lane->unit_position,
        .late = structure->last_position, /* unknown if it has not come */
        .late_lane = structure->last_lane,
        .late_unit = structure->last_unit,
        .structure = record->structure,
    };
    bool inverted = structure->last_unit != 0 && lane->units != 0 &&
                    structure->last_lane != lane->number &&
                    structure->last_position > lane->unit_position;
    history_add_stamp(&verify->history, lane->unit_position, record->structure, record->size);
    if (lane->first->window != lane->unit_window)
        history_split(&verify->history, lane->unit_position);
    structure->last_lane = lane->number;
    structure->last_unit = lane->units;
    structure->last_position = lane->unit_position;
    return !inverted || inversion_add(verify, inversion);
}

static bool take_stamp(struct verify *verify, struct verify_lane *lane, const struct record *record)
{
    struct verify_structure *structure = &verify->structures[record->structure];
    uint32_t window = lane->first->window;
    if (window > lane->floor) lane->floor = window;
    if (structure->floor > lane->floor) lane->floor = structure->floor;
    structure->floor = lane->floor;
    verify->counts.stamps++;
    structure->due++;
    bool good = record->number == RAW_STAMP_BEFORE ? take_before(verify, lane, record)
                                                   : take_after(verify, lane, record);
    verify_lane_take(&verify->raw, lane);
    wake(verify, structure);
    return good;
}

/* Takes stamps at the head of a lane until one is not due, or something else comes. */
static bool lane_advance(struct verify *verify, struct verify_lane *lane)
{
    const struct record *record;
    while ((record = verify_lane_head(lane)) != NULL) {
        if (!is_stamp(record)) return true;
        uint64_t due = verify->structures[record->structure].due;
        if (record->size > due) {
            block(verify, lane, record->structure);
            return true;
        }
        if (record->size < due)
            return verify_violated(verify, VERIFY_NUMBERS, lane,
                                   "the recording has number %" PRIu64 " of structure %" PRIu32
                                   " twice",
                                   record->size, record->structure);
        if (!take_stamp(verify, lane, record)) return false;
    }
    return true;
}

/* The same for the lane, if it does not wait already, and for all that this makes ready. */
static bool advance(struct verify *verify, struct verify_lane *lane)
{
    bool good =
        lane == NULL || lane->blocked_on != VERIFY_NOT_BLOCKED || lane_advance(verify, lane);
    while (good && verify->ready != 0) {
        lane = verify->raw.lanes[verify->ready - 1];
        verify->ready = lane->next_blocked;
        good = lane_advance(verify, lane);
    }
    return good;
}

/* ---- for the other rules ---- */

bool verify_numbers_read(struct verify *verify)
{
    struct verify_lane *lane = verify_raw_read(&verify->raw);
    if (error_is_set(&verify->raw.error)) {
        verify->error = verify->raw.error;
        return false;
    }
    return advance(verify, lane);
}

bool verify_numbers_emitted(struct verify *verify, struct verify_lane *lane, bool is_unit,
                            struct history_record record)
{
    bool good = true;
    history_add(&verify->history, verify->position, record);
    if (is_unit) {
        lane->units++;
        lane->unit_position = verify->position;
        lane->unit_window = record.window;
        for (uint32_t i = 0; good && i < lane->before_count; i++) {
            const struct verify_before *before = &lane->before[i];
            struct verify_structure *structure = &verify->structures[before->structure];
            history_set_position(&verify->history, before->stamp, verify->position);
            if (before->window != record.window) history_split(&verify->history, verify->position);
            if (structure->last_lane == lane->number && structure->last_unit == lane->units)
                structure->last_position = verify->position;
            if (before->previous_unit > 0 &&
                before->previous_unit > verify->raw.lanes[before->previous_lane]->units)
                good = inversion_add(verify, (struct verify_inversion){
                                                 .early = verify->position,
                                                 .late = HISTORY_UNKNOWN_POSITION,
                                                 .late_lane = before->previous_lane,
                                                 .late_unit = before->previous_unit,
                                                 .structure = before->structure,
                                             });
        }
        lane->before_count = 0;
        inversions_settle(verify, lane);
    }
    if (!good || !advance(verify, lane)) return false;
    if (verify->position % LOOK_EVERY != 0) return true;
    return inversions_look(verify, false) && verify_windows_look(verify, false);
}

/* If lanes wait for a number of the structure that nobody has: on to the next one. */
static bool pass_over(struct verify *verify, uint32_t structure_number)
{
    struct verify_structure *structure = &verify->structures[structure_number];
    if (structure->blocked == 0 ||
        verify_raw_has_number(&verify->raw, structure_number, structure->due))
        return false;
    structure->due++;
    verify->counts.stamps_missing++;
    wake(verify, structure);
    return true;
}

bool verify_numbers_pass_over(struct verify *verify)
{
    bool passed = false;
    for (uint32_t i = 0; i < RAW_STRUCTURES; i++)
        passed |= pass_over(verify, i);
    return passed && advance(verify, NULL);
}

bool verify_numbers_finish(struct verify *verify)
{
    return inversions_look(verify, true);
}
