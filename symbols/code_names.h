/* code_names - the functions, files and lines of the call stacks of a stream.
 *
 *   struct stacks (node --> code --> module, offset) --symbols.h, perf_map.h--> frames, by code
 *
 *     code_names_open(&names, &stacks, &places);      after the last definition
 *     count = code_names_of(&names, node, frames);    innermost first
 *
 * If the stream itself names a code, that is used. A code is a return address, so the byte before
 * it is looked up.
 *
 * The innermost frames of a stack are left out as far as they allocate: malloc's family, operator
 * new, and the recorder. The outermost frame is CODE_NAMES_CUT if outer frames are missing.
 *
 * A function that an interpreter runs has a language (FORMAT.md 2.8): its name, file and line are in
 * the stream. Native functions of the interpreter, and of its extension modules, then count as a
 * library's.
 *
 * Memory: symbols.h, and 40 bytes a frame of a code. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_NAMES_H
#define MALLOCTAPE_SYMBOLS_CODE_NAMES_H

#include <regex.h>
#include <stdio.h>

#include "stream/stacks.h"
#include "symbols/code_view.h"
#include "symbols/perf_map.h"
#include "symbols/symbols.h"

#define CODE_NAMES_CUT "(outer functions unknown)"
enum { CODE_FRAME_FIRST = 1 }; /* of codes; the one before is CODE_NAMES_CUT */

/* Of a stack: outer ones beyond are unknown. The recorder takes 128 return addresses, each with what
 * was inlined there. */
enum { CODE_FRAMES_MAX = 512 };

/* Where names are looked for. */
struct code_places {
    const char *const *directories; /* symbol_file.h */
    size_t count;
    const char *trace;   /* its path, for "TRACE.perf.map"; NULL: none */
    uint64_t pid;        /* for /tmp/perf-PID.map; 0: unknown */
    double start_s;      /* of the recording, since the epoch: older maps are ignored */
    const regex_t *skip; /* functions and files that count as a library's; NULL: none */
    enum code_view view;
    bool joins_lambdas; /* names have no lines of lambdas: those of another build differ */
};

struct code_names {
    struct symbols symbols;
    const struct stacks *stacks;
    const regex_t *skip;
    struct code_frame *frames; /* by code, from CODE_FRAME_FIRST on */
    size_t count, room;
    enum code_view view;
    bool has_languages; /* of some frames */
    bool joins_lambdas;

    /* From here on: code_names.c only. */
    struct codes_frames *codes; /* by code */
    uint32_t *modules;          /* by module: its number in `symbols`, plus 1 */
    struct perf_map map;
    uint32_t cut;
};

/* False: no memory. */
bool code_names_open(struct code_names *names, const struct stacks *stacks,
                     const struct code_places *places);
void code_names_close(struct code_names *names);

/* Fills `at` (CODE_FRAMES_MAX of them) with where the frames of a stack are in names->frames, and
 * returns how many there are. 0: nothing is known of the stack. */
unsigned code_names_walk(const struct code_names *names, uint32_t node, uint32_t *at);

/* Fills `frames` (CODE_FRAMES_MAX of them) and returns how many are used: the same. */
unsigned code_names_of(const struct code_names *names, uint32_t node, struct code_frame *frames);

/* The frames of one code, innermost first; 0 of them: it was lost. */
unsigned code_names_of_code(const struct code_names *names, uint32_t code,
                            const struct code_frame **frames);

/* The node without inner frames that allocate, for users that walk nodes themselves. */
uint32_t code_names_caller(const struct code_names *names, uint32_t node);

static inline const char *code_names_text(const struct code_names *names, uint32_t text)
{
    return names->symbols.strings.at[text];
}

/* As symbols_segment(), of a module of the stream. */
bool code_names_segment(const struct code_names *names, uint32_t module,
                        struct symbol_segment *segment);

/* Prints a line for each module whose file could not be used, and begins it with `prefix`. */
void code_names_print_missing(const struct code_names *names, const char *prefix, FILE *to);

#endif
