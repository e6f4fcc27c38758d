/* spool_reader - what a process that died had not yet written to its stream (FORMAT.md 8).
 *
 *   raw stream, cut:   lane 3  [begin][chunk][begin]             units 0 .. 5000
 *   spool:             lane 3                [slot: 4000 .. 6000][slot: the next ones]
 *                                                  |
 *                                                  +--> chunk, units 5000 .. 6000, and so on
 *
 * It is opened at the end of a stream that was cut, and returns the slots as its last chunks, lane
 * by lane and in order, without the units that the stream has already.
 *
 *     if (spool_reader_open(&spool, path, &reader))
 *         while ((chunk = spool_reader_next(&spool, &reader)) != NULL) ...
 *
 * A slot does not say how many units it has: they end where the next slot of the lane begins. The
 * chunk of a lane's last slot is open-ended: it has all units of the slot, and the decoder finds
 * the end of the records.
 *
 * Where a slot of a lane is missing, the lane ends, as the records after a gap mean nothing without
 * those before. That is counted, and no error.
 *
 * Memory   48 bytes for each slot in use. Threads: one. The file is read with pread() and must not
 *          change meanwhile: its process is dead. */
#ifndef MALLOCTAPE_SPOOL_READER_H
#define MALLOCTAPE_SPOOL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/raw_error.h"
#include "stream/raw_format.h"
#include "stream/raw_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spool_slot;

struct spool_reader {
    struct error error;
    uint8_t recording_id[RAW_RECORDING_ID_BYTES];
    uint32_t pid;
    bool is_incomplete; /* an error has ended the recording: what came later is in neither file */
    uint64_t features;  /* of the stream */
    uint32_t slot_bytes;
    uint32_t cells;        /* of mappings; 0: there are none */
    uint32_t slots_used;   /* slots in use */
    uint32_t lanes_gapped; /* lanes that ended in a gap */

    /* From here on: spool_reader.c only. */
    size_t slots_room;
    int fd;
    struct spool_slot *slots; /* in use, by lane and serial */
    uint32_t next_slot;
    bool cells_read;
};

/* Whether a stream has a spool of this name beside it: a plain file. Whoever made the stream may
 * have put a link to elsewhere there, or something that blocks when it is opened. */
bool spool_is_there(const char *path);

/* The directory for temporary files, as the recorder finds it: a stream through a pipe has its spool
 * there. And the path of that spool; false: it does not fit. */
const char *spool_scratch_directory(void);
bool spool_elsewhere_path(const char *directory, const uint8_t *recording_id, char *path,
                          size_t bytes);

/* False: see error, which is SPOOL_OTHER_RECORDING if another recording's spool is there. A stream
 * that was cut before its header was complete gets from the spool what that knows: the recording's
 * id, its process and its features. */
bool spool_reader_open(struct spool_reader *spool, const char *path, struct raw_reader *reader);

/* The same with a descriptor, which is closed with the spool. */
bool spool_reader_open_fd(struct spool_reader *spool, int fd, struct raw_reader *reader);

/* The next chunk, to be freed. NULL at the end, and when error is set. Advances reader->lanes. */
struct raw_chunk *spool_reader_next(struct spool_reader *spool, struct raw_reader *reader);

void spool_reader_close(struct spool_reader *spool);

#ifdef __cplusplus
}
#endif
#endif
