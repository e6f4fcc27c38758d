/* work - a slice of the stream, sorted by lane, so that each lane's thread finds its part in one
 * piece.
 *
 *   slice   a1 a2 | b1 | a3 | c1 c2 | b2          in the global order
 *   unit    a1 a2 a3 | b1 b2 | c1 c2              one run for each lane that occurs
 *
 * In a unit, an instruction names a slot instead of a register (slots.h), as threads that share
 * objects want it (shared.h). What nobody carries out is left out: lane, tick and lost.
 *
 * A unit is filled by the dispatcher, handed over, carried out by threads, and filled again. From
 * when it is handed over
 *
 *   unfinished == runs that are not completely carried out; at 0 the unit is the dispatcher's again
 *   run->at    belongs to the thread of run->lane, and everything else is read only. */
#ifndef MALLOCTAPE_REPLAY_WORK_H
#define MALLOCTAPE_REPLAY_WORK_H

#include "common/error.h"
#include "postprocess/instruction_reader.h"
#include "replay/slots.h"

struct work_unit;

/* What a unit has for one lane. */
struct work_run {
    struct work_unit *unit;
    uint32_t lane;
    uint32_t first;   /* index of its first instruction in the unit */
    uint32_t count;   /* instructions */
    uint32_t at;      /* of these, carried out */
    uint32_t borders; /* thread_begin and thread_end among them */
};

struct work_unit {
    uint32_t unfinished; /* atomic */
    uint32_t runs_count;
    struct work_run *runs;
    struct instruction *at;
    uint64_t *operands;
    uint16_t *positions; /* by index in `at`: the index in the batch */
    uint16_t *makers;    /* by index in `at`: the lane that makes the object which ends here */
    uint64_t number;     /* of the batch in the stream */
    uint64_t offset;

    /* The dispatcher's. */
    uint32_t *released; /* slots that are free for all once the unit has been carried out */
    uint32_t released_count;
    uint32_t operands_filled;
};

/* What the dispatcher knows of a lane. */
struct work_lane {
    struct slots_lane slots;
    uint32_t run; /* its run in the unit that is being filled, if `serial` is the unit's */
    uint64_t serial;
};

struct work {
    struct slots slots;
    struct work_lane *lanes;
    uint32_t lane;   /* of the next instruction */
    uint64_t serial; /* of the unit that is being filled, from 1 */
};

bool work_open(struct work *work, struct error *error);
void work_close(struct work *work);

bool work_unit_open(struct work_unit *unit, struct error *error);
void work_unit_close(struct work_unit *unit);

/* Fills a unit, which must not be anybody else's, with the instructions `from` to `to` - 1 of a
 * batch. There must be registers and slots for it. */
void work_fill(struct work *work, struct work_unit *unit, const struct instruction_batch *batch,
               size_t from, size_t to);

/* The batch that a run is. */
struct instruction_batch work_run_batch(const struct work_run *run);

#endif
