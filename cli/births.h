/* births - which objects of a raw stream were born, as far as it has been read.
 *
 * A death may name an object whose birth is in a chunk that comes later, was lost, or did not make it into the
 * stream at all (FORMAT.md 3, 4.4). Per lane:
 *
 *   serials   1 ............ known                       read so far
 *                [lost] [lost]                           of them, named by `lost` records
 *
 * Memory  two numbers for each lane and each loss. One thread. */
#ifndef MALLOCTAPE_BIRTHS_H
#define MALLOCTAPE_BIRTHS_H

#include <stdbool.h>
#include <stdint.h>

enum birth {
    BIRTH_NOT_SEEN, /* its lane has not got so far */
    BIRTH_RECORDED,
    BIRTH_LOST
};

struct births_loss {
    uint64_t from, count; /* serials from .. from + count - 1 */
};

struct births_lane {
    uint64_t known;
    struct births_loss *losses; /* ascending */
    uint32_t losses_count, losses_room;
};

/* All zero is valid and empty. */
struct births {
    struct births_lane *lanes;
    uint32_t lanes_count;
};

/* Notes that the next `count` births of a lane were recorded, or lost. False: no memory. */
bool births_add(struct births *births, uint32_t lane, uint64_t count, bool lost);

/* Births of a lane so far, lost ones included. */
uint64_t births_known(const struct births *births, uint32_t lane);

/* What is known about the object of this token, which is not the unknown one. */
enum birth births_find(const struct births *births, uint64_t token);

void births_free(struct births *births);

#endif
