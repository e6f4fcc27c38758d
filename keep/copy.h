/* copy - passes an ordered stream on, instruction by instruction, into a writer.
 *
 *   batch --index in the row of live objects--> names --register of the writer--> writer
 *
 * So a stream can go on in a writer that has made the same objects in another order: behind the base
 * of a segment (segments.h), or behind the end of the one before (joined.h).
 *
 * Memory   4 bytes for each live object. Threads: one at a time. */
#ifndef MALLOCTAPE_KEEP_COPY_H
#define MALLOCTAPE_KEEP_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/instruction_reader.h"
#include "stream/instruction_writer.h"

struct copy {
    struct instruction_writer *writer; /* NULL: nothing is put */
    uint32_t *names;                   /* by index: the object's register in the writer */
    uint64_t capacity, live;
    uint64_t calls[CALL_KINDS]; /* those of a base left out */
    uint64_t all_calls;
    uint64_t ns; /* since the recording began */
    uint64_t rss_bytes, heap_bytes;
    struct original_statistics statistics;
    uint32_t lane;
    bool has_ways, free_missed, freed_twice; /* said of the next call */
    uint64_t ways;
};

/* Takes a batch with indices. False: no memory. */
bool copy_take(struct copy *copy, const struct instruction_batch *batch);

/* What comes between batches. */
void copy_take_definition(struct copy *copy, const struct stack_definition *definition);
void copy_take_mapping(struct copy *copy, const struct mapping_record *record);
void copy_take_residency(struct copy *copy, const struct residency *residency, const uint8_t *at,
                         const uint8_t *end);

/* Makes room for the names of `live` objects. False: no memory. */
bool copy_reserve(struct copy *copy, uint64_t live);

void copy_free(struct copy *copy);

#endif
