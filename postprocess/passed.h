/* passed - chunks that ordering passes on as they are: mappings and residency (FORMAT.md 4.5, 4.6).
 *
 * Mappings are in their own order already; of calls it is known in which window they were made, and
 * what the thread had done before. They are put at the end of that window. Records of calls that
 * failed, and were written before, are put as one that failed (mapping_voids()).
 *
 * Memory   the chunks of the windows that are open. */
#ifndef MALLOCTAPE_PASSED_H
#define MALLOCTAPE_PASSED_H

#include "stream/instruction_writer.h"
#include "stream/mapping.h"
#include "stream/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Those of a window; all zero: none. */
struct passed {
    struct raw_chunk *first, *last;
};

/* Takes the chunk. */
void passed_add(struct passed *passed, struct raw_chunk *chunk);

/* Puts them all, and frees them. False: no memory. */
bool passed_put(struct passed *passed, struct instruction_writer *writer);
void passed_free(struct passed *passed);

#ifdef __cplusplus
}
#endif
#endif
