/* stacks - the call stacks of a stream: a table of modules, codes and nodes, filled by a reader of
 * either stream and read by whoever shows stacks.
 *
 *   a call's stack = node --parent--> node --parent--> ... --> STACK_END, or a cut (enum stack_end)
 *                     | code            | code
 *                     v                 v
 *                    offset in a module (path, build id)
 *
 *     for (at = node; (entry = stacks_node(stacks, at)) != NULL; at = entry->parent) ...
 *     at is then how the stack ends: less than STACK_NODE_FIRST, or a node that is not known
 *
 * A parent is less than its node, so the loop ends. Ask when the stream has been read: a definition
 * may come after the calls that use it, or be lost (FORMAT.md 2.8).
 *
 * Memory   8 bytes for the greatest node, 16 for the greatest code, both at most some multiple of
 *          what the stream defines; the modules; the texts, by malloc().
 * Threads  one that fills it, or any number that ask. */
#ifndef MALLOCTAPE_STACKS_H
#define MALLOCTAPE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/stack_definition.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text, followed by a 0 that does not count; known if all of it has come. */
struct stack_text {
    uint8_t *bytes;  /* stack_text_bytes() */
    uint32_t length; /* of the whole */
    uint32_t come;   /* stacks.c's: bytes so far */
};

struct stack_module {
    uint64_t start, end, bias;
    bool defined;
    bool unloaded;
    struct stack_text path, build_id, language;
};

struct stack_code {
    uint64_t offset;
    uint32_t text; /* where in `text`, plus 1; 0: it has none */
    uint16_t module;
    bool defined;
};

struct stack_node {
    uint32_t parent;
    uint32_t code; /* 0: the node is not defined */
};

struct stacks {
    uint64_t nodes, codes, modules; /* defined */
    uint64_t codes_of_none;         /* of the codes, those that are in no module */

    /* From here on: stacks.c, and the functions below. */
    struct stack_node *node;
    struct stack_code *code;
    struct stack_module *module;
    struct stack_text *text; /* of codes */
    uint64_t nodes_capacity, codes_capacity, modules_capacity, texts_capacity, texts;
    uint64_t nodes_end, codes_end, modules_end; /* the numbers after the greatest */
    uint64_t *used, used_capacity;              /* bits by node, of stacks_use() */
};

/* Whether the recorder ran out of numbers for modules: codes of later modules are in none. */
static inline bool stacks_modules_ran_out(const struct stacks *stacks)
{
    return stacks->modules_end == STACK_MODULES_LIMIT;
}

/* The same of nodes: calls with later stacks have none. */
static inline bool stacks_nodes_ran_out(const struct stacks *stacks)
{
    return stacks->nodes_end >= STACK_NODES_FULL;
}

/* All zero: an empty table. */
void stacks_free(struct stacks *stacks);

/* Takes a definition. NULL, or in words what is wrong with it: it is outside of the limits, gives a
 * number twice, or needs far more memory than the stream's length explains; or stacks_no_memory,
 * with errno set. The table is then as before. */
const char *stacks_define(struct stacks *stacks, const struct stack_definition *definition);

extern const char stacks_no_memory[];

/* ---- questions: NULL, if the number is not defined ---- */

static inline const struct stack_node *stacks_node(const struct stacks *stacks, uint32_t number)
{
    if (number >= stacks->nodes_end || stacks->node[number].code == 0) return NULL;
    return &stacks->node[number];
}

static inline const struct stack_code *stacks_code(const struct stacks *stacks, uint32_t number)
{
    if (number >= stacks->codes_end || !stacks->code[number].defined) return NULL;
    return &stacks->code[number];
}

static inline const struct stack_module *stacks_module(const struct stacks *stacks, uint32_t number)
{
    if (number >= stacks->modules_end || !stacks->module[number].defined) return NULL;
    return &stacks->module[number];
}

/* What the recorder, or the tool that a trace was imported from, says of a code: a line for each
 * function, the innermost inlined one first: name, file, line, separated by tabs (FORMAT.md 5.8).
 * NULL: nothing. */
const char *stacks_text_of_code(const struct stacks *stacks, uint32_t code);

/* Whether a module has a language: it is source code, or the interpreter. */
static inline bool stacks_module_has_language(const struct stacks *stacks, uint32_t number)
{
    const struct stack_module *module = stacks_module(stacks, number);
    return module != NULL && module->language.bytes != NULL &&
           module->language.come == module->language.length;
}

/* Whether a module with a language is source code: it is not mapped. Else it is the interpreter. */
static inline bool stack_module_is_source(const struct stacks *stacks, uint32_t number)
{
    const struct stack_module *module = stacks_module(stacks, number);
    return module != NULL && module->start == 0 && module->end == 0;
}

/* A text of a module, all of it; NULL: not known. */
static inline const uint8_t *stack_text_bytes(const struct stack_text *text)
{
    return text->come == text->length ? text->bytes : NULL;
}

/* Notes that a call has this stack, for the function below. False: no memory, with errno set. Takes
 * a bit for each number up to the greatest. */
bool stacks_use(struct stacks *stacks, uint32_t node);

/* How many of the stacks that calls have are not wholly defined. Takes a bit for each node or, if
 * there is no memory for that, longer. */
uint64_t stacks_unknown(const struct stacks *stacks);

/* Where the stack of a call ends on its outer side: less than STACK_NODE_FIRST, or the first node
 * that is not defined. `depth`: how many frames there are up to it; may be NULL. */
uint32_t stacks_end(const struct stacks *stacks, uint32_t node, uint32_t *depth);

#ifdef __cplusplus
}
#endif
#endif
