/* output_files - where a recording goes, and the file of its spool.
 *
 *   name          | what it is                       | the spool
 *   --------------+----------------------------------+---------------------------------
 *   PATH          | a new file, in place of another  | PATH.spool
 *   PATH          | a link to a file: as it is       | PATH.spool
 *   PATH          | a FIFO, a device: as it is       | in a directory for temporary files
 *   fd:N          | a descriptor of the program      | there
 *   |COMMAND      | the standard input of a command  | there
 *   any           | a file that was given            | given, too
 *
 *     output_make()    nothing is lost yet: new files have no names, or temporary ones
 *     output_start()   a file that is written as it is has been emptied, a command runs
 *     output_settle()  new files are in their places; whatever fails before leaves an older
 *                      recording as it was
 *     output_end()     the command has ended; the spool is removed unless the stream needs it
 *
 * Threads   all of this belongs to the writer thread.
 * Errors    negative errno values. `failed` then is what they concern.
 * Places    files are found through a descriptor of their directory, so a program that changes its
 *           directory or its root does not matter. */
#ifndef MALLOCTAPE_OUTPUT_FILES_H
#define MALLOCTAPE_OUTPUT_FILES_H

#include "common/output_name.h"
#include "tracing/os/os.h"

enum output_kind {
    OUTPUT_NEW_FILE = 0,
    OUTPUT_AS_IS, /* what was there */
    OUTPUT_FIFO,
    OUTPUT_GIVEN, /* open, and so is the spool */
    OUTPUT_DESCRIPTOR,
    OUTPUT_COMMAND
};

#define OUTPUT_PATH_BYTES_MAX 4096

struct output_files {
    /* Set by the caller. */
    const char *name;      /* without letters after % */
    const char *scratch;   /* directory for temporary files */
    uint64_t id;           /* random: part of the names of temporary files */
    bool keeps_others;     /* a new file, and its spool, replace none */
    struct os_files given; /* or OS_NO_FILES; `name` is then only told */

    enum output_kind kind;
    bool has_reader;      /* a pipe or a socket */
    bool is_plain;        /* a file on a disk */
    bool spool_is_beside; /* beside the stream's file, not in the directory for temporary files */
    int file;             /* of the stream; -1: not open */
    int spool;            /* the spool's file */
    int directory;        /* of the stream's file, and of its spool if that lies beside it */
    int spool_directory;  /* the same or another one */
    int command;          /* a process (os_command_start) */
    int status;           /* with which it ended (os_command_wait) */
    const char *last;     /* component of the name */
    struct os_file_status file_status, spool_status; /* which they are, if they are new */
    bool settled;                                    /* the spool has the name below */
    const char *failed;
    char directory_path[OUTPUT_PATH_BYTES_MAX + 2];
    char spool_path[OUTPUT_PATH_BYTES_MAX + 64];
    const char *spool_name; /* its last component */
    bool file_is_nameless;  /* the stream's file, until it is settled */
    bool spool_is_nameless;
    bool spool_is_needed; /* after output_end(): by the stream */
    char new_name[48];    /* else its name until then */
    char new_spool_name[48];
    bool has_older_spool; /* which now has the following name */
    char older_spool_name[48];
};

int output_make(struct output_files *files);
int output_start(struct output_files *files);
/* -EEXIST: no file is to be replaced, and one has this name. The caller may then put another name
 * in the same directory into `name`, call output_rename(), and try again. */
int output_settle(struct output_files *files);
void output_rename(struct output_files *files);

/* For a thread that begins later, and new files: after the first, their descriptors may be closed;
 * the second opens them again, whatever the current directory is then. */
void output_defer(struct output_files *files);
int output_reopen(struct output_files *files);

/* Opens a FIFO. -ENXIO: nobody has opened it for reading yet. */
int output_connect(struct output_files *files);

/* After a failed start: removes what has been made. */
void output_discard(struct output_files *files);

/* The same for new files if a process that has ended, and its descriptors with it, began to make
 * them, however far it came. */
void output_undo(struct output_files *files);

/* Removes the stream's file if output_make() made it; then output_end(). */
void output_forget(struct output_files *files);

/* After the stream's file has been closed. `needs_spool`: the stream lacks what is in the spool. 0 or
 * a negative errno (os_command_wait). */
int output_end(struct output_files *files, bool needs_spool, uint64_t timeout_ns);

/* Once the spool is no longer mapped. Empties a spool that was given, if the stream does not need
 * it: that says so to whoever has given it. */
void output_release(struct output_files *files);

#endif
