/* suppressions - which objects are known to stay until the end: patterns for call stacks, as
 * LeakSanitizer has them, one a line of a file:
 *
 *   # a comment
 *   leak:PATTERN    a function, file or module on the stack
 *   made:PATTERN    those of the innermost function only
 *
 * A pattern matches any part of a name; `*` stands for any text, `^` at its beginning and `$` at its
 * end for those of the name. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_SUPPRESSIONS_H
#define MALLOCTAPE_SYMBOLS_SUPPRESSIONS_H

#include "symbols/code_groups.h"

struct suppression {
    char *pattern;
    bool innermost;
};

struct suppressions {
    struct suppression *at;
    size_t count, room;
};

/* Adds those of what libstdc++ and the dynamic loader make once. False: no memory. */
bool suppressions_add_known(struct suppressions *suppressions);

/* Adds those of a file. False: *why says what is wrong with it. */
bool suppressions_read(struct suppressions *suppressions, const char *path, char *why,
                       size_t why_bytes);
void suppressions_free(struct suppressions *suppressions);

bool suppression_fits(const char *pattern, const char *name);

/* Sets listed[s] for each stack that one of them matches. */
void suppressions_find(const struct suppressions *suppressions, const struct stack_tally *tally,
                       const struct code_names *names, uint8_t *listed);

#endif
