/* process - starts a program; runs one at a time, to its end, and a directory for what it leaves
 * behind.
 *
 * While a directory is open, signals that ask this process to end (SIGINT, SIGTERM, SIGHUP,
 * SIGQUIT) end the program that runs instead; process_run() then returns false and starts
 * nothing any more. Whoever does other work for long asks process_interrupted() meanwhile.
 * Whoever opened the directory closes it, which removes it and lets the signal have its way. One
 * thread. */
#ifndef MALLOCTAPE_PROCESS_H
#define MALLOCTAPE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
    const char *path;         /* of the program */
    char *const *words;       /* its name, arguments, NULL */
    int input, output, error; /* what it gets as its standard streams; -1: ours */
    /* Called in the child before the program starts, unless it is NULL: its signals, its
     * environment. */
    void (*enter)(void *of);
    void *of;
};

/* Returns 0, or the errno with which the program could not be started; *process is then 0. */
int child_start(const struct child *child, pid_t *process);

/* ---- to its end ---- */

/* Longer names of directories are refused, so that paths of files in it fit anywhere. */
enum { PROCESS_DIRECTORY_BYTES = 3072, PROCESS_PATH_BYTES = PROCESS_DIRECTORY_BYTES + 64 };

struct process_directory {
    char path[PROCESS_DIRECTORY_BYTES];
};

/* Makes a new directory in $TMPDIR, or /tmp. False: see errno. */
bool process_directory_open(struct process_directory *directory);

/* Removes the directory and the files in it. Does not return if a signal came. */
void process_directory_close(struct process_directory *directory);

/* The path of the file `name` in the directory. */
void process_directory_path(const struct process_directory *directory, const char *name, char *path,
                            size_t path_bytes);

struct process {
    const char *path;        /* of the program */
    char *const *words;      /* its name, arguments, NULL */
    char *const *through;    /* NULL, or the program that is to start it and its arguments, NULL */
    int input;               /* its standard input; -1: none */
    double limit_s;          /* it is stopped after so many seconds; 0: never */
    const char *file;        /* what it reads; left out in front of what it prints */
    void (*enter)(void *of); /* in the child, before the program starts: its environment */
    void *of;
    /* NULL, or where the first line goes that is not the program's own ("NAME: ..."). */
    char *printed;
    size_t printed_bytes;
};

/* Returns whether it ended by itself with a status of zero, or of 3 (PROGRAM_CUT) when
 * `may_be_cut`. If not, `why` is one line about it: of a program that said why, the last that it
 * printed. */
bool process_run(const struct process *process, bool may_be_cut, char *why, size_t why_bytes);

/* Whether a signal came. */
bool process_interrupted(void);

#endif
