/* address_check - is every object placed where it was in the original? (REPORT.md, "Addresses")
 *
 * Addresses of two processes cannot be compared, but what was at them before can. For each
 * address at which an object ever began, both sides keep the instruction that put the latest
 * object there:
 *
 *   original:  address in the stream     --> instruction, or none yet  \
 *   replay:    address that it returned  --> instruction, or none yet  / equal: a match
 *
 * An object at a wrong address does not make later ones wrong.
 *
 * Memory: at most 64 bytes for each address of a side, from pages_map(). One thread. */
#ifndef MALLOCTAPE_REPLAY_ADDRESS_CHECK_H
#define MALLOCTAPE_REPLAY_ADDRESS_CHECK_H

#include "stream/instruction_reader.h"

/* How many mismatches are kept for the report. */
#define ADDRESS_MISMATCHES_MAX 8

struct address_entry {
    uint64_t address; /* 0: the entry is free */
    uint64_t used_by; /* number of an instruction, from 1 */
};

struct address_table {
    struct address_entry *entries;
    uint64_t capacity, count; /* count <= capacity / 2 */
};

struct address_mismatch {
    uint64_t instruction; /* its number in the stream, from 0 */
    uint64_t size;
    uint8_t opcode;
    uint64_t original, replayed;           /* addresses */
    uint64_t original_last, replayed_last; /* which instruction had used them, from 1; 0: none */
};

struct address_check {
    struct address_table original, replayed;
    uint64_t *addresses; /* that the replay's calls returned, by index in the current batch:
                            INSTRUCTION_BLOCK_MAX entries */
    uint64_t checked, matched;
    struct address_mismatch mismatches[ADDRESS_MISMATCHES_MAX]; /* the first ones */
};

bool address_check_open(struct address_check *check, struct error *error);

/* Compares the first `count` instructions of a batch, which have been carried out. False: see
 * *error. */
bool address_check_batch(struct address_check *check, const struct instruction_batch *batch,
                         size_t count, struct error *error);

#endif
