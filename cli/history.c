#include "cli/history.h"

#include <stdlib.h>
#include <string.h>

bool history_init(struct history *history)
{
    *history = (struct history){
        .records = malloc(HISTORY_POSITIONS * sizeof *history->records),
        .stamps = malloc(HISTORY_STAMPS * sizeof *history->stamps),
        .sorted = malloc(HISTORY_STAMPS * sizeof *history->sorted),
        .reached = malloc(HISTORY_POSITIONS),
        .lanes = malloc(RAW_LANES_MAX),
        .end = 1,
    };
    return history->records != NULL && history->stamps != NULL && history->sorted != NULL &&
           history->reached != NULL && history->lanes != NULL;
}

void history_free(struct history *history)
{
    free(history->records);
    free(history->stamps);
    free(history->sorted);
    free(history->reached);
    free(history->lanes);
}

void history_add(struct history *history, uint64_t position, struct history_record record)
{
    for (; history->end <= position; history->end++) {
        history->records[history->end % HISTORY_POSITIONS].lane = HISTORY_NO_LANE;
        if (history->end % HISTORY_BLOCK_POSITIONS == 0)
            history->blocks[history->end / HISTORY_BLOCK_POSITIONS % HISTORY_BLOCKS] = 0;
    }
    history->records[position % HISTORY_POSITIONS] = record;
}

/* Puts a stamp whose position is known into the list of its block. */
static void stamp_link(struct history *history, uint32_t place)
{
    struct history_stamp *stamp = &history->stamps[place];
    uint32_t *block = &history->blocks[stamp->position / HISTORY_BLOCK_POSITIONS % HISTORY_BLOCKS];
    if (!history_reaches(history, stamp->position)) return;
    stamp->older = *block;
    *block = place + 1;
}

uint64_t history_add_stamp(struct history *history, uint64_t position, uint32_t structure,
                           uint64_t number)
{
    uint64_t index = history->stamps_end++;
    uint32_t place = (uint32_t)(index % HISTORY_STAMPS);
    history->stamps[place] =
        (struct history_stamp){.position = position, .number = number, .structure = structure};
    if (position != HISTORY_UNKNOWN_POSITION) stamp_link(history, place);
    return index;
}

void history_set_position(struct history *history, uint64_t index, uint64_t position)
{
    uint32_t place = (uint32_t)(index % HISTORY_STAMPS);
    if (index + HISTORY_STAMPS < history->stamps_end) return;
    history->stamps[place].position = position;
    stamp_link(history, place);
}

/* ---- what forced an order ---- */

static int stamps_compare(const void *one, const void *other)
{
    uint64_t a = ((const struct history_stamp *)one)->position;
    uint64_t b = ((const struct history_stamp *)other)->position;
    return (a > b) - (a < b);
}

/* Collects the stamps of the positions from .. to, ascending. Returns how many. */
static size_t stamps_collect(struct history *history, uint64_t from, uint64_t to)
{
    size_t count = 0;
    uint64_t last = to / HISTORY_BLOCK_POSITIONS;
    for (uint64_t block = from / HISTORY_BLOCK_POSITIONS; block <= last; block++) {
        uint32_t next = history->blocks[block % HISTORY_BLOCKS];
        while (next != 0) {
            const struct history_stamp *stamp = &history->stamps[next - 1];
            /* The ring has been around: this one and those behind it have been overwritten. */
            if (stamp->position / HISTORY_BLOCK_POSITIONS != block) break;
            if (stamp->position >= from && stamp->position <= to) history->sorted[count++] = *stamp;
            next = stamp->older;
        }
    }
    qsort(history->sorted, count, sizeof *history->sorted, stamps_compare);
    return count;
}

size_t history_stamps(struct history *history, uint64_t position)
{
    return stamps_collect(history, position, position);
}

/* Whether a record is reached from `from`, by the marks that earlier ones have left. */
static bool is_reached(const struct history *history, uint64_t from, uint64_t position,
                       const struct history_stamp *stamps, size_t stamps_count)
{
    const struct history_record *record = history_at(history, position);
    if (position == from) return true;
    if (record->lane == HISTORY_NO_LANE) return false;
    if (history->lanes[record->lane]) return true;
    if (record->born_at >= from && history->reached[record->born_at - from]) return true;
    for (size_t i = 0; i < stamps_count; i++)
        if (stamps[i].number > history->lowest[stamps[i].structure]) return true;
    return false;
}

bool history_forces(struct history *history, uint64_t from, uint64_t to)
{
    size_t left = stamps_collect(history, from, to);
    const struct history_stamp *stamps = history->sorted;
    memset(history->lanes, 0, RAW_LANES_MAX);
    memset(history->lowest, 0xff, sizeof history->lowest);
    for (uint64_t position = from; position <= to; position++) {
        size_t count = 0;
        while (count < left && stamps[count].position == position)
            count++;
        bool reached = is_reached(history, from, position, stamps, count);
        history->reached[position - from] = reached;
        if (reached) {
            history->lanes[history_at(history, position)->lane] = true;
            for (size_t i = 0; i < count; i++)
                if (stamps[i].number < history->lowest[stamps[i].structure])
                    history->lowest[stamps[i].structure] = stamps[i].number;
        }
        stamps += count;
        left -= count;
    }
    return history->reached[to - from];
}
