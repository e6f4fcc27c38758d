/* program - what all our programs and commands do alike: exit statuses, options. */
#ifndef MALLOCTAPE_PROGRAM_H
#define MALLOCTAPE_PROGRAM_H

#include <stdarg.h>

#include "common/program_option.h"

enum program_status {
    PROGRAM_OK = 0,     /* all of it */
    PROGRAM_FAILED = 1, /* the input is damaged, or something could not be done */
    PROGRAM_USAGE = 2,  /* wrong options */
    PROGRAM_CUT = 3,    /* everything was processed, but the recording or stream is truncated; if it
                           has no header, it is PROGRAM_FAILED instead */

    /* From `compare`: as PROGRAM_FAILED, but a signal from outside, or one that nothing is known of,
     * ended replays again and again: another try may succeed. */
    PROGRAM_KILLED = 5,
    PROGRAM_LIMIT = 6, /* as PROGRAM_OK or PROGRAM_CUT, but a `report --fail-if` holds */

    /* From `record`, as from other programs that run a program: it has failed itself. */
    PROGRAM_NOTHING_RECORDED = 125,
    /* As from a shell, which a caller of `record` expects, too. */
    PROGRAM_CANNOT_EXECUTE = 126,
    PROGRAM_NOT_FOUND = 127
};

/* Prints "NAME (malloctape) VERSION" on the standard output. Returns PROGRAM_OK. */
int program_version(const char *name);

/* Call last: checks that everything printed on the standard output has been written. Returns
 * `status`, but if something was not written, PROGRAM_FAILED, after a message, in place of
 * PROGRAM_OK and PROGRAM_CUT. */
int program_end(const char *name, int status);

/* Prints `text` on the standard output. Returns PROGRAM_OK. */
int program_help(const char *text);

/* Prints "NAME: message" on the standard error. */
void program_say(const char *name, const char *message, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Prints "NAME: message" and a pointer to --help on stderr. Without a message (NULL), only the
 * latter, because getopt_long() has printed one. Returns PROGRAM_USAGE. */
int program_usage_error(const char *name, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- options ---- */

/* Returned by functions that parse the command line if the program may go on; any other value is
 * the exit status. */
enum { PROGRAM_GO_ON = -1 };

/* Carries out the options, --help, --version and COMPLETE_OPTION (complete.h) included, and leaves
 * `optind` at the first word that is not one. words[0] is the name in messages; `known` ends with a
 * name of NULL; `of` is passed to the functions. Returns PROGRAM_GO_ON or an exit status. */
int program_options(int count, char **words, const struct program_option *known, const char *help,
                    enum program_where where, void *of);

#endif
