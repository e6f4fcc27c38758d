/* stack_definition - what the numbers of call stacks mean, one record at a time (FORMAT.md 2.8,
 * 5.8; INSTRUCTIONS.md 4.6). For what writes a stream, inside other people's programs, and what
 * reads one.
 *
 * A stack is the number of its innermost node. A node has a code and a parent, which is less than
 * itself; a code is an offset in a module; a module is a file, from when it is mapped until it is
 * unmapped. */
#ifndef MALLOCTAPE_STACK_DEFINITION_H
#define MALLOCTAPE_STACK_DEFINITION_H

#include <stdbool.h>
#include <stdint.h>

/* Nodes without code, at which stacks end on their outer side. */
enum stack_end {
    STACK_END,          /* nothing is further out; as the stack of a call: it has none */
    STACK_CUT_BY_DEPTH, /* deeper than the recorder's limit */
    STACK_CUT_BY_CODE,  /* code that cannot be unwound is in between */
    STACK_NODE_FIRST = 8
};

#define STACK_CODE_FIRST    1u
#define STACK_NUMBERS_LIMIT (1u << 28) /* of nodes and of codes */
/* When there are so many nodes a recorder defines no more: calls with further stacks have none. */
#define STACK_NODES_FULL    ((1u << 24) - (1u << 16))
#define STACK_MODULE_NONE   0u /* its codes are addresses */
#define STACK_MODULES_LIMIT (1u << 16)
#define STACK_OFFSETS_LIMIT (UINT64_C(1) << 59)

enum stack_what {
    STACK_MODULE = 1,
    STACK_UNLOADED = 2,
    STACK_TEXT = 3,
    STACK_CODES = 4,
    STACK_NODES = 5
};

/* What a text belongs to. */
enum stack_text_of { STACK_PATH, STACK_BUILD_ID, STACK_CODE_TEXT, STACK_LANGUAGE, STACK_TEXTS };

/* The most that one record defines. */
#define STACK_CODES_MAX      8u
#define STACK_NODES_MAX      16u
#define STACK_PIECE_BYTES    64u
#define STACK_TEXT_BYTES_MAX 32767u
#define STACK_BUILD_ID_MAX   64u

/* The offset of a code in a module that has a language: lines of source code, 0 if unknown. */
static inline uint64_t stack_offset_of_line(uint32_t first_of_function, uint32_t line)
{
    const uint32_t most = STACK_OFFSETS_LIMIT >> 32;
    return (uint64_t)(first_of_function < most ? first_of_function : 0) << 32 | line;
}

static inline uint32_t stack_line_of_offset(uint64_t offset)
{
    return (uint32_t)offset;
}

static inline uint32_t stack_first_line_of_offset(uint64_t offset)
{
    return (uint32_t)(offset >> 32);
}

struct stack_definition {
    uint32_t what;   /* enum stack_what */
    uint32_t number; /* of the module, the first code, the first node; of a text: of its owner */
    uint32_t count;  /* of codes, of nodes; else 0 */
    uint32_t of;     /* codes: their module; nodes: parent of the first; text: enum stack_text_of */
    /* Of a module: where it is mapped, and the difference of its addresses to those in the file. */
    uint64_t start, end, bias;
    /* Of a text: its bytes, and where in them the piece begins: at a multiple of STACK_PIECE_BYTES. */
    uint32_t length, offset;
    union {
        uint64_t offsets[STACK_CODES_MAX];
        uint32_t
            codes[STACK_NODES_MAX]; /* each node but the first is the child of the one before */
        uint8_t piece[STACK_PIECE_BYTES];
    };
};

/* What a definition begins with in both streams: what it is, and how many or whose (FORMAT.md 5.8). */
#define STACK_WHAT_BITS 3
#define STACK_WHAT_MASK 7u
static inline uint32_t stack_definition_head(const struct stack_definition *definition)
{
    const uint32_t more = definition->what == STACK_TEXT ? definition->of : definition->count;
    return definition->what | more << STACK_WHAT_BITS;
}

/* Bytes of the piece; `offset` is less than `length`. */
static inline uint32_t stack_piece_bytes(const struct stack_definition *definition)
{
    uint32_t rest = definition->length - definition->offset;
    return rest < STACK_PIECE_BYTES ? rest : STACK_PIECE_BYTES;
}

static inline bool stack_number_is_valid(uint64_t number, uint32_t first, uint32_t count)
{
    return number >= first && number < STACK_NUMBERS_LIMIT && count <= STACK_NUMBERS_LIMIT - number;
}

static inline bool stack_text_is_valid(const struct stack_definition *text)
{
    const uint32_t longest = text->of == STACK_BUILD_ID ? STACK_BUILD_ID_MAX : STACK_TEXT_BYTES_MAX;
    return text->of < STACK_TEXTS && text->length >= 1 && text->length <= longest &&
           text->offset < text->length && text->offset % STACK_PIECE_BYTES == 0 &&
           (text->of == STACK_CODE_TEXT ? stack_number_is_valid(text->number, STACK_CODE_FIRST, 1)
                                        : text->number - 1u < STACK_MODULES_LIMIT - 1);
}

/* Whether all is within the limits of the formats. */
static inline bool stack_definition_is_valid(const struct stack_definition *definition)
{
    const uint32_t number = definition->number, count = definition->count;
    switch (definition->what) {
    case STACK_MODULE:
        if (definition->end < definition->start) return false;
        return count == 0 && number - 1u < STACK_MODULES_LIMIT - 1;
    case STACK_UNLOADED: return count == 0 && number - 1u < STACK_MODULES_LIMIT - 1;
    case STACK_TEXT: return count == 0 && stack_text_is_valid(definition);
    case STACK_CODES:
        for (uint32_t i = 0; i < count && count <= STACK_CODES_MAX; i++)
            if (definition->offsets[i] >= STACK_OFFSETS_LIMIT) return false;
        return count >= 1 && count <= STACK_CODES_MAX && definition->of < STACK_MODULES_LIMIT &&
               stack_number_is_valid(number, STACK_CODE_FIRST, count);
    case STACK_NODES:
        for (uint32_t i = 0; i < count && count <= STACK_NODES_MAX; i++)
            if (!stack_number_is_valid(definition->codes[i], STACK_CODE_FIRST, 1)) return false;
        return count >= 1 && count <= STACK_NODES_MAX && definition->of < number &&
               stack_number_is_valid(number, STACK_NODE_FIRST, count);
    default: return false;
    }
}

#endif
