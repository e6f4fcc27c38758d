/* cut_copy - passes instructions on, one by one, to a writer, with what a plan leaves out left out;
 * cut*.c only.
 *
 *   names[i], i < live    the register in the new stream of the object with index i; NO_REGISTER: it
 *                         is not there
 *
 * Memory: 4 bytes for each live object, and mappings until the next batch. */
#ifndef MALLOCTAPE_CUT_CUT_COPY_H
#define MALLOCTAPE_CUT_CUT_COPY_H

#include "cut/cut.h"
#include "cut/cut_code.h"
#include "stream/mapping.h"
#include "stream/residency.h"

#define CUT_MAPPINGS    256u
#define CUT_PATHS_BYTES (8 * MAPPING_NAME_BYTES_MAX)

struct cut_copy {
    const struct cut_plan *plan;
    struct cut_counts *counts;
    struct instruction_writer writer;
    uint32_t *names;
    uint64_t live, capacity;
    uint32_t lane; /* the current one of the trace */
    uint64_t ways; /* of the next call; with has_ways */
    bool has_ways, free_missed, freed_twice;
    struct original_statistics statistics;
    const struct instruction_tick *tick;          /* the next one of the batch */
    uint8_t *residency;                           /* room for a payload, or NULL */
    struct mapping_record mappings[CUT_MAPPINGS]; /* that wait to be put in one block */
    size_t mappings_count;
    char paths[CUT_PATHS_BYTES]; /* theirs */
    size_t paths_bytes;
};

/* Room for the live objects of a batch. False: no memory. */
bool cut_copy_reserve(struct cut_copy *copy, uint64_t more);

/* Passes on the instruction that `walk` has just returned. */
void cut_copy_instruction(struct cut_copy *copy, const struct instruction_walk *walk,
                          const struct instruction *one);

/* The same of a mapping and a residency, where they stand. */
void cut_copy_mapping(struct cut_copy *copy, const struct mapping_record *record);
void cut_copy_residency(struct cut_copy *copy, const struct residency *residency, const uint8_t *at,
                        const uint8_t *end);

/* Puts the mappings that wait: before anything that comes after them. */
void cut_copy_put_mappings(struct cut_copy *copy);

void cut_copy_close(struct cut_copy *copy);

/* Whether a call of this lane that asks for this size, at this stack, is chosen. */
static inline bool cut_is_chosen(const struct cut_plan *plan, uint32_t lane, uint64_t size,
                                 uint32_t stack)
{
    return cut_ranges_have(&plan->lanes, lane) && cut_ranges_have(&plan->sizes, size) &&
           (plan->code == NULL || cut_code_has(plan->code, stack, size));
}

#endif
