/* process - starts a program, or runs one at a time to its end; and a temporary directory for the
 * files that such programs write.
 *
 * While a directory is open, signals that ask this process to end (SIGINT, SIGTERM, SIGHUP,
 * SIGQUIT) end the running program instead; process_run() then returns false and starts no more.
 * Long work in between should check process_interrupted(). Whoever opened the directory must close
 * it, which removes it and lets the signal take effect. One thread. */
#ifndef MALLOCTAPE_PROCESS_H
#define MALLOCTAPE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
    const char *path;         /* of the program */
    char *const *words;       /* its name, arguments, NULL */
    int input, output, error; /* its standard streams; -1: those of this process */
    /* Called in the child before the program starts, to set signals or the environment; may be
     * NULL. */
    void (*enter)(void *of);
    void *of;
};

/* Returns 0, or the errno with which the program could not be started; *process is then 0. */
int child_start(const struct child *child, pid_t *process);

/* ---- to its end ---- */

/* A longer name of the directory is refused, so that paths of files in it fit into any buffer. */
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

/* How a program ended that process_run() did not like. */
struct process_end {
    int signal;     /* the signal that ended it; 0: none */
    bool timed_out; /* it was killed because it took too long; `signal` is then 0 */
};

struct process {
    const char *path;        /* of the program */
    char *const *words;      /* its name, arguments, NULL */
    char *const *through;    /* NULL, or the program that is to start it and its arguments, NULL */
    int input;               /* its standard input; -1: none */
    double limit_s;          /* it is killed after this many seconds; 0: never */
    const char *file;        /* the file that it reads; removed from the beginning of messages */
    void (*enter)(void *of); /* called in the child before the program starts, or NULL */
    void *of;
    /* NULL, or receives the first line printed that is not the program's own ("NAME: ..."). */
    char *printed;
    size_t printed_bytes;
    struct process_end *end; /* NULL, or receives how it ended */
};

/* Returns whether the program ended by itself with status 0, or with 3 (PROGRAM_CUT) if
 * `may_be_cut`. If not, `why` is one line about it: the last one that the program printed, if it
 * printed any. */
bool process_run(const struct process *process, bool may_be_cut, char *why, size_t why_bytes);

/* Whether a signal has come. */
bool process_interrupted(void);

#endif
