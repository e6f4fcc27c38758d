/* segments - the last minutes of an ordered stream, in files that are removed one by one.
 *
 *   DIRECTORY/  7.lz4  [base | what the program did]
 *               8.lz4  [base | what the program did]  8.join
 *               9.lz4  ... being written              9.join
 *
 * Each is an instruction stream of its own. A .join says which object of the segment before each
 * object is that was alive when the segment began: 4 bytes for each by its index, the index then.
 * So segments can be put together (joined.h).
 *
 * Where the disk was full, the latest of what was there is set aside, and a base begins anew: those of
 * before and after do not go together. Once as much has come after it, and all of it is older than what
 * was asked for, it goes.
 *
 * Bounds   keep_ns of the stream's time, and a tenth more; `max_bytes`, and a segment more, unless
 *          what is alive takes more already.
 * Threads  one at a time. */
#ifndef MALLOCTAPE_KEEP_SEGMENTS_H
#define MALLOCTAPE_KEEP_SEGMENTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/output.h"
#include "keep/follow.h"

enum { SEGMENTS_MAX = 256, SEGMENT_NAME_BYTES = 32 };

struct segment {
    uint64_t number;
    uint64_t start_ns;
    uint64_t bytes; /* of its files, once it is finished */
};

/* What is written, with the file that it goes to. */
struct segment_file;

struct segments {
    /* Set by the caller. */
    int directory;
    uint64_t keep_ns, max_bytes; /* the latter 0: no limit */
    struct follow *follow;
    struct instruction_header header; /* of the stream */

    struct segment list[SEGMENTS_MAX]; /* the oldest first; the last one is being written */
    size_t count;
    uint64_t bytes, peak_bytes;         /* on disk */
    struct segment older[SEGMENTS_MAX]; /* that were set aside */
    size_t older_count;
    uint64_t older_ns, older_end_ns;  /* how long they last, and where they end */
    struct error error;               /* the first one; nothing is written after it */
    bool is_finished;                 /* segments_finish() has been successful */
    struct instruction_totals totals; /* of the latest one that was finished */

    /* From here on: segments.c only. */
    struct segment_file *file;
    uint64_t next_number, base_bytes;
};

/* Begins the first segment. False: see error. */
bool segments_open(struct segments *segments);

/* To be called when a batch has been taken: begins another segment when it is time to, and removes
 * old ones. */
bool segments_look(struct segments *segments);

/* For somebody who asks: the same, unless there are many already and the last one is young. So they
 * do not become so many that asking often shortens what is kept. */
bool segments_turn_for(struct segments *segments);

/* Begins another one in any case, so that all before it are finished. */
bool segments_turn(struct segments *segments);

/* After an error: sets segments aside, removes the others, and begins anew with a base, and fewer bytes.
 * False: there is another error. */
bool segments_restart(struct segments *segments);

/* Doubles the bytes that are kept, if the disk has room for that, up to `most` (0: without end). */
void segments_grow(struct segments *segments, uint64_t most);

/* Finishes the last one. */
bool segments_finish(struct segments *segments, enum instruction_status status);

/* Removes all of the list, and has those there that were set aside. False: there are none. */
bool segments_take_older(struct segments *segments);

/* Finds those that another keeper has left in the directory, the latest SEGMENTS_MAX. False: none. */
bool segments_find(struct segments *segments);

/* Opens the file of a segment, or its .join; -1: see errno. */
int segments_open_file(const struct segments *segments, const struct segment *segment,
                       bool is_join);

/* The name of its file in the directory. */
const char *segments_name(char name[SEGMENT_NAME_BYTES], const struct segment *segment);

/* Removes the oldest one, or all of them. */
void segments_drop_first(struct segments *segments);
void segments_remove(struct segments *segments);

#endif
