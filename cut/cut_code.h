/* cut_code - which call stacks a pattern of code means: `cut --code`. The patterns are those of
 * changes (change/change.h). Needs the whole trace beforehand, in a file, to name its functions. */
#ifndef MALLOCTAPE_CUT_CUT_CODE_H
#define MALLOCTAPE_CUT_CUT_CODE_H

#include "change/change_match.h"
#include "change/change_trace.h"

struct cut_code {
    struct change_trace trace;
    struct change_list list;
    struct change_match match;
};

/* False: `why`. To be closed in either case. */
bool cut_code_open(struct cut_code *code, const char *path, const char *pattern, char *why,
                   size_t why_bytes);
void cut_code_close(struct cut_code *code);

/* Whether an object made there, with this size, is meant. */
bool cut_code_has(struct cut_code *code, uint32_t stack, uint64_t size);

#endif
