/* code_view - the functions of a stack, and which of them are shown. */
#ifndef MALLOCTAPE_SYMBOLS_CODE_VIEW_H
#define MALLOCTAPE_SYMBOLS_CODE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct code_frame {
    uint32_t function, file, module; /* texts; module: the path */
    uint32_t line;
    uint32_t
        language; /* a text: that of the function, which an interpreter runs; 0: it is native */
    uint32_t first_line; /* of a function with a language; 0: unknown */
    uint32_t code;       /* in the stream; 0: CODE_NAMES_CUT */
    bool is_library;     /* or a wrapper of malloc, or passed over: works for its caller */
    bool allocates;
    bool is_inlined;        /* into the next frame */
    bool is_of_interpreter; /* native: runs functions with a language, or is an extension of them */
    bool is_of_libc;
};

/* Which functions of stacks are shown, where some have a language. What an interpreter does itself
 * between two of these is left out, but in CODE_VIEW_NATIVE. A stack without such functions is shown
 * as it is. */
enum code_view { CODE_VIEW_ALL, CODE_VIEW_INTERPRETED, CODE_VIEW_NATIVE };

/* "all", "interpreted", "native". */
extern const char *const code_view_words[CODE_VIEW_NATIVE + 1];

/* Fills in what such a word means. False: it is none of them. */
bool code_view_parse(const char *word, enum code_view *view);

/* Drops those that are not shown, of a stack's frames (code_names_walk()). Returns how many are
 * left. */
unsigned code_view_take(enum code_view view, const struct code_frame *frames, uint32_t *at,
                        unsigned count);

#endif
