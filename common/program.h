/* program - what every program and command of ours does the same way: exit statuses, options. */
#ifndef MALLOCTAPE_PROGRAM_H
#define MALLOCTAPE_PROGRAM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum program_status {
    PROGRAM_OK = 0,     /* all of it */
    PROGRAM_FAILED = 1, /* damage in the input, or something could not be carried out */
    PROGRAM_USAGE = 2,  /* wrong options */
    PROGRAM_CUT = 3,    /* all that was there, but the recording or the stream had been cut short;
                           behind its header: without that there is nothing, which is a failure */

    PROGRAM_LIMIT = 6, /* all of it, or all that there was; `report --fail-if` holds */

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

/* Prints "NAME: message" on the standard error. */
void program_say(const char *name, const char *message, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Prints "NAME: message" and a pointer to --help on stderr. Without a message (NULL), only the
 * latter: getopt_long() has spoken already. Returns PROGRAM_USAGE. */
int program_usage_error(const char *name, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- options ---- */

/* What a function returns that looks at the command line, if the program may begin; any other
 * number is the exit status. */
enum { PROGRAM_GO_ON = -1 };

/* Where options may stand: before all other words, or between them, too. */
enum program_where { PROGRAM_IN_FRONT, PROGRAM_ANYWHERE };

/* Hands over each word that may stand somewhere, with what it is about or NULL: complete.h. */
typedef void program_add(const char *word, const char *about);
typedef void program_values(program_add *add);

/* An option: --NAME, or a dash and the letter. With `flag` alone it has no argument, with `flag`
 * and `take` it may have one (--NAME=ARGUMENT), else it must have one. */
struct program_option {
    const char *name;
    char letter;                                 /* 0: none */
    bool *flag;                                  /* is set */
    const char **word;                           /* is set to the argument */
    uint64_t *count;                             /* is set to the argument, digits */
    unsigned *choice;                            /* is set to the argument's index in `choices` */
    const char *const *choices;                  /* end with NULL; without `choice` what to offer */
    int (*take)(void *of, const char *argument); /* returns PROGRAM_GO_ON or an exit status */
    program_values *values; /* what to offer; without a name, at the end: for the word PID */
};

/* Carries out the options, --help, --version and COMPLETE_OPTION (complete.h) included, and leaves `optind` at the first word
 * that is none. words[0] is the name in messages; `known` ends with a name of NULL; `of` is handed
 * to the functions. Returns PROGRAM_GO_ON or an exit status. */
int program_options(int count, char **words, const struct program_option *known, const char *help,
                    enum program_where where, void *of);

#endif
