/* history - the latest part of an ordered stream, to find out what forced two records into their order.
 *
 * A record has a position in the ordered stream. It had to come before a later one if a chain of these leads from
 * one to the other, each step forward in the stream:
 *
 *   lane     both are of one lane (FORMAT.md 6, rule 1)
 *   object   the later one has a bound, and the earlier one is the last birth that it counts (rule 2)
 *   number   both entered a structure, the later one with the higher number (rule 3)
 *
 * The history is bounded: so many positions, so many stamps. Stamps are found by position:
 *
 *   blocks   [ of positions 0..4095 ] [ 4096..8191 ] ...      the latest stamp of each block
 *                  |
 *                  +--> stamp --> stamp --> ...               older ones of the same block
 *
 * One thread. Memory: what was touched of some 200 MiB. */
#ifndef MALLOCTAPE_HISTORY_H
#define MALLOCTAPE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/raw_format.h"

/* At some ten million events a second and a window of 10 ms, several windows. */
#define HISTORY_POSITIONS (UINT64_C(1) << 22)
#define HISTORY_STAMPS    (UINT64_C(1) << 20)

#define HISTORY_BLOCK_POSITIONS UINT64_C(4096) /* a power of two, less than HISTORY_POSITIONS */
#define HISTORY_BLOCKS          (HISTORY_POSITIONS / HISTORY_BLOCK_POSITIONS)

#define HISTORY_NO_LANE UINT32_MAX

/* Of a stamp whose record has not been emitted yet. */
#define HISTORY_UNKNOWN_POSITION UINT64_MAX

struct history_record {
    uint64_t
        bound_at;    /* position of the last birth that its bound counts; 0: none in another lane */
    uint64_t number; /* of the record in its lane, for messages */
    uint32_t window; /* in which the recording has it */
    uint32_t lane;   /* HISTORY_NO_LANE: nothing of interest at this position */
    bool split;      /* a tick lies between it and one of its stamps */
};

struct history_stamp {
    uint64_t position, number;
    uint32_t structure;
    uint32_t older; /* the next of its block: place in the ring plus one, 0: none */
};

struct history {
    struct history_record *records; /* position modulo HISTORY_POSITIONS */
    uint64_t end;                   /* behind the latest position */
    struct history_stamp *stamps;   /* index modulo HISTORY_STAMPS */
    uint64_t stamps_end;
    uint32_t blocks[HISTORY_BLOCKS]; /* the latest stamp: place in the ring plus one, 0: none */
    /* Scratch of history_forces(). */
    struct history_stamp *sorted;
    uint8_t *reached, *lanes;
    uint64_t lowest[RAW_STRUCTURES];
};

/* False: no memory. */
bool history_init(struct history *history);
void history_free(struct history *history);

/* Notes a record. Positions begin with 1 and ascend; those left out have nothing of interest. */
void history_add(struct history *history, uint64_t position, struct history_record record);

/* The record at a position that history_reaches(). */
static inline const struct history_record *history_at(const struct history *history,
                                                      uint64_t position)
{
    return &history->records[position % HISTORY_POSITIONS];
}

/* Notes a stamp; its position may be told later, by the index that is returned. */
uint64_t history_add_stamp(struct history *history, uint64_t position, uint32_t structure,
                           uint64_t number);
void history_set_position(struct history *history, uint64_t index, uint64_t position);

/* Whether the history still has this position. */
static inline bool history_reaches(const struct history *history, uint64_t position)
{
    return position + HISTORY_POSITIONS > history->end;
}

/* Whether the record at `from` had to come before the one at `to`, from < to; both are reached. Takes time in
 * proportion to their distance. */
bool history_forces(struct history *history, uint64_t from, uint64_t to);

/* Whether something of `window` or before had to come after the record at `from`, as far as the history goes. */
bool history_leads_to_window(struct history *history, uint64_t from, uint32_t window);

/* Whether the record at this position took a while: it has several stamps, or is split. */
bool history_lasted(struct history *history, uint64_t position);

/* Notes that the record at this position is split. */
void history_split(struct history *history, uint64_t position);

#endif
