/* ruby_code - instruction sequences of Ruby, for interpreter_ruby.c: what is read of them, and
 * their definitions.
 *
 *   rb_iseq_t --> its body: path, label, first line, a table of lines
 *
 * A number stands for a label and a line: it is found by a hash of the path, the label and both
 * lines, put together anew each time, as for Python (python_code.h). */
#ifndef MALLOCTAPE_RUBY_CODE_H
#define MALLOCTAPE_RUBY_CODE_H

#include "tracing/stacks/interpreter_own.h"

#define RUBY_LANGUAGE "ruby"

/* Where things are in Ruby 3.1, in bytes from the beginning of their structures. */
enum {
    RUBY_FLAGS = 0, /* of any object */
    RUBY_ISEQ_BODY = 16,
    RUBY_BODY_SIZE = 4,
    RUBY_BODY_INSTRUCTIONS = 8,
    RUBY_BODY_PATH = 64,
    RUBY_BODY_LABEL = 80,
    RUBY_BODY_FIRST_LINE = 88, /* twice the line, and 1 */
    RUBY_BODY_LINES = 120,
    RUBY_BODY_LINES_COUNT = 136,
    RUBY_BODY_LINES_INDEX = 144,
    RUBY_TEXT_LENGTH = 16, /* of a text that is elsewhere */
    RUBY_TEXT_AT = 24,
    RUBY_TEXT_HERE = 16, /* of one that is not */
    RUBY_ARRAY_HERE = 16,
    RUBY_LINE_BYTES = 12 /* of an entry, which begins with the line */
};

/* The hash of the function that goes on at `pc`, and as what it is recorded: its line. False: it is
 * none, or cannot be read. */
bool ruby_code_hash(struct interpreter_reader *reader, struct interpreter_memory *memory,
                    uint32_t *reads, uintptr_t iseq, uintptr_t pc, int64_t *line, uint64_t *hash);

/* Defines a function that has no number. False: there is no room in the lane, or it can no longer
 * be read. */
bool ruby_define(struct malloctape_lane *lane, struct interpreter_reader *reader,
                 const struct interpreter_function *function, uint8_t *text, uint32_t *number);

#endif
