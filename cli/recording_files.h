/* recording_files - the files of a recording of a process that runs already.
 *
 *   record --make--> .malloctape-ID.raw, .malloctape-ID.spool --descriptors--> the process
 *          --settle, once it records--> FILE, FILE.spool
 *          --end--> FILE
 *
 * The process, which may be another user's, gets open files (tracing/control.c): it need not see
 * their directory, nor be allowed to write there, and it decides neither their names nor their
 * content's place. Others may be able to write to the directory: names are not foreseeable, no link
 * is followed, and what was made is finished through its descriptors.
 *
 * Threads   one. */
#ifndef MALLOCTAPE_RECORDING_FILES_H
#define MALLOCTAPE_RECORDING_FILES_H

#include <limits.h>
#include <stdbool.h>

#include "cli/finish.h"

struct recording_files {
    const char *path; /* absolute */
    int given[2];     /* to be given away: the stream, its spool; -1: none any more */

    /* From here on: recording_files.c only. */
    int directory;
    int stream, spool; /* opened again, because the process has the others' offset and lock */
    char new_stream[48], new_spool[48];
    char spool_name[NAME_MAX + 1];
};

/* Whether an output is a file that may be made: it is not there, or it is a plain file or a link,
 * not a FIFO, a device, a command or a descriptor. */
bool recording_files_fit(const char *output);

/* Whether an open file begins as a recording does. */
bool recording_files_is_recording(int file);

/* Makes the files. `path` must stay. False: a message has been printed. */
bool recording_files_make(struct recording_files *files, const char *path);

/* Gives them their names, in place of an older recording. False: a message has been printed. */
bool recording_files_settle(struct recording_files *files);

/* Completes the recording of a process that has ended (finish_files()), or finds that the process
 * has done so. */
bool recording_files_finish(struct recording_files *files, struct finished *finished);
bool recording_files_read(const struct recording_files *files, struct finished *finished);

/* Removes the spool if the stream does not need it, and closes all. False, after a message: the
 * recording has been cut short, or somebody has put another file in its place. */
bool recording_files_end(struct recording_files *files);

/* Removes the files; before recording_files_settle(). */
void recording_files_discard(struct recording_files *files);

#endif
