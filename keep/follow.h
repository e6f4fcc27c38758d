/* follow - takes a stream as it comes: copies it (copy.h), and knows with what a trace could begin
 * now (base/base.h).
 *
 *   reader --batches, definitions, mappings--> base --(at the beginning of a segment)--> writer
 *                                         \--> copy -----------------------------------> writer */
#ifndef MALLOCTAPE_KEEP_FOLLOW_H
#define MALLOCTAPE_KEEP_FOLLOW_H

#include "base/base.h"
#include "keep/copy.h"
#include "keep/owned.h"

struct follow {
    struct copy copy;
    struct base base;
    struct owned owned;
    const struct instruction_header *header;
    const char *problem; /* with what is defined; NULL: none */
};

/* Connects with a reader that has not read a block yet. False: no memory. */
bool follow_open(struct follow *follow, struct instruction_reader *reader);
void follow_close(struct follow *follow);

/* False: no memory. */
bool follow_take(struct follow *follow, const struct instruction_batch *batch);

/* Writes a base, and copies into this writer from now on. `rows` gets an entry for each of `*live`
 * objects by its index in the new stream: its index in the one before, if there was one. False: no
 * memory; the copy goes on where it was. */
bool follow_turn(struct follow *follow, struct instruction_writer *to, uint32_t **rows,
                 uint64_t *live);

#endif
