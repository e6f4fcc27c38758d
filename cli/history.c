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
    for (; history->end < position; history->end++)
        history->records[history->end % HISTORY_POSITIONS].lane = HISTORY_NO_LANE;
    history->records[position % HISTORY_POSITIONS] = record;
    history->end = position + 1;
}

uint64_t history_add_stamp(struct history *history, uint64_t position, uint32_t structure,
                           uint64_t number)
{
    history->stamps[history->stamps_end % HISTORY_STAMPS] =
        (struct history_stamp){position, number, structure};
    return history->stamps_end++;
}

void history_set_position(struct history *history, uint64_t index, uint64_t position)
{
    if (index + HISTORY_STAMPS >= history->stamps_end)
        history->stamps[index % HISTORY_STAMPS].position = position;
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
    uint64_t kept = history->stamps_end < HISTORY_STAMPS ? history->stamps_end : HISTORY_STAMPS;
    for (uint64_t i = 0; i < kept; i++)
        if (history->stamps[i].position >= from && history->stamps[i].position <= to)
            history->sorted[count++] = history->stamps[i];
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
