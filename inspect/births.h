/* births - which births a raw stream has, as far as it has been read.
 *
 * The bound of a death may count births that are in a chunk that comes later, were lost, or did not
 * make it into the stream at all (FORMAT.md 2.5, 3, 4.4). Per lane:
 *
 *   births    1 ............ known                       read so far
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
    uint64_t from, count; /* births from .. from + count - 1 */
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

/* What is known about the latest birth that the bound (raw_births()) counts; it counts one. */
enum birth births_find(const struct births *births, uint64_t bound);

/* Whether births that the bound counts were lost. */
bool births_have_lost(const struct births *births, uint64_t bound);

/* The bound without the latest births that it counts, as far as those were lost. */
uint64_t births_last_recorded(const struct births *births, uint64_t bound);

void births_free(struct births *births);

#endif
