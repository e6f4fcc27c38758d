#include "cut/cut_code.h"

#include <stdio.h>

#include "common/error.h"

bool cut_code_open(struct cut_code *code, const char *path, const char *pattern, char *why,
                   size_t why_bytes)
{
    char text[1024];
    const struct change_places places = {.trace = path};
    *code = (struct cut_code){.list = {.count = 0}};
    if (snprintf(text, sizeof text, "%s: remove", pattern) >= (int)sizeof text)
        return error_explain(why, why_bytes, "--code: too long");
    if (!change_list_parse(&code->list, text, why, why_bytes) ||
        !change_trace_open(&code->trace, path, &places, why, why_bytes))
        return false;
    if (!code->trace.has_stacks || code->trace.is_sampled)
        return error_explain(why, why_bytes,
                             "--code needs the call stacks of all calls: malloctape "
                             "record --stacks=all");
    return change_match_open(&code->match, &code->list, &code->trace.names,
                             code->trace.stacks.nodes_end) ||
           error_explain(why, why_bytes, "no memory");
}

void cut_code_close(struct cut_code *code)
{
    change_match_close(&code->match);
    change_trace_close(&code->trace);
    change_list_free(&code->list);
}

bool cut_code_has(struct cut_code *code, uint32_t stack, uint64_t size)
{
    return change_match_of(&code->match, stack, size) != CHANGE_NONE;
}
