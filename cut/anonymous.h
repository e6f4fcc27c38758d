/* anonymous - takes out of a trace, as it passes, what names the machine, the user or the program
 * (docs/cut.md has the promise, field by field); cut*.c only.
 *
 * What is not known to be harmless goes: of metadata only listed keys stay, with values that look as
 * they should; of definitions only numbers; of names of areas only those of the kernel.
 *
 *   batch, definition, mapping, residency --anonymous_...()--> the same, without names
 *
 * Memory: 8 bytes for each code that has a text, the names of files that were resident. */
#ifndef MALLOCTAPE_CUT_ANONYMOUS_H
#define MALLOCTAPE_CUT_ANONYMOUS_H

#include "stream/instruction_reader.h"
#include "stream/mapping.h"
#include "stream/residency.h"
#include "stream/stacks.h"

struct anonymous {
    /* Set before anything else. */
    bool keeps_build_ids, keeps_functions, blurs_sizes, blurs_times;

    uint64_t threads;      /* so far */
    uint64_t ns, given_ns; /* of the latest tick: as it was, as it is given */
    struct stacks texts;   /* of codes, for their functions; and where modules are */
    char **files;          /* names of files: that of file-N is files[N - 1] */
    size_t files_count, files_room;
    uint8_t *payload; /* room for a residency */
    bool no_memory;
};

void anonymous_close(struct anonymous *anonymous);

/* Whether a line of metadata, key=value, stays; or what is put in its place. `end` is behind its last
 * byte. Returns the bytes written to `to`, which has room for the line and 32 bytes. */
size_t anonymous_line(const char *line, const char *end, char *to);

/* Changes a batch that `room` has. */
void anonymous_batch(struct anonymous *anonymous, const struct instruction_batch *batch,
                     struct instruction_room *room);

/* Hands out what is left of a definition, in none or several. */
void anonymous_definition(struct anonymous *anonymous, const struct stack_definition *definition,
                          void (*put)(void *of, const struct stack_definition *definition),
                          void *of);

void anonymous_mapping(struct mapping_record *record);

/* Encodes the areas anew; *at and *end are then in memory of `anonymous`. False: no memory. */
bool anonymous_residency(struct anonymous *anonymous, struct residency *residency,
                         const uint8_t **at, const uint8_t **end);

#endif
