/* verify_raw - the records of a recording, lane by lane, for a checker that reads its ordered form.
 *
 *   raw_source --chunk--> decoded block --> lane 0: [records][records]
 *                                           lane 7: [records]
 *              --tick---> ticks: [tick][tick]
 *
 * The checker reads as much of the stream as it needs. Records are queued in their lane until the
 * checker takes them. It reads only some windows ahead, so there are not many.
 *
 *   records read == records taken + records queued in lanes
 *
 * Memory  64 bytes for each unit of the chunks whose records are queued. One thread. */
#ifndef MALLOCTAPE_VERIFY_RAW_H
#define MALLOCTAPE_VERIFY_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "reading/raw_source.h"

/* A decoded chunk. */
struct verify_block {
    struct verify_block *next;
    uint64_t offset;       /* of its chunk in the stream, or of its slot in the spool */
    uint64_t first_record; /* of the lane */
    uint32_t window;       /* ticks before it */
    uint32_t taken, count;
    struct record records[];
};

/* Allocations that are lost, according to a record: from .. from + count - 1. */
struct verify_loss {
    uint64_t from, count;
};

/* A record that waits for this allocation of a lane, or a later one, also waits for something from
 * window `floor`. */
struct verify_floor {
    uint64_t allocation; /* number in the lane */
    uint32_t floor;
};

struct verify_lane {
    uint32_t number;
    struct verify_block *first, *last; /* queued blocks; the first one has records left */

    uint64_t known;             /* allocations read so far, lost ones included */
    struct verify_loss *losses; /* of them; ascending */
    size_t losses_count, losses_room;

    uint64_t calls;       /* in the ordered stream so far */
    uint64_t allocations; /* rule 2: in the ordered stream so far, lost ones included */

    /* Rule 3: the structure whose sequence number is next but not yet due, or VERIFY_NOT_BLOCKED;
     * and the next lane in the list of that structure, plus one. */
    uint32_t blocked_on, next_blocked;

    /* Rule 4: the latest window that any record of the lane so far had to wait for, and the
     * allocations at which that changed, in ascending order. */
    uint32_t floor;
    struct verify_floor *floors;
    size_t floors_count, floors_room;
};

#define VERIFY_NOT_BLOCKED UINT32_MAX

/* RAW_PAGE_PLACES places from `first` on are at `address`. `first` 0: the entry is not used. */
struct verify_places {
    uint32_t first;
    uint64_t address;
};

struct verify_raw {
    struct raw_source source;
    struct verify_lane **lanes; /* RAW_LANES_MAX pointers; NULL: nothing was read */
    uint32_t lanes_count;       /* highest lane plus one */
    struct raw_tick *ticks;     /* all that were read; few */
    size_t ticks_count, ticks_room;
    struct verify_places *pages; /* of an opaque stream, by the first place / RAW_PAGE_PLACES */
    size_t pages_room;
    bool lost;  /* a record of lost events has been read */
    bool ended; /* nothing more can be read */
    struct error error;
};

/* Opens the stream at `fd`, whose name is `path`. False: see error. */
bool verify_raw_open(struct verify_raw *raw, int fd, const char *path);

/* Reads one chunk. Returns the lane whose last block has its records. NULL: it was a tick, the end
 * (`ended` is set), or there was an error (`error` is set). */
struct verify_lane *verify_raw_read(struct verify_raw *raw);

/* The lane, which is created if need be; NULL: no memory (error is set). */
struct verify_lane *verify_raw_lane(struct verify_raw *raw, uint32_t number);

/* The next queued record of the lane; NULL: none. */
static inline const struct record *verify_lane_head(const struct verify_lane *lane)
{
    return lane->first != NULL ? &lane->first->records[lane->first->taken] : NULL;
}

/* About the lane's allocations up to number `count`: whether they have been read, whether some were
 * lost, and which is the latest that was recorded. */
static inline bool verify_lane_knows(const struct verify_lane *lane, uint64_t count)
{
    return lane != NULL && count <= lane->known;
}
static inline bool verify_lane_has_lost(const struct verify_lane *lane, uint64_t count)
{
    return lane != NULL && lane->losses_count > 0 && lane->losses[0].from <= count;
}
uint64_t verify_lane_last_recorded(const struct verify_lane *lane, uint64_t count);

/* The address of a place; 0: the recording has not given it. */
uint64_t verify_raw_address(const struct verify_raw *raw, uint32_t place);

/* Removes the record that verify_lane_head() returns, which is invalid afterwards. */
void verify_lane_take(struct verify_lane *lane);

/* The lowest number of the structure, from `from` on, among queued records; UINT64_MAX: none.
 * Searches all of them, so it is for rare cases. */
uint64_t verify_raw_next_number(const struct verify_raw *raw, uint32_t structure, uint64_t from);

void verify_raw_close(struct verify_raw *raw);

/* Whether the bound counts an allocation whose place is not known (raw_decoder's `unplaced`), among
 * those read so far. */
bool verify_raw_has_unplaced(const struct verify_raw *raw, uint64_t bound);

/* The first underrun of a decoder, or NULL. */
const struct error *verify_raw_underrun(const struct verify_raw *raw);

#endif
