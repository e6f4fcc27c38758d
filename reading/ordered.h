/* ordered - opens a trace of either form as an instruction stream. A raw one is ordered on the way,
 * by the program postprocess:
 *
 *   instruction stream --------------------------> input
 *   raw stream --> postprocess --quiet --pipe----> input
 *
 * So nothing is stored. postprocess prints its own errors, on the standard error, under the name of
 * the command that asks for the order. */
#ifndef MALLOCTAPE_READING_ORDERED_H
#define MALLOCTAPE_READING_ORDERED_H

#include "reading/stream.h"

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

/* `path` "-" is the standard input; `command`, of malloctape, is for messages. False: see `error`; it is
 * not set if postprocess found nothing to order, which it has said. */
bool ordered_open(struct ordered *ordered, const char *path, const char *command,
                  struct error *error);

/* Closes everything. A running child is stopped, or if `to_its_end` waited for. Returns PROGRAM_OK,
 * or, if a recording was ordered, the exit status of postprocess (PROGRAM_CUT, PROGRAM_FAILED). If
 * a signal ended it: PROGRAM_FAILED, after a message on the standard error. */
int ordered_close(struct ordered *ordered, bool to_its_end);

#endif
