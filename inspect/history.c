#include "inspect/history.h"

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

bool history_lasted(struct history *history, uint64_t position)
{
    if (!history_reaches(history, position)) return false;
    return history_at(history, position)->split || stamps_collect(history, position, position) > 1;
}

void history_split(struct history *history, uint64_t position)
{
    if (history_reaches(history, position))
        history->records[position % HISTORY_POSITIONS].split = true;
}

/* Whether a record is reached from `from`, by the marks that earlier ones have left. */
static bool is_reached(const struct history *history, uint64_t from, uint64_t position,
                       const struct history_stamp *stamps, size_t stamps_count)
{
    const struct history_record *record = history_at(history, position);
    if (position == from) return true;
    if (record->lane == HISTORY_NO_LANE) return false;
    if (history->lanes[record->lane]) return true;
    if (record->bound_at >= from && history->reached[record->bound_at - from]) return true;
    for (size_t i = 0; i < stamps_count; i++)
        if (stamps[i].number > history->lowest[stamps[i].structure]) return true;
    return false;
}

/* A walk from one record on, marking what had to come after it. */
struct history_walk {
    uint64_t from, position;
    const struct history_stamp *stamps; /* those of later positions */
    size_t left;
};

static struct history_walk walk_begin(struct history *history, uint64_t from, uint64_t to)
{
    size_t count = stamps_collect(history, from, to);
    memset(history->lanes, 0, RAW_LANES_MAX);
    memset(history->lowest, 0xff, sizeof history->lowest);
    return (struct history_walk){from, from, history->sorted, count};
}

/* Whether the record at walk->position is reached; goes on to the next one. */
static bool walk_step(struct history *history, struct history_walk *walk)
{
    uint64_t position = walk->position++;
    size_t count = 0;
    while (count < walk->left && walk->stamps[count].position == position)
        count++;
    bool reached = is_reached(history, walk->from, position, walk->stamps, count);
    history->reached[position - walk->from] = reached;
    if (reached) {
        history->lanes[history_at(history, position)->lane] = true;
        for (size_t i = 0; i < count; i++)
            if (walk->stamps[i].number < history->lowest[walk->stamps[i].structure])
                history->lowest[walk->stamps[i].structure] = walk->stamps[i].number;
    }
    walk->stamps += count;
    walk->left -= count;
    return reached;
}

bool history_forces(struct history *history, uint64_t from, uint64_t to)
{
    struct history_walk walk = walk_begin(history, from, to);
    while (walk.position < to)
        walk_step(history, &walk);
    return walk_step(history, &walk);
}

bool history_leads_to_window(struct history *history, uint64_t from, uint32_t window)
{
    struct history_walk walk = walk_begin(history, from, history->end - 1);
    while (walk.position < history->end)
        if (walk_step(history, &walk) && history_at(history, walk.position - 1)->window <= window)
            return true;
    return false;
}
