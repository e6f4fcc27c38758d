#include "tracing/stacks/ruby_code.h"

#include "tracing/stacks/stack_table.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Of an object's flags. */
#define RUBY_TYPE      UINT64_C(0x1f)
#define RUBY_IS_TEXT   UINT64_C(0x05)
#define RUBY_IS_ARRAY  UINT64_C(0x07)
#define RUBY_ISEQ_MASK UINT64_C(0xf01f)
#define RUBY_IS_ISEQ   UINT64_C(0x701a)
#define RUBY_ELSEWHERE (UINT64_C(1) << 13) /* a text */
#define RUBY_HERE      (UINT64_C(1) << 13) /* an array */
#define RUBY_TEXT_BITS 14u /* the length of a text that is here: 5 bits from here on */

/* What is longer is cut. */
#define RUBY_LETTERS_MAX 1024u

/* ---- texts ---- */

struct ruby_text {
    uintptr_t at;
    uint32_t bytes;
};

static bool ruby_text_of(struct interpreter_reader *reader, uintptr_t object,
                         struct ruby_text *text)
{
    uintptr_t flags, length;
    if (!interpreter_is_object(object) || !interpreter_word(reader, object + RUBY_FLAGS, &flags) ||
        (flags & RUBY_TYPE) != RUBY_IS_TEXT)
        return false;
    text->at = object + RUBY_TEXT_HERE;
    text->bytes = flags >> RUBY_TEXT_BITS & 0x1f;
    if (!(flags & RUBY_ELSEWHERE)) return true;
    if (!interpreter_word(reader, object + RUBY_TEXT_LENGTH, &length) ||
        !interpreter_word(reader, object + RUBY_TEXT_AT, &text->at))
        return false;
    text->bytes = length < RUBY_LETTERS_MAX ? (uint32_t)length : RUBY_LETTERS_MAX;
    return true;
}

static bool ruby_hash_text(struct interpreter_reader *reader, const struct ruby_text *text,
                           uint64_t *hash)
{
    const uint8_t *piece = interpreter_piece(reader, text->at, text->bytes);
    if (piece != NULL) *hash = XXH3_64bits_withSeed(piece, text->bytes, *hash);
    return piece != NULL;
}

/* Of a longer one the end, if `keeps_end`, else the beginning. Returns the bytes; 0: it cannot be
 * read, or is empty. */
static uint32_t ruby_take_text(struct interpreter_reader *reader, const struct ruby_text *text,
                               bool keeps_end, uint8_t *to)
{
    const uint32_t bytes =
        text->bytes < INTERPRETER_TEXT_MAX / 2 ? text->bytes : INTERPRETER_TEXT_MAX / 2;
    return interpreter_read(reader, text->at + (keeps_end ? text->bytes - bytes : 0), to, bytes)
               ? bytes
               : 0;
}

/* ---- sequences ---- */

struct ruby_code {
    uintptr_t body;
    struct ruby_text path, label;
    uint32_t first_line;
};

/* The path is a text, or the first of an array of two. */
static bool ruby_path_of(struct interpreter_reader *reader, uintptr_t object,
                         struct ruby_text *path)
{
    uintptr_t flags;
    if (!interpreter_is_object(object) || !interpreter_word(reader, object + RUBY_FLAGS, &flags))
        return false;
    if ((flags & (RUBY_TYPE | RUBY_HERE)) == (RUBY_IS_ARRAY | RUBY_HERE) &&
        !interpreter_word(reader, object + RUBY_ARRAY_HERE, &object))
        return false;
    return ruby_text_of(reader, object, path);
}

static bool ruby_body_of(struct interpreter_reader *reader, uintptr_t iseq, uintptr_t *body)
{
    uintptr_t flags;
    return interpreter_is_object(iseq) && interpreter_word(reader, iseq + RUBY_FLAGS, &flags) &&
           (flags & RUBY_ISEQ_MASK) == RUBY_IS_ISEQ &&
           interpreter_word(reader, iseq + RUBY_ISEQ_BODY, body) && interpreter_is_object(*body);
}

static bool ruby_read_code(struct interpreter_reader *reader, uintptr_t iseq,
                           struct ruby_code *code)
{
    uintptr_t path, label, first_line;
    if (!ruby_body_of(reader, iseq, &code->body) ||
        !interpreter_word(reader, code->body + RUBY_BODY_PATH, &path) ||
        !interpreter_word(reader, code->body + RUBY_BODY_LABEL, &label) ||
        !interpreter_word(reader, code->body + RUBY_BODY_FIRST_LINE, &first_line) ||
        !ruby_path_of(reader, path, &code->path) || !ruby_text_of(reader, label, &code->label))
        return false;
    code->first_line = first_line & 1 ? (uint32_t)(first_line >> 1) : 0;
    return true;
}

/* ---- lines ---- */

/* How many bits are set. */
static uint32_t ruby_bits(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    return (uint32_t)(((word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) *
                          UINT64_C(0x0101010101010101) >>
                      56);
}

/* How many entries begin up to a place, by the index: of the first 54 places seven bits each, nine
 * in a word; then blocks of 512: how many before, how many in each eighth (nine bits), a bit for
 * each. */
static bool ruby_rank(struct interpreter_reader *reader, uintptr_t index, uint32_t place,
                      uint32_t *rank)
{
    enum { EARLY = 54, IN_WORD = 9, BLOCK = 512, BLOCK_BYTES = 80 };
    uintptr_t word, ranks;
    uint32_t before;
    if (place < EARLY) {
        if (!interpreter_word(reader, index + place / IN_WORD * sizeof word, &word)) return false;
        *rank = word >> place % IN_WORD * 7 & 0x7f;
        return true;
    }
    place -= EARLY;
    const uintptr_t block =
        index + EARLY / IN_WORD * sizeof word + (uintptr_t)(place / BLOCK) * BLOCK_BYTES;
    const uint32_t eighth = place % BLOCK / 64;
    if (!interpreter_read(reader, block, &before, sizeof before) ||
        !interpreter_word(reader, block + 8, &ranks) ||
        !interpreter_word(reader, block + 16 + eighth * sizeof word, &word))
        return false;
    const uint32_t in_eighths = eighth ? ranks >> (eighth - 1) * 9 & 0x1ff : 0;
    *rank = before + in_eighths + ruby_bits(word << (63 - place % 64));
    return true;
}

/* The line of the instruction before the word `pc`. */
static bool ruby_line_of(struct interpreter_reader *reader, uintptr_t body, uintptr_t pc,
                         int64_t *line)
{
    uintptr_t instructions, lines, index;
    uint32_t size, count, rank = 1;
    int32_t found = 0;
    *line = 0;
    if (!interpreter_read(reader, body + RUBY_BODY_SIZE, &size, sizeof size) ||
        !interpreter_word(reader, body + RUBY_BODY_INSTRUCTIONS, &instructions) ||
        !interpreter_word(reader, body + RUBY_BODY_LINES, &lines) ||
        !interpreter_read(reader, body + RUBY_BODY_LINES_COUNT, &count, sizeof count) ||
        !interpreter_word(reader, body + RUBY_BODY_LINES_INDEX, &index))
        return false;
    const uintptr_t at = (pc - instructions) / sizeof(uintptr_t);
    if (pc < instructions || at > size) return false;
    if (count == 0) return true;
    if (count > 1 && !ruby_rank(reader, index, at > 0 ? (uint32_t)at - 1 : 0, &rank)) return false;
    if (rank == 0 || rank > count ||
        !interpreter_read(reader, lines + (uintptr_t)(rank - 1) * RUBY_LINE_BYTES, &found,
                          sizeof found))
        return false;
    *line = found > 0 ? found : 0;
    return true;
}

/* ---- hashes ---- */

/* The hash of all but the line. */
static bool ruby_hash(struct interpreter_reader *reader, uintptr_t iseq, uint64_t *hash)
{
    struct ruby_code code;
    if (!ruby_read_code(reader, iseq, &code)) return false;
    *hash = code.first_line;
    return ruby_hash_text(reader, &code.path, hash) && ruby_hash_text(reader, &code.label, hash);
}

/* The same; of what recurs in a stack once. */
static bool ruby_hash_once(struct interpreter_reader *reader, struct interpreter_memory *memory,
                           uint32_t *reads, uintptr_t iseq, uint64_t *hash)
{
    const uint32_t count = *reads < INTERPRETER_READS ? *reads : INTERPRETER_READS;
    for (uint32_t i = 0; i < count; i++)
        if (memory->reads[i].code == iseq) {
            *hash = memory->reads[i].hash;
            return true;
        }
    if (!ruby_hash(reader, iseq, hash)) return false;
    memory->reads[(*reads)++ % INTERPRETER_READS] =
        (struct interpreter_read){.code = iseq, .hash = *hash};
    return true;
}

bool ruby_code_hash(struct interpreter_reader *reader, struct interpreter_memory *memory,
                    uint32_t *reads, uintptr_t iseq, uintptr_t pc, int64_t *line, uint64_t *hash)
{
    uintptr_t body;
    if (!ruby_hash_once(reader, memory, reads, iseq, hash) || !ruby_body_of(reader, iseq, &body) ||
        !ruby_line_of(reader, body, pc, line))
        return false;
    *hash = interpreter_mix(*hash, (uint64_t)*line);
    return true;
}

/* The number of the file's module. False: no room. */
static bool ruby_file_number(struct malloctape_lane *lane, struct interpreter_reader *reader,
                             const struct ruby_text *path, uint8_t *text, uint32_t *number)
{
    uint64_t hash = 0;
    if (!ruby_hash_text(reader, path, &hash)) return false;
    const uint64_t key = interpreter_mix(hash, 1);
    if (stack_table_of_source(key, number)) return true;
    const uint32_t bytes = ruby_take_text(reader, path, true, text);
    return stack_table_define_source(lane, key, RUBY_LANGUAGE, (const char *)text, bytes, number);
}

bool ruby_define(struct malloctape_lane *lane, struct interpreter_reader *reader,
                 const struct interpreter_function *function, uint8_t *text, uint32_t *number)
{
    struct ruby_code code;
    uint32_t module;
    if (!ruby_read_code(reader, function->code, &code) ||
        !ruby_file_number(lane, reader, &code.path, text, &module))
        return false;
    const struct stack_table_function defined = {
        .module = module, .first_line = code.first_line, .line = (uint32_t)function->at};
    const uint32_t bytes = ruby_take_text(reader, &code.label, false, text);
    return stack_table_define_function(lane, function->key, &defined, (const char *)text, bytes,
                                       number);
}
