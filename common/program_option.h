/* program_option - the options of a program, in a table: parsed by program_options() (program.h),
 * completed by a shell (complete.h). */
#ifndef MALLOCTAPE_PROGRAM_OPTION_H
#define MALLOCTAPE_PROGRAM_OPTION_H

#include <stdbool.h>
#include <stdint.h>

/* Where options may be: only before all other words, or also between them. */
enum program_where { PROGRAM_IN_FRONT, PROGRAM_ANYWHERE };

/* Called with each possible word and its description, or NULL: complete.h. */
typedef void program_add(const char *word, const char *about);
typedef void program_values(program_add *add);

/* An option: --NAME, or a dash and the letter. With only `flag` it has no argument; with `flag` and
 * `take` it may have one (--NAME=ARGUMENT); else it must have one. */
struct program_option {
    const char *name;
    char letter;                                 /* 0: none */
    bool *flag;                                  /* is set */
    const char **word;                           /* is set to the argument */
    uint64_t *count;                             /* is set to the argument, digits */
    unsigned *choice;                            /* is set to the argument's index in `choices` */
    const char *const *choices;                  /* end with NULL; without `choice`: only offered */
    int (*take)(void *of, const char *argument); /* returns PROGRAM_GO_ON or an exit status */
    program_values *values; /* gives words to offer; in the last entry, for the word PID */
};

#endif
