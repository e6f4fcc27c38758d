#include "tracing/stacks/python_code.h"

#include "tracing/os/os.h"
#include "tracing/stacks/stack_table.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* What is longer is cut: names, and what is looked at of a table of lines. */
#define PYTHON_LETTERS_MAX 8192u
#define PYTHON_LINES_MAX   ((uintptr_t)1 << 20)
/* What is hashed at a time. */
#define PYTHON_PIECE_BYTES 1024u

/* Of bytes anywhere. */
static bool python_hash_bytes(struct python_reader *reader, uintptr_t from, size_t bytes,
                              uint64_t *hash)
{
    *hash = 1;
    while (bytes > 0) {
        const size_t count = bytes < PYTHON_PIECE_BYTES ? bytes : PYTHON_PIECE_BYTES;
        const uint8_t *piece = (const uint8_t *)from;
        if (from < UNWIND_COPY_BYTES) return false;
        if (!reader->in.is_direct) {
            piece = unwind_memory_piece(reader->in.memory, from, count);
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
    if (!interpreter_word(&reader->in, object + PYTHON_TEXT_LENGTH, &length) ||
        !interpreter_read(&reader->in, object + PYTHON_TEXT_STATE, &state, sizeof state))
        return false;
    const uint32_t width = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    if (!is_compact || (width != 1 && width != 2 && width != 4) || length > INTPTR_MAX)
        return false;
    text->at = object + (is_ascii ? reader->layout->text_bytes : reader->layout->wide_text_bytes);
    text->letters = length < PYTHON_LETTERS_MAX ? (uint32_t)length : PYTHON_LETTERS_MAX;
    text->width = width;
    return true;
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

/* As UTF-8, in `to`; of a longer one the end, if `keeps_end`, else the beginning. Returns the
 * bytes; 0: it cannot be read, or is empty. */
static uint32_t python_take_text(struct python_reader *reader, uintptr_t object, bool keeps_end,
                                 uint8_t *to)
{
    struct python_text text;
    uint32_t bytes = 0;
    if (!python_text_of(reader, object, &text)) return 0;
    const uint32_t most = text.width == 1 ? INTERPRETER_TEXT_MAX / 2 : INTERPRETER_TEXT_MAX / 4;
    uint32_t from = keeps_end && text.letters > most ? text.letters - most : 0;
    for (; from < text.letters && bytes + 4 <= INTERPRETER_TEXT_MAX; from++) {
        uint32_t letter = 0;
        if (!interpreter_read(&reader->in, text.at + (uintptr_t)from * text.width, &letter,
                              text.width))
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
    if (lines->at >= lines->end ||
        !interpreter_read(&lines->reader->in, lines->at++, &byte, sizeof byte))
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
 * Its first byte has bit 7, no other one has. Returns the line of the instruction; 0: it has
 * none. */
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

/* ---- hashes ---- */

/* Makes a text or a bytes object note the hash of what it has, as Python does when it needs it:
 * that allocates nothing. Only of what is exactly of this type. */
static bool python_make_hash(struct python_reader *reader, uintptr_t object, uintptr_t type,
                             uint64_t *hash)
{
    uintptr_t its;
    if (!reader->in.is_direct || reader->hashing->hash == NULL || !type ||
        !interpreter_word(&reader->in, object + PYTHON_TYPE, &its) || its != type)
        return false;
    *hash = (uint64_t)reader->hashing->hash((void *)object);
    return true;
}

static __attribute__((noinline)) bool python_hash_text(struct python_reader *reader,
                                                       uintptr_t object, uint64_t *hash)
{
    struct python_text text;
    if (!python_text_of(reader, object, &text)) return false;
    return python_make_hash(reader, object, reader->hashing->text, hash) ||
           python_hash_bytes(reader, text.at, (size_t)text.letters * text.width, hash);
}

static __attribute__((noinline)) bool python_hash_lines(struct python_reader *reader,
                                                        uintptr_t object, uint64_t *hash)
{
    uintptr_t bytes;
    if (!interpreter_word(&reader->in, object + PYTHON_SIZE, &bytes)) return false;
    if (bytes > PYTHON_LINES_MAX) bytes = PYTHON_LINES_MAX;
    return python_make_hash(reader, object, reader->hashing->bytes, hash) ||
           python_hash_bytes(reader, object + PYTHON_BYTES, bytes, hash);
}

/* The hash that an object has of its letters or bytes, with a key that the process has drawn.
 * False: it has none yet, or cannot be read. */
static inline bool python_its_hash(struct python_reader *reader, uintptr_t object, uint64_t *hash)
{
    return interpreter_is_object(object) &&
           python_field(reader, object, PYTHON_HASH, hash, sizeof *hash) && *hash != UINT64_MAX;
}

static inline bool python_text_hash(struct python_reader *reader, uintptr_t object, uint64_t *hash)
{
    return python_its_hash(reader, object, hash) || python_hash_text(reader, object, hash);
}

/* ---- code objects ---- */

/* What a code object is made of. False: it is none, or cannot be read. */
static inline bool python_read_parts(struct python_reader *reader, uintptr_t code,
                                     struct python_parts *parts)
{
    const struct python_layout *layout = reader->layout;
    uintptr_t type;
    return python_field(reader, code, PYTHON_TYPE, &type, sizeof type) &&
           type == reader->code_type &&
           python_field(reader, code, PYTHON_CODE_FILE, &parts->file, sizeof parts->file) &&
           python_field(reader, code, PYTHON_CODE_NAME, &parts->name, sizeof parts->name) &&
           python_field(reader, code, PYTHON_CODE_LINES, &parts->lines, sizeof parts->lines) &&
           python_field(reader, code, layout->code.first_line, &parts->first_line,
                        sizeof parts->first_line) &&
           python_field(reader, code, layout->code.first_traceable, &parts->first_traceable,
                        sizeof parts->first_traceable);
}

/* The hashes that the texts and the table of a code object have, copied at once. False: one has
 * none yet, or cannot be read. */
static bool python_copy_hashes(const struct python_reader *reader, const struct python_parts *parts,
                               uint64_t hash[3])
{
    const uintptr_t from[] = {parts->file + PYTHON_HASH, parts->name + PYTHON_HASH,
                              parts->lines + PYTHON_HASH};
    return !reader->in.is_direct && interpreter_is_object(parts->file) &&
           interpreter_is_object(parts->name) && interpreter_is_object(parts->lines) &&
           os_memory_copy_words(reader->in.memory->thread_id, hash, from, 3) &&
           hash[0] != UINT64_MAX && hash[1] != UINT64_MAX && hash[2] != UINT64_MAX;
}

bool python_code_hash(struct python_reader *reader, uintptr_t code, uint64_t *hash,
                      uint32_t *first_traceable)
{
    struct python_parts parts;
    uint64_t of[3];
    if (!interpreter_is_object(code) || !python_read_parts(reader, code, &parts)) return false;
    if (!python_copy_hashes(reader, &parts, of) &&
        !(python_text_hash(reader, parts.file, &of[0]) &&
          python_text_hash(reader, parts.name, &of[1]) &&
          (python_its_hash(reader, parts.lines, &of[2]) ||
           python_hash_lines(reader, parts.lines, &of[2]))))
        return false;
    *hash = python_hash(of[0], of[1], of[2], parts.first_line);
    *first_traceable = parts.first_traceable;
    return true;
}

/* The number of the file's module. False: no room. */
static bool python_file_number(struct malloctape_lane *lane, struct python_reader *reader,
                               uintptr_t file, uint8_t *text, uint32_t *number)
{
    uint64_t hash = 0;
    if (!python_text_hash(reader, file, &hash)) return false;
    const uint64_t key = interpreter_mix(hash, 1);
    if (stack_table_of_source(key, number)) return true;
    const uint32_t bytes = python_take_text(reader, file, true, text);
    return stack_table_define_source(lane, key, PYTHON_LANGUAGE, (const char *)text, bytes, number);
}

bool python_define(struct malloctape_lane *lane, struct python_reader *reader,
                   const struct interpreter_function *function, uint8_t *text, uint32_t *number)
{
    struct python_parts parts;
    uintptr_t bytes;
    uint32_t module;
    if (!python_read_parts(reader, function->code, &parts) ||
        !interpreter_word(&reader->in, parts.lines + PYTHON_SIZE, &bytes) ||
        !python_file_number(lane, reader, parts.file, text, &module))
        return false;
    if (bytes > PYTHON_LINES_MAX) bytes = PYTHON_LINES_MAX;
    const uintptr_t at = parts.lines + PYTHON_BYTES;
    struct python_lines lines = {reader, at, at + bytes};
    const struct stack_table_function defined = {
        .module = module,
        .first_line = parts.first_line,
        .line = python_line_of(&lines, (int32_t)parts.first_line, function->at)};
    const uint32_t letters = python_take_text(reader, parts.name, false, text);
    return stack_table_define_function(lane, function->key, &defined, (const char *)text, letters,
                                       number);
}
