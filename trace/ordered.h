/* ordered - opens a trace of either form as an instruction stream. A raw one is ordered on the way,
 * by the program postprocess:
 *
 *   instruction stream --------------------------> input
 *   raw stream --> postprocess --quiet --pipe----> input
 *
 * So nothing is stored. What postprocess finds wrong, it says itself, on the standard error. */
#ifndef MALLOCTAPE_INSPECT_ORDERED_H
#define MALLOCTAPE_INSPECT_ORDERED_H

#include "trace/stream.h"

#define ORDERING_PROGRAM "postprocess"

struct ordered {
    struct input *input;   /* for an instruction_reader */
    enum stream_format of; /* the file's own format */

    /* From here on: ordered.c only. */
    struct stream stream;
    struct input piped;
    pid_t ordering; /* the child, or 0 */
    int pipe;
};

/* `path` "-" is the standard input. False: see `error`. */
bool ordered_open(struct ordered *ordered, const char *path, struct error *error);

/* Closes everything; a child that has not ended is not waited for any longer than it takes to stop
 * it, unless `to_its_end`. Returns PROGRAM_OK, or of a recording that was ordered on the way the
 * exit status of postprocess: PROGRAM_CUT, PROGRAM_FAILED; the latter also, and a message on the
 * standard error, if a signal ended it. */
int ordered_close(struct ordered *ordered, bool to_its_end);

#endif
