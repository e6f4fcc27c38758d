/* reading/others - what of the recorded process was resident and not its allocator's: mappings of the
 * program, files, stacks (reading/resident.h), at the times at which the recorder looked.
 *
 * A replay has the allocator's memory alone. What the others had, subtracted from the process's
 * memory, leaves a curve that a replay under the recorded allocator can follow, however they change.
 * Between looks they are taken to change evenly. */
#ifndef MALLOCTAPE_READING_OTHERS_H
#define MALLOCTAPE_READING_OTHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/instruction_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

struct others {
    double *seconds, *bytes; /* by look, in order; without the recorder's own */
    double *heap;            /* what the allocator had then */
    size_t count;            /* 0: the stream does not say it */
    uint64_t break_from, break_to; /* addresses that the process ever had from brk(); 0: not known */
    char *files;             /* whose pages were resident at the first look: names, each with its
                                end, by address: the first one is the program */
    size_t files_bytes;
    char *has;           /* libraries that the program had, as the metadata say; or NULL */

    /* From here on: others.c only. */
    size_t seconds_room, bytes_room, heap_room, files_room;
};

/* Reads the stream in `path`. `allocator`: its name, as recorded. False: no memory, or the stream
 * cannot be read. */
bool others_read(struct others *others, const char *path, const char *allocator);
void others_free(struct others *others);

/* The same beside whoever reads the stream: after it has been opened, and when it has been read.
 * NULL, false: no memory. */
struct others_reading *others_begin(struct others *others, struct instruction_reader *reader,
                                    const char *allocator);
bool others_end(struct others_reading *reading);

/* The file whose name, without its directory, begins like that; NULL: there was none. */
const char *others_file(const struct others *others, const char *name);

#ifdef __cplusplus
}
#endif
#endif
