#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "inspect/verify.h"

const char *verify_structure_text(uint32_t structure, char *to, size_t bytes)
{
    if (structure == RAW_STRUCTURE_PAGE_HEAP)
        snprintf(to, bytes, "the page heap");
    else
        snprintf(to, bytes, "class %" PRIu32, structure);
    return to;
}

/* ---- lanes that wait ---- */

static void block(struct verify *verify, struct verify_lane *lane, uint32_t structure)
{
    lane->blocked_on = structure;
    lane->next_blocked = verify->structures[structure].blocked;
    verify->structures[structure].blocked = lane->number + 1;
}

/* Moves lanes that wait for the number that is now due from the list of the structure to that of
 * ready lanes. */
static void verify_numbers_wake(struct verify *verify, struct verify_structure *structure)
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

/* ---- taking numbers ---- */

/* Takes the number at the head of the lane, which is due. */
static void verify_numbers_take_number(struct verify *verify, struct verify_lane *lane,
                                       const struct record *record)
{
    struct verify_structure *structure = &verify->structures[record->structure];
    verify_raise_floor(lane, lane->first->window);
    verify_raise_floor(lane, structure->floor);
    structure->floor = lane->floor;
    verify->counts.numbers++;
    structure->due++;
    verify_lane_take(lane);
    verify_numbers_wake(verify, structure);
}

/* Takes numbers at the head of a lane until one is not due, or something else comes. */
static bool lane_advance(struct verify *verify, struct verify_lane *lane)
{
    const struct record *record;
    while ((record = verify_lane_head(lane)) != NULL) {
        if (record->number != RAW_SEQUENCE_BEFORE && record->number != RAW_SEQUENCE_AFTER)
            return true;
        uint64_t due = verify->structures[record->structure].due;
        if (record->size > due) {
            block(verify, lane, record->structure);
            return true;
        }
        if (record->size < due)
            return verify_violated(verify, VERIFY_NUMBERS, lane,
                                   "the recording has number %" PRIu64 " of structure %" PRIu32
                                   " twice, or after a greater one of this lane",
                                   record->size, record->structure);
        verify_numbers_take_number(verify, lane, record);
    }
    return true;
}

bool verify_numbers_follow(struct verify *verify, struct verify_lane *lane)
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
    return verify_numbers_follow(verify, lane);
}

/* If lanes wait for a number of the structure that no lane has, skips to the next one that a lane
 * has. */
static bool pass_over(struct verify *verify, uint32_t structure_number)
{
    struct verify_structure *structure = &verify->structures[structure_number];
    if (structure->blocked == 0) return false;
    uint64_t next = verify_raw_next_number(&verify->raw, structure_number, structure->due);
    if (next == structure->due) return false;
    verify->counts.numbers_missing += next - structure->due;
    structure->due = next;
    verify_numbers_wake(verify, structure);
    return true;
}

bool verify_numbers_pass_over(struct verify *verify)
{
    bool passed = false;
    for (uint32_t i = 0; i < RAW_STRUCTURES; i++)
        passed |= pass_over(verify, i);
    return passed && verify_numbers_follow(verify, NULL);
}
