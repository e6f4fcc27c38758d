/* verify_raw - what a recording says, lane by lane, for a checker that walks along its ordered form.
 *
 *   raw_source --chunk--> decoded block --> lane 0: [records][records]
 *                                           lane 7: [records]
 *              --tick---> ticks: [tick][tick]
 *
 * The stream is read as far as the checker needs it. What was read and not taken waits in the lanes; the
 * checker bounds it, by not reading more than some windows ahead.
 *
 *   records read == records taken + records that wait in lanes
 *
 * Memory  64 bytes for each unit of the chunks whose records wait. One thread. */
#ifndef MALLOCTAPE_VERIFY_RAW_H
#define MALLOCTAPE_VERIFY_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/births.h"
#include "inspect/raw_source.h"

/* A decoded chunk. */
struct verify_block {
    struct verify_block *next;
    uint64_t offset;       /* of its chunk in the stream, or of its slot in the spool */
    uint64_t first_record; /* of the lane */
    uint32_t window;       /* ticks before it */
    uint32_t taken, count, room;
    struct record records[];
};

/* A birth in the ordered stream. */
struct verify_birth {
    uint64_t position; /* 0: none */
    uint32_t number;   /* the low bits of it, in its lane */
    uint32_t floor;    /* rule 4 */
};

struct verify_lane {
    uint32_t number;
    struct verify_block *first, *last; /* read and not taken; the first one has records left */

    uint64_t births;             /* rule 2: in the ordered stream so far, lost ones included */
    struct verify_birth *latest; /* of them: a ring by number */
    uint32_t latest_room;        /* a power of two, or 0 */

    uint32_t floor;         /* rule 4: the latest window that anything up to here has to wait for */
    uint64_t units;         /* rule 3: units emitted so far */
    uint64_t unit_position; /* and the position of the latest one */
    uint32_t unit_window;   /* and its window in the recording */
    uint32_t blocked_on; /* structure whose stamp is next but not yet due, or VERIFY_NOT_BLOCKED */
    uint32_t next_blocked;        /* lane plus one, in the list of that structure */
    struct verify_before *before; /* stamps taken on behalf of the next unit */
    uint32_t before_count, before_room;
    uint32_t open_inversions; /* that wait for a unit of this lane */
};

#define VERIFY_NOT_BLOCKED UINT32_MAX

struct verify_raw {
    struct raw_source source;
    struct births births;
    struct verify_lane **lanes; /* RAW_LANES_MAX pointers; NULL where nothing was read */
    uint32_t lanes_count;       /* highest lane plus one */
    struct raw_tick *ticks;     /* all that were read; few */
    size_t ticks_count, ticks_room;
    bool ended; /* nothing more can be read */
    struct verify_block *unused;
    struct error error;
};

/* Opens the stream at `fd`, whose name is `path`. False: see error. */
bool verify_raw_open(struct verify_raw *raw, int fd, const char *path);

/* Reads one chunk. Returns the lane that has got records by it, as its last block; or NULL after a tick, at the
 * end (ended is set) and after an error (error is set). */
struct verify_lane *verify_raw_read(struct verify_raw *raw);

/* The lane, made if need be; NULL: no memory (error is set). */
struct verify_lane *verify_raw_lane(struct verify_raw *raw, uint32_t number);

/* The next record of the lane that was read and not taken; NULL: none. */
static inline const struct record *verify_lane_head(const struct verify_lane *lane)
{
    return lane->first != NULL ? &lane->first->records[lane->first->taken] : NULL;
}

static inline void verify_raise_floor(struct verify_lane *lane, uint32_t floor)
{
    if (floor > lane->floor) lane->floor = floor;
}

/* Takes the record that verify_lane_head() shows; it stays readable until the next read. */
void verify_lane_take(struct verify_raw *raw, struct verify_lane *lane);

/* Whether a record that waits in a lane has this number of the structure. Looks through all of them:
 * for rare cases. */
bool verify_raw_has_number(const struct verify_raw *raw, uint32_t structure, uint64_t number);

void verify_raw_close(struct verify_raw *raw);

#endif
