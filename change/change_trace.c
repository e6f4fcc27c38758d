#include "change/change_trace.h"

#include <stdlib.h>

#include "launch/process.h"
#include "stream/metadata.h"

bool change_places_add(struct change_places *places, const char *directory, char *why,
                       size_t why_bytes)
{
    if (places->count == CHANGE_DIRECTORIES_MAX)
        return error_explain(why, why_bytes, "too many directories");
    places->directories[places->count++] = directory;
    return true;
}

bool change_places_skip(struct change_places *places, const char *regex, char *why,
                        size_t why_bytes)
{
    change_places_free(places);
    const int wrong = regcomp(&places->skip, regex, REG_EXTENDED | REG_NOSUB);
    if (wrong != 0) regerror(wrong, &places->skip, why, why_bytes);
    places->has_skip = wrong == 0;
    return places->has_skip;
}

void change_places_free(struct change_places *places)
{
    if (places->has_skip) regfree(&places->skip);
    places->has_skip = false;
}

static const char *trace_define(void *of, const struct stack_definition *definition)
{
    return stacks_define(of, definition);
}

bool change_trace_read(const struct change_trace *trace, struct instruction_reader *reader,
                       struct input *input, change_define *define, void *of)
{
    *reader = (struct instruction_reader){.state = INSTRUCTIONS_FAILED};
    if (!input_open(input, trace->path)) {
        reader->error = input->error;
        return false;
    }
    if (!instruction_reader_open(reader, input)) return false;
    if ((reader->header.features & INSTRUCTION_FEATURE_STACKS) == 0) return true;
    reader->define = define;
    reader->define_context = of;
    return true;
}

/* Takes names, once all definitions have been read. False: no memory. */
static bool trace_take_names(struct change_trace *trace, const struct instruction_header *header,
                             const struct change_places *from)
{
    char *pid = metadata_copy(header->metadata, header->metadata_bytes, "pid");
    char *sampled = metadata_copy(header->metadata, header->metadata_bytes, "stacks");
    bool good = pid != NULL && sampled != NULL;
    struct code_places places = {
        from->directories, from->count, from->trace, 0, 0, from->has_skip ? &from->skip : NULL,
        CODE_VIEW_ALL, false};
    if (good) {
        places.pid = strtoull(pid, NULL, 10);
        places.start_s = metadata_start_s(header->metadata, header->metadata_bytes);
        trace->is_sampled = strtoull(sampled, NULL, 10) > 0; /* "all": 0 */
        good = code_names_open(&trace->names, &trace->stacks, &places);
    }
    free(pid);
    free(sampled);
    return good;
}

bool change_trace_open(struct change_trace *trace, const char *path,
                       const struct change_places *places, char *why, size_t why_bytes)
{
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct input input;
    *trace = (struct change_trace){.path = path};
    bool good = change_trace_read(trace, &reader, &input, trace_define, &trace->stacks);
    if (good) {
        trace->has_stacks = reader.define != NULL;
        instruction_reader_use_indices(&reader);
        while (!process_interrupted() && instruction_reader_next(&reader, &batch))
            ;
        good = reader.state == INSTRUCTIONS_END || reader.state == INSTRUCTIONS_CUT;
    }
    if (process_interrupted())
        good = error_explain(why, why_bytes, CHANGE_INTERRUPTED);
    else if (!good)
        error_text(&reader.error, why, why_bytes);
    if (good && trace->has_stacks && !trace_take_names(trace, &reader.header, places))
        good = error_explain(why, why_bytes, "no memory for names of functions");
    instruction_reader_close(&reader);
    input_close(&input);
    return good;
}

void change_trace_close(struct change_trace *trace)
{
    code_names_close(&trace->names);
    stacks_free(&trace->stacks);
}
