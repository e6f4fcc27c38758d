/* python_code - code objects of CPython, for interpreter_python.c: what is read of them, and their
 * numbers.
 *
 * A number stands for a function and a line: the file, the qualified name, the first line and the
 * table of lines of the code object, and the instruction. It is found by a hash of all of that, put
 * together anew each time: so it is never that of a code object that has died, wherever another one
 * lies. Texts and tables note their own hash, once, as those that Python has needed do; another
 * object in that place has none at first. Two functions and lines have the same hash in one of 30
 * million recordings of a million. */
#ifndef MALLOCTAPE_PYTHON_CODE_H
#define MALLOCTAPE_PYTHON_CODE_H

#include "tracing/stacks/interpreter_own.h"

#define PYTHON_LANGUAGE "python"

/* Where things are in a version, in bytes from the beginning of their structures. */
struct python_layout {
    uint32_t version;                         /* 0x030b: 3.11 */
    uint32_t state_frames;                    /* its cframe; in 3.13 its frame */
    uint32_t state_thread;                    /* its thread's number in the system */
    uint32_t state_status;                    /* of 3.12 on: bits */
    uint32_t cframe_current, cframe_previous; /* both 0: there is no cframe */
    struct {
        uint32_t code, previous, instruction, owner;
        uint32_t is_entry; /* 0: an outermost frame on the stack ends a run instead, and has no
                              function */
    } frame;
    struct {
        uint32_t first_line, instructions, first_traceable;
    } code;
    uint32_t text_bytes, wide_text_bytes; /* of a text before its letters: of ASCII, or of others */
};

/* The same in all of these versions. */
enum {
    PYTHON_TYPE = 8, /* of an object */
    PYTHON_SIZE = 16,
    PYTHON_TYPE_NAME = 24,
    PYTHON_BYTES = 32, /* of a bytes object */
    PYTHON_TEXT_LENGTH = 16,
    PYTHON_HASH = 24, /* of a text, or of a bytes object; -1: it has not been needed yet */
    PYTHON_TEXT_STATE = 32,
    PYTHON_CODE_FILE = 112,
    PYTHON_CODE_NAME = 128,
    PYTHON_CODE_LINES = 136
};

/* Who owns a frame. */
enum { PYTHON_OF_GENERATOR = 1, PYTHON_OF_STACK = 3 };

/* The function that gives an object's hash, and the types of which it does no more. Each may be
 * 0. */
struct python_hashing {
    intptr_t (*hash)(void *);
    uintptr_t bytes, text;
};

struct python_reader {
    struct interpreter_reader in;
    const struct python_layout *layout;
    const struct python_hashing *hashing;
    uintptr_t code_type; /* what code objects are */
};

/* Reads a part of what is at such an address. */
static inline bool python_field(struct python_reader *reader, uintptr_t object, uint32_t offset,
                                void *to, size_t bytes)
{
    if (!reader->in.is_direct)
        return unwind_memory_copy(reader->in.memory, object + offset, to, bytes);
    __builtin_memcpy(to, (const void *)(object + offset), bytes);
    return true;
}

struct python_parts {
    uintptr_t file, name, lines;
    uint32_t first_line, first_traceable;
};

/* Hashes need no mixing, only to be told apart: the processor multiplies at the same time. */
static inline uint64_t python_hash(uint64_t of_file, uint64_t of_name, uint64_t of_lines,
                                   uint32_t first_line)
{
    return of_file + of_name * UINT64_C(0x9e3779b97f4a7c15) +
           of_lines * UINT64_C(0xc2b2ae3d27d4eb4f) + first_line * UINT64_C(0x165667b19e3779f9);
}

/* python_code_hash() where all is read as it is and has its hashes. False: it may not be so. */
static inline bool python_code_hash_direct(const struct python_layout *layout, uintptr_t code_type,
                                           uintptr_t code, uint64_t *hash,
                                           uint32_t *first_traceable)
{
    if (!interpreter_is_object(code) || interpreter_at(code, PYTHON_TYPE) != code_type)
        return false;
    const uintptr_t file = interpreter_at(code, PYTHON_CODE_FILE),
                    name = interpreter_at(code, PYTHON_CODE_NAME),
                    lines = interpreter_at(code, PYTHON_CODE_LINES);
    if (!interpreter_is_object(file) || !interpreter_is_object(name) ||
        !interpreter_is_object(lines))
        return false;
    const uint64_t of_file = interpreter_at(file, PYTHON_HASH),
                   of_name = interpreter_at(name, PYTHON_HASH),
                   of_lines = interpreter_at(lines, PYTHON_HASH);
    *hash =
        python_hash(of_file, of_name, of_lines, interpreter_half_at(code, layout->code.first_line));
    *first_traceable = interpreter_half_at(code, layout->code.first_traceable);
    return of_file != UINT64_MAX && of_name != UINT64_MAX && of_lines != UINT64_MAX;
}

/* A hash of what is recorded of a code object, and before which of its instructions it has not
 * begun. False: it is none, or cannot be read. */
bool python_code_hash(struct python_reader *reader, uintptr_t code, uint64_t *hash,
                      uint32_t *first_traceable);

/* Defines a function that has no number. False: there is no room in the lane, or it can no longer
 * be read. */
bool python_define(struct malloctape_lane *lane, struct python_reader *reader,
                   const struct interpreter_function *function, uint8_t *text, uint32_t *number);

#endif
