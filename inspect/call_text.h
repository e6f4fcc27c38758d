/* call_text - the words of a call in a dump, the same for both formats.
 *
 *   KIND [OBJECT] [SIZE] [ALIGNMENT] [-> OBJECT] [at ADDRESS] [stack NODE] [failed]
 *   KIND [NUMBER [NUMBER]]                                               calls of shape HEAP
 *
 * and those of a definition of call stacks:
 *
 *   define module NUMBER from ADDRESS to ADDRESS bias ADDRESS
 *   define module NUMBER unloaded
 *   define text of module NUMBER path | of module NUMBER build_id | of code NUMBER
 *          LENGTH from OFFSET BYTES                           in hexadecimal
 *   define codes FIRST module NUMBER ADDRESS ...
 *   define nodes FIRST parent NODE codes NUMBER ...
 *
 * The words are an interface (malloctape(1), LINES OF A DUMP): tests and scripts compare them.
 * Which operands a call has follows from its kind; each format has its own names for objects. */
#ifndef MALLOCTAPE_CALL_TEXT_H
#define MALLOCTAPE_CALL_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/call_kind.h"
#include "stream/stack_definition.h"

/* "65535:4398046511103", "r4294967295", "?" */
enum { CALL_OBJECT_TEXT_MAX = 40 };

struct call_text {
    unsigned kind;
    bool failed, has_address;
    uint64_t size, alignment; /* used if the shape has them */
    uint64_t address;
    uint32_t stack;                   /* STACK_END: none */
    char ended[CALL_OBJECT_TEXT_MAX]; /* empty: none */
    char began[CALL_OBJECT_TEXT_MAX];
    const uint64_t *numbers; /* of a HEAP call */
    unsigned numbers_count;
};

/* Print the words and a newline. */
void call_text_print(FILE *to, const struct call_text *call);
void definition_text_print(FILE *to, const struct stack_definition *definition);

#endif
