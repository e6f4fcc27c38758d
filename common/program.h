/* program - what every program of ours does the same way: exit statuses, --help, --version, wrong
 * options. */
#ifndef MALLOCTAPE_PROGRAM_H
#define MALLOCTAPE_PROGRAM_H

enum program_status {
    PROGRAM_OK = 0,     /* all of it */
    PROGRAM_FAILED = 1, /* damage in the input, or something could not be carried out */
    PROGRAM_USAGE = 2,  /* wrong options */
    PROGRAM_CUT = 3,    /* all that was there, but the recording or the stream had been cut short */

    /* Of `record`, as of other programs that run a program: it failed itself. */
    PROGRAM_NOTHING_RECORDED = 125,
    /* Of a shell, which a caller of `record` expects too. */
    PROGRAM_CANNOT_EXECUTE = 126,
    PROGRAM_NOT_FOUND = 127
};

/* Prints "NAME (malloctape) VERSION" on the standard output. Returns PROGRAM_OK. */
int program_version(const char *name);

/* To be called last: whether all that was printed on the standard output has been written. Returns
 * `status`, or PROGRAM_FAILED after a message if that was PROGRAM_OK or PROGRAM_CUT and something
 * was not. */
int program_end(const char *name, int status);

/* Prints `text` on the standard output. Returns PROGRAM_OK. */
int program_help(const char *text);

/* Prints "NAME: message" and a pointer to --help on stderr. Without a message (NULL), only the
 * latter: getopt_long() has spoken already. Returns PROGRAM_USAGE. */
int program_usage_error(const char *name, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

#endif
