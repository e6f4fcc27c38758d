/* verify_raw - the records of a recording, lane by lane, for a checker that reads its ordered form.
 *
 *   raw_source --chunk--> decoded block --> lane 0: [records][records]
 *                                           lane 7: [records]
 *              --tick---> ticks: [tick][tick]
 *
 * The checker reads as much of the stream as it needs. Records wait in their lane until the checker
 * takes them. It reads only some windows ahead, so they are not many.
 *
 *   records read == records taken + records that wait in lanes
 *
 * Memory  64 bytes for each unit of the chunks whose records wait. One thread. */
#ifndef MALLOCTAPE_VERIFY_RAW_H
#define MALLOCTAPE_VERIFY_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/raw_source.h"

/* A decoded chunk. */
struct verify_block {
    struct verify_block *next;
    uint64_t offset;       /* of its chunk in the stream, or of its slot in the spool */
    uint64_t first_record; /* of the lane */
    uint32_t window;       /* ticks before it */
    uint32_t taken, count;
    struct record records[];
};

/* Allocations that a record says are lost: from .. from + count - 1. */
struct verify_loss {
    uint64_t from, count;
};

/* A record that waits for this allocation of a lane, or for a later one, waits for something of
 * window `floor`, too. */
struct verify_floor {
    uint64_t allocation; /* number in the lane */
    uint32_t floor;
};

struct verify_lane {
    uint32_t number;
    struct verify_block *first, *last; /* read and not taken; the first one has records left */

    uint64_t known;             /* allocations that were read so far, lost ones included */
    struct verify_loss *losses; /* of them; ascending */
    size_t losses_count, losses_room;

    uint64_t calls;       /* in the ordered stream so far */
    uint64_t allocations; /* rule 2: in the ordered stream so far, lost ones included */

    /* Rule 3: the structure whose sequence number is next but not yet due, or VERIFY_NOT_BLOCKED;
     * and the next lane in the list of that structure, plus one. */
    uint32_t blocked_on, next_blocked;

    /* Rule 4: the latest window that a record of the lane up to here had to wait for, and where
     * that changed, in ascending order. */
    uint32_t floor;
    struct verify_floor *floors;
    size_t floors_count, floors_room;
};

#define VERIFY_NOT_BLOCKED UINT32_MAX

/* The addresses of RAW_PAGE_PLACES places from `first` on; 0: the entry is not used. */
struct verify_places {
    uint32_t first;
    uint64_t address;
};

struct verify_raw {
    struct raw_source source;
    struct verify_lane **lanes; /* RAW_LANES_MAX pointers; NULL where nothing was read */
    uint32_t lanes_count;       /* highest lane plus one */
    struct raw_tick *ticks;     /* all that were read; few */
    size_t ticks_count, ticks_room;
    struct verify_places *pages; /* of an opaque stream, by the first place / RAW_PAGE_PLACES */
    size_t pages_room;
    bool lost;  /* a loss of events has been read */
    bool ended; /* nothing more can be read */
    struct error error;
};

/* Opens the stream at `fd`, whose name is `path`. False: see error. */
bool verify_raw_open(struct verify_raw *raw, int fd, const char *path);

/* Reads one chunk. Returns the lane whose last block now has its records. NULL: it was a tick, the
 * end (`ended` is set), or there is an error (`error` is set). */
struct verify_lane *verify_raw_read(struct verify_raw *raw);

/* The lane, made if need be; NULL: no memory (error is set). */
struct verify_lane *verify_raw_lane(struct verify_raw *raw, uint32_t number);

/* The next record of the lane that was read and not taken; NULL: none. */
static inline const struct record *verify_lane_head(const struct verify_lane *lane)
{
    return lane->first != NULL ? &lane->first->records[lane->first->taken] : NULL;
}

/* Of the lane's allocations up to number `count`: whether they have been read, whether some of them
 * were lost, and the latest that was recorded. */
static inline bool verify_lane_knows(const struct verify_lane *lane, uint64_t count)
{
    return lane != NULL && count <= lane->known;
}
static inline bool verify_lane_has_lost(const struct verify_lane *lane, uint64_t count)
{
    return lane != NULL && lane->losses_count > 0 && lane->losses[0].from <= count;
}
uint64_t verify_lane_last_recorded(const struct verify_lane *lane, uint64_t count);

/* The address of a place; 0: the recording has not said it. */
uint64_t verify_raw_address(const struct verify_raw *raw, uint32_t place);

/* Takes the record that verify_lane_head() shows, which is gone then. */
void verify_lane_take(struct verify_lane *lane);

/* The lowest number of the structure, from `from` on, among the records that wait in lanes;
 * UINT64_MAX: none. Looks through all of them: for rare cases. */
uint64_t verify_raw_next_number(const struct verify_raw *raw, uint32_t structure, uint64_t from);

void verify_raw_close(struct verify_raw *raw);

/* Whether the bound counts an allocation whose place is not known (raw_decoder's `unplaced`), as
 * far as has been read. */
bool verify_raw_has_unplaced(const struct verify_raw *raw, uint64_t bound);

/* The first underrun of a decoder, or NULL. */
const struct error *verify_raw_underrun(const struct verify_raw *raw);

#endif
