/* call_text - the words of a call in a dump, the same for both formats.
 *
 *   KIND [OBJECT] [SIZE] [ALIGNMENT] [-> OBJECT] [at ADDRESS] [failed]
 *   KIND [NUMBER [NUMBER]]                                               calls of shape HEAP
 *
 * The words are an interface (malloctape(1), LINES OF A DUMP): tests and scripts compare them.
 * Which operands a call has follows from its kind; how an object is called, each format decides for
 * itself. */
#ifndef MALLOCTAPE_CALL_TEXT_H
#define MALLOCTAPE_CALL_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/call_kind.h"

/* "65535:4398046511103", "r4294967295", "?" */
enum { CALL_OBJECT_TEXT_MAX = 40 };

struct call_text {
    unsigned kind;
    bool failed, has_address;
    uint64_t size, alignment; /* used where the shape has them */
    uint64_t address;
    char ended[CALL_OBJECT_TEXT_MAX]; /* empty: none */
    char began[CALL_OBJECT_TEXT_MAX];
    const uint64_t *numbers; /* of a HEAP call */
    unsigned numbers_count;
};

/* Prints the words and a newline. */
void call_text_print(FILE *to, const struct call_text *call);

#endif
