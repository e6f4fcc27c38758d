/* stack_cells - the cells of stack_tally: what the objects of one call stack and one class of sizes did.
 *
 *   node --first_of--> cell --next--> cell      of one stack: few, the latest one that was used first
 *   no stack --of_none--> cell                  by class
 *
 * A class is a kind of calls and, where only some of these have stacks, a size within 3 %
 * (common/histogram.h): samples of a class divide it. Where all have stacks, it is the number of
 * bits of the size, so that there are few.
 *
 * Memory: 160 bytes a cell, 4 for the greatest node. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_STACK_CELLS_H
#define MALLOCTAPE_SYMBOLS_STACK_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/histogram.h"
#include "common/live.h"

enum stack_measure {
    STACK_MADE,
    STACK_AT_PEAK,
    STACK_AT_END,
    STACK_SHORT_LIVED,  /* made, and ended after at most STACK_SHORT_CALLS calls */
    STACK_REMOTE,       /* made, and ended by another thread */
    STACK_GROWN,        /* an object made larger, as below; bytes: by how much */
    STACK_FREED,        /* by a free there */
    STACK_FREED_REMOTE, /* the same, of another thread's objects */
    STACK_MAPPED,       /* pieces of mappings that it made, and what of them was resident */
    STACK_MEASURES
};

/* Kinds of calls with classes of their own: each has HISTOGRAM_BUCKETS numbers, in this order. Of
 * two that differ in size only, calls of the second one are also sampled by bytes. */
enum stack_calls {
    STACK_ALLOCATIONS,
    STACK_LARGE_ALLOCATIONS,
    STACK_REALLOCS,
    STACK_LARGE_REALLOCS,
    STACK_FREES,
    STACK_REMOTE_FREES,
    STACK_MAPPINGS,
    STACK_CALLS
};
enum { STACK_CLASSES = STACK_CALLS * HISTOGRAM_BUCKETS };

struct stack_amount {
    uint64_t objects, bytes;
};

/* Classes of lifetimes beyond STACK_SHORT_CALLS: at most 1 000 calls, 10 000, 100 000, 1 000 000,
 * more. */
enum { STACK_LIFETIMES = 5 };

/* What a cell counts by itself; a kind of calls has at most so many measures. */
enum { STACK_AMOUNTS = 4 };

struct stack_cell {
    uint32_t stack; /* a node, 0: none; after stack_tally_end() an index of `stacks` */
    uint32_t next;  /* of the same stack: 1 + its index; 0: none */
    uint16_t size_class;
    uint16_t bucket; /* stack_times.h: the one in which it was used last */
    bool has_base;   /* stack_times.c's: some of its objects were there before */
    struct stack_amount amounts[STACK_AMOUNTS];
    uint64_t lived[STACK_LIFETIMES]; /* of its objects, those that ended, by lifetime */
    struct live live;
};

static inline enum stack_calls stack_cell_calls(const struct stack_cell *cell)
{
    return (enum stack_calls)(cell->size_class / HISTOGRAM_BUCKETS);
}

/* Where in `amounts` a measure of the cell's kind of calls is; not of STACK_AT_PEAK, _AT_END. */
static inline unsigned stack_measure_at(enum stack_measure measure)
{
    static const uint8_t at[STACK_MEASURES] = {0, 0, 0, 1, 2, 3, 0, 1, 0};
    return at[measure];
}

/* The kinds of calls that a measure is of: from *from until before *until. */
void stack_measure_calls(enum stack_measure measure, enum stack_calls *from,
                         enum stack_calls *until);

/* An amount of a settled cell of a kind of calls that the measure is of. */
static inline struct stack_amount stack_cell_amount(const struct stack_cell *cell,
                                                    enum stack_measure measure)
{
    switch (measure) {
    case STACK_AT_PEAK:
        return (struct stack_amount){cell->live.peak_objects, cell->live.peak_bytes};
    case STACK_AT_END: return (struct stack_amount){cell->live.objects, cell->live.bytes};
    default: return cell->amounts[stack_measure_at(measure)];
    }
}

struct stack_cells {
    struct stack_cell *at; /* NULL: none */
    size_t count;

    /* From here on: stack_cells.c only. */
    size_t room;
    uint32_t *first_of; /* by node: 1 + the index of a cell */
    uint64_t first_of_room;
    uint32_t *of_none; /* by class: the same of what has no stack */
};

/* False: no memory. */
bool stack_cells_open(struct stack_cells *cells);
void stack_cells_close(struct stack_cells *cells);

/* Makes room for so many more cells, of nodes up to `node`. False: no memory. */
bool stack_cells_reserve(struct stack_cells *cells, size_t more, uint32_t node);

/* The cell of a node (0: none) and a class; there is room for one more. */
uint32_t stack_cells_find(struct stack_cells *cells, uint32_t node, unsigned size_class);

/* Numbers the nodes that have cells from 1 on, and puts that number into the cells' `stack`. *nodes:
 * a new array of the nodes, ascending, with 0 first; returns how many. 0: no memory.
 * stack_cells_find() is then over. */
size_t stack_cells_number(struct stack_cells *cells, uint32_t **nodes);

/* The number that stack_cells_number() gave a node; 0: it has no cells. */
static inline uint32_t stack_cells_number_of(const struct stack_cells *cells, uint32_t node)
{
    return node < cells->first_of_room ? cells->first_of[node] : 0;
}

/* Sorts the cells by class and stack; indices of cells are then over. */
void stack_cells_sort(struct stack_cells *cells);

#endif
