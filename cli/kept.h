/* kept - `record --keep`: the recording goes to a keeper (keep/keeper.h), which keeps its last minutes.
 *
 *   record --starts--> malloctape-keep                FILE.keep/fifo, segments; at the end FILE
 *          --starts--> PROGRAM --raw stream--> FILE.keep/fifo
 *
 * Threads   one. */
#ifndef MALLOCTAPE_KEPT_H
#define MALLOCTAPE_KEPT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { KEPT_WHEN_MAX = 16 };

struct kept {
    /* As given. */
    const char *keep; /* NULL: the recording is not kept so */
    const char *listen, *token;
    const char *when[KEPT_WHEN_MAX];
    size_t when_count;
    bool quiet;
    bool is_each; /* each process that is recorded has a keeper of its own (kept_each.h) */

    const char *output; /* FILE, absolute */
    char directory[PATH_MAX], fifo[PATH_MAX];

    /* From here on: kept.c only. */
    pid_t keeper; /* 0: it has ended; anybody may read it */
    bool holds; /* the FIFO, until a recorder has written: it finds a reader, and one that is killed
                   * before leaves no keeper that waits for it */
    int held;
    int status; /* of it, as of waitpid() */
};

/* Checks the options. Returns PROGRAM_GO_ON or an exit status. */
int kept_check(const struct kept *kept);

/* Whether -o may replace a file: a trace. */
bool kept_may_replace(const char *path);

/* Makes the directory and the FIFO, and starts the keeper. `output` must stay. Returns an exit
 * status, after a message unless it is PROGRAM_OK. */
int kept_begin(struct kept *kept, const char *output);

/* To be called now and then. Says so, once, if the keeper has ended before its time. */
void kept_look(struct kept *kept);

/* What the keeper of either kind gets: its options, from --keep to --quiet. Returns how many words. */
enum { KEPT_WORDS_MAX = 10 + 2 * KEPT_WHEN_MAX };
size_t kept_words(const struct kept *kept, const char *words[KEPT_WORDS_MAX]);

/* What a killed keeper has left in DIRECTORY becomes FILE. */
void kept_rescue(const char *file, const char *directory);

/* Has the FIFO open, and makes a spool beside it: for a process that gets them (recording_files.h).
 * False: a message has been printed. */
bool kept_give(struct kept *kept, int given[2]);

/* The program has ended. Waits until the keeper has written FILE, or a signal asks us to end. Whether
 * it has. */
bool kept_end(struct kept *kept);

/* Asks the keeper of a process for a file: `word` is "keep" or "recent" (keep/control.h). Whether it
 * has been written; else `answer` says why not, or is empty if there is no keeper. */
bool kept_request(pid_t process, const char *word, const char *path, char *answer, size_t room);

/* `malloctape ctl PID keep FILE`. Returns an exit status. */
int kept_ask(pid_t process, const char *path);

#endif
