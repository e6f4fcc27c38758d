/* settings - what the environment said when the process began.
 *
 * Read once, before the program can have changed it: forked children and later recordings go by it
 * too. */
#ifndef MALLOCTAPE_SETTINGS_H
#define MALLOCTAPE_SETTINGS_H

#include "tracing/data/message.h"
#include "tracing/data/output_files.h"

#define SETTINGS_METADATA_BYTES_MAX 8192
#define PROGRAM_NAME_BYTES_MAX      256

struct writer;

struct settings_limits {
    /* 0: none. */
    uint64_t bytes; /* of the file, including its end: never exceeded */
    /* The stream ends soon after it has reached one of these. */
    uint64_t events;
    uint64_t ns;
};

struct settings {
    char output[OUTPUT_PATH_BYTES_MAX]; /* with letters after %; empty: none */
    /* The current directory at the start, with a slash at the end; empty: unknown. */
    char directory[OUTPUT_PATH_BYTES_MAX];
    char program[PROGRAM_NAME_BYTES_MAX];     /* name of the executable file */
    char notices[OUTPUT_PATH_BYTES_MAX];      /* the file of notice.h; empty: none */
    char other_malloc[OUTPUT_PATH_BYTES_MAX]; /* file that malloc is in, if it is not ours; or
                                                   empty */
    bool speaks; /* a summary goes to standard error: a user has started this process, and no file
                    file is given */
    bool controlled;
    bool is_reset; /* while recording_reset() begins a recording: no file is replaced */
    bool is_given; /* while recording_begin_given() does: `given` are its files */
    struct os_files given;
    bool keeps_others; /* of the recording that begins: it replaces no file */
    bool quiet;        /* not a word on standard error */
    bool addresses;
    uint64_t stacks_every_bytes; /* these two as in struct recording */
    bool frees_have_stacks;
    char program_path[OUTPUT_PATH_BYTES_MAX]; /* if there are call stacks; or empty */
    bool loses;    /* threads do not wait for a slot: an event that finds none is lost */
    bool too_long; /* the name of the output */
    char scratch[OUTPUT_PATH_BYTES_MAX]; /* directory for temporary files */
    uint64_t patience_ns; /* with a reader that does not come or does not read; 0: no limit */
    struct settings_limits limits;
    struct message wrong; /* why the first wrong variable was not understood; or empty */
    char metadata[SETTINGS_METADATA_BYTES_MAX]; /* FORMAT.md 4.1 */
    size_t metadata_bytes;
    uint64_t runtime_bytes; /* malloctape_runtime_took() */
};

extern struct settings settings;

/* Reads the environment. Takes the name of the output out of it, so that programs which this one
 * starts do not record to the same file; unless the name has a %p. */
void settings_read(void);

/* For a process into which the library was loaded while it ran: its standard error is not ours.
 * `given`: lines "NAME=VALUE\n" in place of the environment, for call stacks and limits; or NULL. */
void settings_attach(const char *given);

/* In the first process that forked from a recorded one; its children have what it has. */
void settings_fork(void);

/* Gives the writer what it needs for a recording to `output`, with names in place of the letters
 * after %. `bytes_min`: what a file has without metadata and events. NULL, or what is wrong. */
const char *settings_apply(struct writer *writer, const char *output, uint64_t bytes_min);

/* Another file has got the name: replaces it by the next free one. False: there is none in this
 * directory. */
bool settings_next_output(void);

#endif
