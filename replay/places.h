/* places - does every object come to lie where it lay in the original? (REPORT.md, "Addresses")
 *
 * Addresses of two processes cannot be compared, but what was at them before can. Both sides keep,
 * for each address at which an object ever began, the instruction that put the latest one there:
 *
 *   original:  address in the stream     --> instruction, or none yet  \
 *   replay:    address that it returned  --> instruction, or none yet  / equal: the same place
 *
 * A mistake of one object costs that object, and does not make later ones wrong by itself.
 *
 * Memory: 16 bytes, at most doubled twice, for each address, from pages_map(). One thread. */
#ifndef MALLOCTAPE_REPLAY_PLACES_H
#define MALLOCTAPE_REPLAY_PLACES_H

#include "postprocess/instruction_reader.h"

/* How many objects that are not where they should be are kept for the report. */
#define PLACES_MISMATCHES_MAX 8

struct place {
    uint64_t address; /* 0: the entry is free */
    uint64_t used_by; /* number of an instruction, from 1 */
};

struct place_table {
    struct place *places;
    uint64_t capacity, count; /* count <= capacity / 2 */
};

struct place_mismatch {
    uint64_t instruction; /* its number in the stream, from 0 */
    uint64_t size;
    uint8_t opcode;
    uint64_t original, replayed;           /* addresses */
    uint64_t original_last, replayed_last; /* which instruction had used them, from 1; 0: none */
};

struct places {
    struct place_table original, replayed;
    uint64_t *addresses; /* of the batch that is being carried out, by index: INSTRUCTION_BLOCK_MAX
                            entries */
    uint64_t checked, matched;
    struct place_mismatch mismatches[PLACES_MISMATCHES_MAX]; /* the first ones */
};

bool places_open(struct places *places, struct error *error);
void places_close(struct places *places);

/* Takes in the first `count` instructions of a batch, which have been carried out. False: see
 * *error. */
bool places_compare(struct places *places, const struct instruction_batch *batch, size_t count,
                    struct error *error);

#endif
