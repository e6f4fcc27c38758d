/* change_trace - what is known of a trace before anything is changed: the call stacks, which may be
 * defined after the calls that have them.
 *
 *   file, in order --first pass--> stacks --symbols/--> names of functions
 *
 * Memory: stream/stacks.h and symbols/code_names.h; nothing for objects. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_TRACE_H
#define MALLOCTAPE_CHANGE_CHANGE_TRACE_H

#include "stream/instruction_reader.h"
#include "symbols/code_names.h"

struct change_trace {
    const char *path; /* an instruction stream in a file, to be read several times */
    struct stacks stacks;
    struct code_names names;
    bool has_stacks;
    bool is_sampled; /* only some calls have stacks */
    /* Later passes end with the block in which this call is; 0: they take the whole trace. */
    uint64_t calls_max;
};

/* What a pass over a trace says that a signal has ended. */
#define CHANGE_INTERRUPTED "interrupted"

enum { CHANGE_DIRECTORIES_MAX = 16 };

/* How functions get names: as in code_places. */
struct change_places {
    const char *trace; /* what the user calls it */
    const char *directories[CHANGE_DIRECTORIES_MAX];
    size_t count;
    regex_t skip;
    bool has_skip;
};

/* Take what the user wants: --symbols, --skip. False: `why` says what is wrong. */
bool change_places_add(struct change_places *places, const char *directory, char *why,
                       size_t why_bytes);
bool change_places_skip(struct change_places *places, const char *regex, char *why,
                        size_t why_bytes);
void change_places_free(struct change_places *places);

/* Reads the file once. False: `why` says what is wrong. To be closed in either case. */
bool change_trace_open(struct change_trace *trace, const char *path,
                       const struct change_places *places, char *why, size_t why_bytes);
void change_trace_close(struct change_trace *trace);

/* Opens the file once more; batches will have stacks, and definitions go to `define`. False: see
 * reader->error. To be closed in either case. */
typedef const char *change_define(void *of, const struct stack_definition *definition);
bool change_trace_read(const struct change_trace *trace, struct instruction_reader *reader,
                       struct input *input, change_define *define, void *of);

#endif
