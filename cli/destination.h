/* destination - where `record` writes: the name that was given, made absolute, or one made of the
 * program's, which is reserved by an empty file. */
#ifndef MALLOCTAPE_DESTINATION_H
#define MALLOCTAPE_DESTINATION_H

#include <limits.h>
#include <stdbool.h>

enum { DESTINATION_NUMBER_MAX = 10000 };

struct destination {
    /* Set by the caller. */
    const char *output;  /* as given, or NULL */
    const char *program; /* as given */
    bool follow, idle, is_kept;

    char path[PATH_MAX];     /* with letters after %; empty with `idle` */
    char reserved[PATH_MAX]; /* an empty file, created so that nobody else takes the name */
};

/* Whether an output is a file name, not an open descriptor or a command. */
bool destination_is_file(const char *output);
bool destination_exists(const char *path);

/* Sets the path. False: see destination_fail(). */
bool destination_set(struct destination *to);

/* Prints why. Returns an exit status. */
int destination_fail(void);

/* Checks that the library will be able to create the file; a directory with % in it is known only
 * to the library. Returns an exit status. */
int destination_check(const struct destination *to);

/* Adds text to the path; `literal`: any % in it stands for itself. */
bool destination_add(struct destination *to, const char *text, bool literal);

/* Removes the reserved file if no recording has begun in it. */
void destination_release(const struct destination *to);

#endif
