#include "tracing/stacks/python_code.h"

#include "tracing/recording/recording.h"
#include "tracing/stacks/stack_table.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* What is longer is cut: names, and what is looked at of a table of lines. */
#define PYTHON_LETTERS_MAX 8192u
#define PYTHON_LINES_MAX   ((uintptr_t)1 << 20)
/* What is hashed at a time. */
#define PYTHON_PIECE_BYTES 1024u
#define PYTHON_TEXT_MAX    512u

/* ---- hashes ---- */

static uint64_t python_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

/* Of bytes anywhere. */
static bool python_hash_bytes(struct python_reader *reader, uintptr_t from, size_t bytes,
                              uint64_t *hash)
{
    while (bytes > 0) {
        const size_t count = bytes < PYTHON_PIECE_BYTES ? bytes : PYTHON_PIECE_BYTES;
        const uint8_t *piece = (const uint8_t *)from;
        if (from < UNWIND_COPY_BYTES) return false;
        if (!reader->is_direct) {
            piece = unwind_memory_piece(reader->memory, from, count);
            if (piece == NULL) return false;
        }
        *hash = XXH3_64bits_withSeed(piece, count, *hash);
        from += count;
        bytes -= count;
    }
    return true;
}

/* ---- texts ---- */

/* Its letters take `width` bytes each. */
struct python_text {
    uintptr_t at;
    uint32_t letters, width;
};

static bool python_text_of(struct python_reader *reader, uintptr_t object, struct python_text *text)
{
    uintptr_t length;
    uint32_t state;
    if (!python_word(reader, object + PYTHON_TEXT_LENGTH, &length) ||
        !python_read(reader, object + PYTHON_TEXT_STATE, &state, sizeof state))
        return false;
    const uint32_t width = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    if (!is_compact || (width != 1 && width != 2 && width != 4) || length > INTPTR_MAX)
        return false;
    text->at = object + (is_ascii ? reader->layout->text_bytes : reader->layout->wide_text_bytes);
    text->letters = length < PYTHON_LETTERS_MAX ? (uint32_t)length : PYTHON_LETTERS_MAX;
    text->width = width;
    return true;
}

/* Most texts have a hash of their letters, with a key that the process has drawn. */
static bool python_hash_text(struct python_reader *reader, uintptr_t object, uint64_t *hash)
{
    struct python_text text;
    uint64_t its, length;
    if (!python_word(reader, object + PYTHON_TEXT_HASH, &its)) return false;
    if (its != UINT64_MAX) {
        if (!python_word(reader, object + PYTHON_TEXT_LENGTH, &length)) return false;
        *hash = python_mix(python_mix(*hash, its), length);
        return true;
    }
    return python_text_of(reader, object, &text) &&
           python_hash_bytes(reader, text.at, (size_t)text.letters * text.width, hash);
}

static uint32_t python_put_letter(uint8_t *to, uint32_t letter)
{
    if (letter < 0x80) {
        to[0] = (uint8_t)letter;
        return 1;
    }
    const uint32_t more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (uint8_t)(first[more] | letter >> 6 * more);
    for (uint32_t i = 1; i <= more; i++)
        to[i] = (uint8_t)(0x80 | (letter >> 6 * (more - i) & 0x3f));
    return 1 + more;
}

/* As UTF-8, in `to`; of a longer one the end, if `keeps_end`, else the beginning. Returns the bytes;
 * 0: it cannot be read, or is empty. */
static uint32_t python_take_text(struct python_reader *reader, uintptr_t object, bool keeps_end,
                                 uint8_t *to)
{
    struct python_text text;
    uint32_t bytes = 0;
    if (!python_text_of(reader, object, &text)) return 0;
    const uint32_t most = text.width == 1 ? PYTHON_TEXT_MAX / 2 : PYTHON_TEXT_MAX / 4;
    uint32_t from = keeps_end && text.letters > most ? text.letters - most : 0;
    for (; from < text.letters && bytes + 4 <= PYTHON_TEXT_MAX; from++) {
        uint32_t letter = 0;
        if (!python_read(reader, text.at + (uintptr_t)from * text.width, &letter, text.width))
            return 0;
        bytes += python_put_letter(to + bytes, letter & 0x1fffff);
    }
    return bytes;
}

/* ---- lines ---- */

struct python_lines {
    struct python_reader *reader;
    uintptr_t at, end;
};

static uint8_t python_next_byte(struct python_lines *lines)
{
    uint8_t byte;
    if (lines->at >= lines->end || !python_read(lines->reader, lines->at++, &byte, sizeof byte))
        return 0;
    return byte;
}

/* Six bits in a byte, the lowest ones first; the lowest of all is the sign. */
static int64_t python_next_signed(struct python_lines *lines)
{
    uint64_t value = 0;
    uint32_t bits = 0;
    uint8_t byte;
    do {
        byte = python_next_byte(lines);
        if (bits < 60) value |= (uint64_t)(byte & 0x3f) << bits;
        bits += 6;
    } while (byte & 0x40);
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* An entry is for some instructions, and says how their line differs from that of the entry before.
 * Its first byte has bit 7, no other one has. Returns the line of the instruction; 0: it has none. */
static uint32_t python_line_of(struct python_lines *lines, int64_t line, int64_t instruction)
{
    int64_t end = 0;
    if (instruction < 0) return (uint32_t)line;
    while (lines->at < lines->end) {
        const uint8_t head = python_next_byte(lines), kind = head >> 3 & 15;
        if (!(head & 0x80)) continue;
        if (kind == 13 || kind == 14)
            line += python_next_signed(lines);
        else if (kind >= 10 && kind <= 12)
            line += kind - 10;
        end += 2 * (1 + (head & 7));
        if (instruction < end) return kind == 15 || line < 0 ? 0 : (uint32_t)line;
    }
    return 0;
}

/* ---- code objects ---- */

/* What a code object is made of. */
struct python_parts {
    uintptr_t file, name, lines, lines_bytes;
    uint32_t first_line;
};

static bool python_read_parts(struct python_reader *reader, uintptr_t code,
                              struct python_parts *parts)
{
    uintptr_t lines;
    if (!python_word(reader, code + PYTHON_CODE_FILE, &parts->file) ||
        !python_word(reader, code + PYTHON_CODE_NAME, &parts->name) ||
        !python_word(reader, code + PYTHON_CODE_LINES, &lines) ||
        !python_read(reader, code + reader->layout->code.first_line, &parts->first_line,
                     sizeof parts->first_line) ||
        !python_word(reader, lines + PYTHON_SIZE, &parts->lines_bytes))
        return false;
    if (parts->lines_bytes > PYTHON_LINES_MAX) parts->lines_bytes = PYTHON_LINES_MAX;
    parts->lines = lines + PYTHON_BYTES;
    return true;
}

/* Of all of it. */
static bool python_hash_code(struct python_reader *reader, struct python_known *known,
                             uintptr_t code, struct python_parts *parts, uint64_t *hash)
{
    if (!python_read_parts(reader, code, parts)) return false;
    if (code == known->code) {
        *hash = known->code_hash;
        return true;
    }
    if (parts->file != known->file) {
        known->file_hash = 1;
        known->file = 0;
        if (!python_hash_text(reader, parts->file, &known->file_hash)) return false;
        known->file = parts->file;
    }
    *hash = python_mix(known->file_hash, parts->first_line);
    if (!python_hash_text(reader, parts->name, hash) ||
        !python_hash_bytes(reader, parts->lines, parts->lines_bytes, hash))
        return false;
    known->code = code;
    known->code_hash = *hash;
    return true;
}

/* The number of the file's module. False: no room. */
static bool python_file_number(struct malloctape_lane *lane, struct python_reader *reader,
                               const struct python_known *known, uintptr_t file, uint8_t *text,
                               uint32_t *number)
{
    const uint64_t key = python_mix(known->file_hash, 1);
    if (stack_table_of_source(key, number)) return true;
    const uint32_t bytes = python_take_text(reader, file, true, text);
    return stack_table_define_source(lane, key, PYTHON_LANGUAGE, (const char *)text, bytes, number);
}

/* What has no number yet. */
static __attribute__((noinline)) enum python_code_found python_define(
    struct malloctape_lane *lane, struct python_reader *reader, const struct python_known *known,
    const struct python_parts *parts, uint64_t key, int64_t instruction, uint8_t *text,
    uint32_t *number)
{
    uint32_t file;
    if (!python_file_number(lane, reader, known, parts->file, text, &file))
        return PYTHON_CODE_NO_ROOM;
    struct python_lines lines = {reader, parts->lines, parts->lines + parts->lines_bytes};
    const struct stack_table_function function = {
        .module = file,
        .first_line = parts->first_line,
        .line = python_line_of(&lines, (int32_t)parts->first_line, instruction)};
    const uint32_t bytes = python_take_text(reader, parts->name, false, text);
    return stack_table_define_function(lane, key, &function, (const char *)text, bytes, number)
               ? PYTHON_CODE_FOUND
               : PYTHON_CODE_NO_ROOM;
}

enum python_code_found python_code_number(struct malloctape_lane *lane,
                                          struct python_reader *reader, struct python_known *known,
                                          uintptr_t code, int64_t instruction,
                                          struct interpreter_memory *memory, uint32_t *number)
{
    struct python_parts parts;
    uint64_t hash;
    if (!python_hash_code(reader, known, code, &parts, &hash)) return PYTHON_CODE_UNREADABLE;
    const uint64_t key = python_mix(hash, (uint64_t)instruction);
    /* Numbers are of a recording. */
    const uint64_t now = python_mix(key, recording.number);
    struct interpreter_number *latest = &memory->numbers[now % INTERPRETER_NUMBERS];
    if (latest->key == now) {
        *number = latest->number;
        return PYTHON_CODE_FOUND;
    }
    if (!stack_table_of_source(key, number)) {
        const enum python_code_found found =
            python_define(lane, reader, known, &parts, key, instruction, memory->text, number);
        if (found != PYTHON_CODE_FOUND) return found;
    }
    *latest = (struct interpreter_number){.key = now, .number = *number};
    return PYTHON_CODE_FOUND;
}
