/* python_code - code objects of CPython, for interpreter_python.c: what is read of them, and their
 * numbers.
 *
 * A number stands for a function and a line: the file, the qualified name, the first line and the
 * table of lines of the code object, and the instruction. It is found by a hash of all of that,
 * taken anew each time: so it is never that of a code object that has died, wherever another one
 * lies. Two of these have the same hash in one of 30 million recordings of a million functions and
 * lines. */
#ifndef MALLOCTAPE_PYTHON_CODE_H
#define MALLOCTAPE_PYTHON_CODE_H

#include "tracing/stacks/interpreter.h"

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
    PYTHON_TEXT_HASH = 24, /* -1: it has not been needed yet */
    PYTHON_TEXT_STATE = 32,
    PYTHON_CODE_FILE = 112,
    PYTHON_CODE_NAME = 128,
    PYTHON_CODE_LINES = 136
};

/* Who owns a frame. */
enum { PYTHON_OF_GENERATOR = 1, PYTHON_OF_STACK = 3 };

struct python_reader {
    struct unwind_memory *memory;
    const struct python_layout *layout;
    bool is_direct; /* memory is read as it is */
};

/* At most UNWIND_COPY_BYTES. False: it cannot be read. */
static inline bool python_read(struct python_reader *reader, uintptr_t from, void *to, size_t bytes)
{
    if (!reader->is_direct) return unwind_memory_copy(reader->memory, from, to, bytes);
    if (from < UNWIND_COPY_BYTES) return false;
    __builtin_memcpy(to, (const void *)from, bytes);
    return true;
}

static inline bool python_word(struct python_reader *reader, uintptr_t from, uintptr_t *word)
{
    return from % sizeof *word == 0 && python_read(reader, from, word, sizeof *word);
}

/* What has been hashed in this walk, in which nothing dies. All zero at first. */
struct python_known {
    uintptr_t code, file; /* 0: none */
    uint64_t code_hash, file_hash;
};

enum python_code_found { PYTHON_CODE_FOUND, PYTHON_CODE_NO_ROOM, PYTHON_CODE_UNREADABLE };

/* The number of a code object's function where it is at this byte of its instructions. */
enum python_code_found python_code_number(struct malloctape_lane *lane,
                                          struct python_reader *reader, struct python_known *known,
                                          uintptr_t code, int64_t instruction,
                                          struct interpreter_memory *memory, uint32_t *number);

#endif
