/* order - one legal sequence out of the records of all lanes (FORMAT.md 6).
 *
 *   chunks, as they come            lanes                                   instruction_writer
 *   [0][1][0][tick][1][0]...  -->   lane 0: [chunk][chunk] -> records -+
 *                                   lane 1: [chunk] -> records --------+--> one sequence
 *                                   ...                                |
 *
 * A lane runs until it comes to a record that must wait. There are two things to wait for, and a
 * lane waits for one of them at a time: allocations of another lane, or its turn in a structure
 * (the next number). It then stands in the list of that lane or structure and costs nothing until
 * the allocation or the number has come. The real execution is a witness that there is always a
 * lane that can go on; when there is none, the stream is damaged.
 *
 * Any order that obeys the four rules is legal. Of those, this one is meant to be near to what
 * happened:
 *
 * - A call with its sequence numbers before and after it is a step,
 *
 *       sequence_before* call sequence_after*
 *
 *   that is taken as a whole: when the object it ends is there and it is its turn in all its
 *   structures. A thread may have dropped one lock to take another, and others have come between.
 *   So when nothing goes on, one step is split (enum step_state): its numbers are taken when
 *   it is their turn, its call with its last number before it or its first number after it.
 * - Windows follow one another. A tick is not simultaneous in all lanes, so the last records of a
 *   window may wait for the first ones of the next; only then is the next one let in before the
 *   window has ended. Lanes that wait for what is not there either are late: windows end without
 *   them until it comes.
 * - Within a window lanes take turns of a fraction of what they have in it, as their threads will
 *   have done.
 *
 * Memory   live objects (object_table), the chunks of one or two windows, some KiB for each lane.
 * Cost     per call a lookup or an entry in a table, and the writer's few stores.
 * Threads  one. */
#ifndef MALLOCTAPE_ORDER_H
#define MALLOCTAPE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "postprocess/order_totals.h"
#include "stream/instruction_writer.h"
#include "stream/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

struct order;

struct order_options {
    /* Damage does not end it: what cannot be ordered is left out, or goes on without what it waits
     * for. */
    bool salvage;
    /* Once this many bytes of chunks cannot be ordered, what is missing is no longer waited for.
     * 0: 1 GiB. */
    uint64_t patience_bytes;
    /* Which pages of large objects were ever resident, or NULL. Stays the caller's. */
    const struct touched_table *touched;
};

/* For what the reader, which has been opened, reads. NULL: no memory. */
struct order *order_new(struct raw_reader *reader, struct instruction_writer *writer,
                        const struct order_options *options);
void order_free(struct order *order);

/* Takes the next chunk of records, which it will free. The functions that return bool return false
 * after damage: see order_error(). */
bool order_chunk(struct order *order, struct raw_chunk *chunk);

/* Takes the next chunk of mappings or of residency, which it will free. */
void order_pass(struct order *order, struct raw_chunk *chunk);

/* The window ends here. Orders what can be ordered. */
bool order_tick(struct order *order, const struct raw_tick *tick);

/* There is no more. Orders the rest. What may be missing at the end of a recording (FORMAT.md 4.4)
 * is done without. */
bool order_end(struct order *order);

/* Compares with the end chunk, after order_end(). */
bool order_check_totals(struct order *order, const struct raw_end *end);

const struct error *order_error(const struct order *order);

/* The first damage that was left out, or no error. */
const struct error *order_damage(const struct order *order);
const struct order_totals *order_totals_of(const struct order *order);

#ifdef __cplusplus
}
#endif
#endif
