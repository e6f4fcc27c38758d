/* change_match - which changes concern the objects of a call stack.
 *
 *   node --code_names--> frames --names of a pattern--> a bit for each change
 *
 * Memory: 4 bytes for the greatest node. One thread. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_MATCH_H
#define MALLOCTAPE_CHANGE_CHANGE_MATCH_H

#include "change/change.h"
#include "symbols/code_names.h"

#define CHANGE_NONE UINT32_MAX

struct change_match {
    const struct change_list *list;
    const struct code_names *names; /* NULL: the trace has no call stacks */

    /* From here on: change_match.c only. */
    uint32_t *known; /* by node: a bit for each change, and MATCH_KNOWN */
    uint64_t known_count;
    struct code_frame *frames;
};

/* `nodes_end`: the number after the greatest node. False: no memory. */
bool change_match_open(struct change_match *match, const struct change_list *list,
                       const struct code_names *names, uint64_t nodes_end);
void change_match_close(struct change_match *match);

/* The index of the first change that concerns an object made with this size at this stack;
 * CHANGE_NONE: none. */
uint32_t change_match_of(struct change_match *match, uint32_t node, uint64_t size);

/* A bit for each change whose names the stack has. */
uint32_t change_match_names(struct change_match *match, uint32_t node);

/* Writes why a change matched nothing: "no function, file or module is called pars_json; there are
 * parse_json and parse_jsonl". */
void change_match_explain(const struct change_match *match, const struct change *change, char *why,
                          size_t why_bytes);

#endif
