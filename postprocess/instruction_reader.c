#include "postprocess/instruction_reader.h"

#include <emmintrin.h>
#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/checksum.h"
#include "common/pages.h"
#include "common/varint.h"

const struct error_kind instruction_errors[] = {INSTRUCTION_ERROR_LIST(ERROR_LIST_KIND)};

_Static_assert(INPUT_SLACK >= INSTRUCTION_BLOCK_MAX * VARINT_BYTES_MAX + VARINT_SLACK,
               "a column may be overrun until the block ends");
_Static_assert(INSTRUCTION_BLOCK_MAX *INSTRUCTION_OPERANDS_MAX <= UINT16_MAX + 1,
               "operand_at reaches every operand of a block");

/* ---- failing ---- */

static bool reader_fail(struct instruction_reader *reader)
{
    reader->state = INSTRUCTIONS_FAILED;
    return false;
}

static bool reader_error(struct instruction_reader *reader, enum instruction_error code,
                         uint64_t offset)
{
    error_set(&reader->error, &instruction_errors[code], offset, NULL);
    return reader_fail(reader);
}

/* The input has fewer bytes than something that begins at `offset` needs. */
static bool reader_input_ended(struct instruction_reader *reader, uint64_t offset)
{
    if (reader->input->state == INPUT_FAILED) {
        reader->error = reader->input->error;
        return reader_fail(reader);
    }
    if (error_is_set(&reader->input->error))
        reader->error = reader->input->error;
    else
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_CUT], offset,
                  "after %" PRIu64 " instructions", reader->totals.instructions);
    reader->state = INSTRUCTIONS_CUT;
    return false;
}

/* ---- live objects (4.4) ---- */

/* No object has this size (INSTRUCTIONS.md 3). */
#define SIZE_NEVER UINT64_MAX

static void objects_free(struct live_objects *objects)
{
    pages_unmap(objects->sizes, objects->sizes_count * sizeof *objects->sizes);
    objects->sizes = NULL;
    objects->sizes_count = 0;
    register_order_free(&objects->registers);
}

/* Makes room for the births of a block. */
static bool objects_reserve(struct live_objects *objects, uint64_t births)
{
    struct register_order *registers = &objects->registers;
    if (!register_order_reserve(registers, births)) return false;
    if (objects->sizes_count == registers->capacity) return true;
    uint64_t *sizes =
        (uint64_t *)pages_grow(objects->sizes, objects->sizes_count * sizeof *objects->sizes,
                               registers->capacity * sizeof *objects->sizes);
    if (sizes == NULL) return false;
    for (uint64_t object = objects->sizes_count; object < registers->capacity; object++)
        sizes[object] = SIZE_NEVER;
    objects->sizes = sizes;
    objects->sizes_count = registers->capacity;
    return true;
}

/* Brings registers.high up to date: registers are taken for the first time in ascending order. */
static void objects_count_registers(struct live_objects *objects)
{
    uint64_t high = objects->registers.high;
    while (high < objects->sizes_count && objects->sizes[high] != SIZE_NEVER)
        high++;
    objects->registers.high = high;
}

static inline void objects_grew(struct live_objects *objects)
{
    if (objects->bytes > objects->peak_bytes) objects->peak_bytes = objects->bytes;
}

/* Leaves registers.high to objects_count_registers(), once per block. */
static inline uint32_t objects_begin(struct live_objects *objects, uint64_t size)
{
    uint32_t object = register_order_take(&objects->registers);
    objects->sizes[object] = size;
    objects->bytes += size;
    objects_grew(objects);
    return object;
}

/* The last two want a place that is less than the number of live objects, and return the register. */
static inline uint32_t objects_resize(struct live_objects *objects, uint64_t place, uint64_t size)
{
    uint32_t object = register_order_at(&objects->registers, place);
    objects->bytes += size - objects->sizes[object];
    objects->sizes[object] = size;
    objects_grew(objects);
    return object;
}

static inline uint32_t objects_end(struct live_objects *objects, uint64_t place)
{
    uint32_t object = register_order_release(&objects->registers, place);
    objects->bytes -= objects->sizes[object];
    return object;
}

/* ---- header (4.1) ---- */

static bool reader_check_fixed(struct instruction_reader *reader, const uint8_t *at)
{
    struct instruction_header *header = &reader->header;
    header->version_major = bytes_get16(at + 8);
    header->version_minor = bytes_get16(at + 10);
    header->metadata_bytes = bytes_get32(at + 12);
    header->features = bytes_get64(at + 16);
    header->info = bytes_get64(at + 24);
    if (header->version_major != INSTRUCTION_VERSION_MAJOR) {
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_VERSION], 8, "%u.%u",
                  header->version_major, header->version_minor);
        return reader_fail(reader);
    }
    if (header->metadata_bytes > INSTRUCTION_METADATA_MAX)
        return reader_error(reader, INSTRUCTION_ERROR_LIMIT, 12);
    uint64_t unknown = header->features & ~INSTRUCTION_FEATURES_KNOWN;
    if (unknown != 0) {
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_FEATURE], 16, "bit %d",
                  __builtin_ctzll(unknown));
        return reader_fail(reader);
    }
    return true;
}

static bool reader_read_header(struct instruction_reader *reader)
{
    struct input *input = reader->input;
    size_t there = input_peek(input, INSTRUCTION_HEADER_BYTES);
    size_t magic = there < 8 ? there : 8;
    bool ended_badly = input->state == INPUT_FAILED || input->state == INPUT_CUT;
    if (there == 0 && ended_badly) return reader_input_ended(reader, 0);
    if (there == 0 || memcmp(input->next, INSTRUCTION_MAGIC, magic) != 0)
        return reader_error(reader, INSTRUCTION_ERROR_MAGIC, 0);
    if (there < INSTRUCTION_HEADER_BYTES) return reader_input_ended(reader, 0);
    if (!reader_check_fixed(reader, input->next)) return false;

    size_t bytes = INSTRUCTION_HEADER_BYTES + reader->header.metadata_bytes;
    if (input_peek(input, bytes) < bytes) return reader_input_ended(reader, 0);
    const uint8_t *at = input->next;
    if (checksum_of_two(at, 32, at + INSTRUCTION_HEADER_BYTES, reader->header.metadata_bytes) !=
        bytes_get32(at + 32))
        return reader_error(reader, INSTRUCTION_ERROR_CHECKSUM, 0);
    memcpy(reader->metadata, at + INSTRUCTION_HEADER_BYTES, reader->header.metadata_bytes);
    reader->metadata[reader->header.metadata_bytes] = '\0';
    reader->header.metadata = reader->metadata;
    input_skip(input, bytes);
    return true;
}

bool instruction_reader_open(struct instruction_reader *reader, struct input *input)
{
    *reader = (struct instruction_reader){.input = input};
    reader->own_room = (struct instruction_room *)pages_map(sizeof *reader->own_room);
    reader->room = reader->own_room;
    reader->metadata = (char *)pages_map(INSTRUCTION_METADATA_MAX + 1);
    if (reader->own_room == NULL || reader->metadata == NULL) {
        error_set_system(&reader->error, "no memory for a block");
        return reader_fail(reader);
    }
    return reader_read_header(reader);
}

void instruction_reader_close(struct instruction_reader *reader)
{
    pages_unmap(reader->own_room, sizeof *reader->own_room);
    pages_unmap(reader->metadata, INSTRUCTION_METADATA_MAX + 1);
    objects_free(&reader->objects);
    reader->room = reader->own_room = NULL;
    reader->metadata = NULL;
}

void instruction_reader_set_room(struct instruction_reader *reader, struct instruction_room *room)
{
    reader->room = room != NULL ? room : reader->own_room;
    reader->room_elsewhere = room != NULL;
}

const char *instruction_header_value(const struct instruction_header *header, const char *key,
                                     size_t *bytes)
{
    size_t key_bytes = strlen(key);
    const char *at = header->metadata;
    const char *end = at + header->metadata_bytes;
    while (at != NULL && at < end) {
        const char *newline = (const char *)memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline != NULL ? newline : end;
        if ((size_t)(line_end - at) > key_bytes && memcmp(at, key, key_bytes) == 0 &&
            at[key_bytes] == '=') {
            *bytes = (size_t)(line_end - at) - key_bytes - 1;
            return at + key_bytes + 1;
        }
        at = line_end + 1;
    }
    return NULL;
}

/* ---- blocks (4.2, 4.3) ---- */

/* One block while it is decoded. `objects` is the reader's, copied here and back, so that the hot loop can keep it in
 * registers of the machine, and so that a block that is refused has not been counted. */
struct block {
    uint64_t offset;              /* in the stream */
    size_t count;                 /* instructions */
    const uint8_t *next[COLUMNS]; /* not yet decoded */
    const uint8_t *end[COLUMNS];
    size_t at;         /* index of the instruction being decoded */
    size_t operand_at; /* next free place in reader->room->operands */
    size_t others;     /* instructions of 5.3 so far */
    size_t ticks;
    uint64_t lost_events;
    struct live_objects objects;
};

static bool block_column_error(struct instruction_reader *reader, const struct block *block)
{
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_COLUMNS], block->offset,
              "instruction %" PRIu64, reader->totals.instructions + block->at);
    return reader_fail(reader);
}

static bool block_error(struct instruction_reader *reader, const struct block *block,
                        enum instruction_error code, const char *what, uint64_t value)
{
    /* Past the end of a column operands are noise: the column is what is wrong. */
    for (unsigned column = 0; column < COLUMNS; column++)
        if (block->next[column] > block->end[column]) return block_column_error(reader, block);
    error_set(&reader->error, &instruction_errors[code], block->offset,
              "instruction %" PRIu64 ": %s%" PRIu64, reader->totals.instructions + block->at, what,
              value);
    return reader_fail(reader);
}

/* Makes the whole block contiguous and checks it. False: no block, or no good one. */
static bool reader_read_block(struct instruction_reader *reader, struct block *block,
                              const uint8_t **payload, size_t *payload_bytes)
{
    struct input *input = reader->input;
    block->offset = input_offset(input);
    if (input_peek(input, INSTRUCTION_BLOCK_HEADER_BYTES) < INSTRUCTION_BLOCK_HEADER_BYTES)
        return reader_input_ended(reader, block->offset);
    if (memcmp(input->next, INSTRUCTION_BLOCK_MAGIC, 4) != 0)
        return reader_error(reader, INSTRUCTION_ERROR_BLOCK_MAGIC, block->offset);
    *payload_bytes = bytes_get32(input->next + 4);
    block->count = bytes_get32(input->next + 8);
    if (*payload_bytes > INSTRUCTION_BLOCK_PAYLOAD_MAX || block->count > INSTRUCTION_BLOCK_MAX)
        return reader_error(reader, INSTRUCTION_ERROR_LIMIT, block->offset);
    size_t bytes = INSTRUCTION_BLOCK_HEADER_BYTES + *payload_bytes;
    if (input_peek(input, bytes) < bytes) return reader_input_ended(reader, block->offset);
    *payload = input->next + INSTRUCTION_BLOCK_HEADER_BYTES;
    if (checksum_of_two(input->next, 12, *payload, *payload_bytes) != bytes_get32(input->next + 12))
        return reader_error(reader, INSTRUCTION_ERROR_CHECKSUM, block->offset);
    input_skip(input, bytes);
    return true;
}

static bool block_split_columns(struct instruction_reader *reader, struct block *block,
                                const uint8_t *payload, size_t payload_bytes)
{
    const uint8_t *end = payload + payload_bytes;
    const uint8_t *next = payload;
    uint64_t lengths[COLUMNS];
    for (unsigned column = 0; column < COLUMNS; column++) {
        if (next >= end) return block_column_error(reader, block);
        lengths[column] = varint_get(&next);
    }
    for (unsigned column = 0; column < COLUMNS; column++) {
        if (next > end || lengths[column] > (uint64_t)(end - next))
            return block_column_error(reader, block);
        block->next[column] = next;
        next += lengths[column];
        block->end[column] = next;
    }
    if (next != end || lengths[COLUMN_OPCODES] != block->count)
        return block_column_error(reader, block);
    return true;
}

/* ---- instructions that are rare (5) ---- */

static bool shape_has_size(uint8_t shape)
{
    return shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_REALLOC ||
           shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_SIZED_ALIGNED;
}

static bool shape_has_alignment(uint8_t shape)
{
    return shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_DEATH_ALIGNED ||
           shape == SHAPE_DEATH_SIZED_ALIGNED;
}

static bool shape_is_birth(uint8_t shape)
{
    return shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED;
}

static bool shape_is_death(uint8_t shape)
{
    return shape == SHAPE_DEATH || shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_ALIGNED ||
           shape == SHAPE_DEATH_SIZED_ALIGNED;
}

/* The flags that the table in 5.1 allows. */
static unsigned opcode_flags_allowed(unsigned number, uint8_t shape)
{
    if (shape_is_birth(shape)) return INSTRUCTION_FAILED;
    if (shape_is_death(shape)) return INSTRUCTION_UNKNOWN;
    if (number == CALL_REALLOC_MOVED) return INSTRUCTION_FAILED | INSTRUCTION_UNKNOWN;
    if (shape == SHAPE_REALLOC) return INSTRUCTION_UNKNOWN;
    return 0;
}

static bool block_get(struct instruction_reader *reader, struct block *block,
                      enum instruction_column column, uint64_t *value)
{
    if (block->next[column] >= block->end[column]) return block_column_error(reader, block);
    *value = varint_get(&block->next[column]);
    return true;
}

/* `count` numbers of the `misc` column become operands of `to`. */
static bool block_get_operands(struct instruction_reader *reader, struct block *block,
                               unsigned count, struct instruction *to)
{
    to->operands = (uint8_t)count;
    to->operand_at = (uint16_t)block->operand_at;
    for (unsigned i = 0; i < count; i++)
        if (!block_get(reader, block, COLUMN_MISC, &reader->room->operands[block->operand_at++]))
            return false;
    return true;
}

static void block_add_tick(struct instruction_reader *reader, struct block *block)
{
    reader->room->ticks[block->ticks++] = (struct instruction_tick){
        .at = block->at, .calls = block->at - block->others, .live_bytes = block->objects.bytes};
}

/* Instructions of 5.3. */
static bool block_decode_other(struct instruction_reader *reader, struct block *block,
                               unsigned number, struct instruction *to)
{
#define OTHER_OPERANDS(number, identifier, name, operands) [(number)-CALL_KINDS] = (operands),
    static const uint8_t operands[] = {INSTRUCTION_LIST(OTHER_OPERANDS)};
#undef OTHER_OPERANDS
    if (!block_get_operands(reader, block, operands[number - CALL_KINDS], to)) return false;
    uint64_t first = to->operands > 0 ? reader->room->operands[to->operand_at] : 0;
    if ((number == INSTRUCTION_LANE || number == INSTRUCTION_LOST) &&
        first >= INSTRUCTION_LANES_MAX)
        return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "lane ", first);
    if (number == INSTRUCTION_LOST)
        block->lost_events += reader->room->operands[to->operand_at + 1];
    if (number == INSTRUCTION_TICK) block_add_tick(reader, block);
    block->others++;
    return true;
}

static bool block_decode_heap(struct instruction_reader *reader, struct block *block,
                              struct instruction *to)
{
    uint64_t count;
    if (!block_get(reader, block, COLUMN_MISC, &count)) return false;
    if (count > 2) return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "count ", count);
    return block_get_operands(reader, block, (unsigned)count, to);
}

/* A call that begins, changes or ends an object, with any flags. */
static bool block_decode_call(struct instruction_reader *reader, struct block *block, uint8_t shape,
                              struct instruction *to)
{
    bool failed = to->opcode & INSTRUCTION_FAILED, unknown = to->opcode & INSTRUCTION_UNKNOWN;
    bool begins = shape_is_birth(shape) || (shape == SHAPE_REALLOC && unknown);
    bool names = !shape_is_birth(shape) && !unknown;
    uint64_t place = 0;
    uint32_t object = INSTRUCTION_NO_REGISTER;

    if (shape_has_size(shape) && !block_get(reader, block, COLUMN_SIZES, &to->size)) return false;
    if (names && !block_get(reader, block, COLUMN_OBJECTS, &place)) return false;
    if (shape_has_alignment(shape) && !block_get_operands(reader, block, 1, to)) return false;
    if (names && place >= block->objects.registers.live)
        return block_error(reader, block, INSTRUCTION_ERROR_PLACE, "place ", place);
    if (!failed && !shape_is_death(shape) && to->size == SIZE_NEVER)
        return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "size ", to->size);

    if (begins && !failed)
        object = objects_begin(&block->objects, to->size);
    else if (names && shape_is_death(shape))
        object = objects_end(&block->objects, place);
    else if (names && !failed)
        object = objects_resize(&block->objects, place, to->size);
    else if (names)
        object = register_order_at(&block->objects.registers, place);
    to->object = object;
    return true;
}

static __attribute__((noinline)) bool block_decode_rare(struct instruction_reader *reader,
                                                        struct block *block, struct instruction *to)
{
    unsigned opcode = *block->next[COLUMN_OPCODES], number = opcode & INSTRUCTION_NUMBER_MASK;
    uint8_t shape = call_shapes[number];
    bool other = number >= INSTRUCTION_LANE && number <= INSTRUCTION_LOST;
    *to = (struct instruction){.opcode = (uint8_t)opcode, .object = INSTRUCTION_NO_REGISTER};
    if ((shape == SHAPE_UNDEFINED && !other) ||
        (opcode & ~INSTRUCTION_NUMBER_MASK & ~opcode_flags_allowed(number, shape)) != 0)
        return block_error(reader, block, INSTRUCTION_ERROR_OPCODE, "opcode ", opcode);
    if (other) return block_decode_other(reader, block, number, to);
    if (shape == SHAPE_HEAP) return block_decode_heap(reader, block, to);
    return block_decode_call(reader, block, shape, to);
}

/* ---- instructions that are frequent ---- */

/* What block_decode() does with an opcode byte, flags included. */
enum action { ACTION_RARE = 0, ACTION_BIRTH, ACTION_DEATH, ACTION_DEATH_SIZED, ACTION_REALLOC };

#define ACTION_SHAPE_BIRTH                            ACTION_BIRTH
#define ACTION_SHAPE_DEATH                            ACTION_DEATH
#define ACTION_SHAPE_REALLOC                          ACTION_REALLOC
#define ACTION_SHAPE_BIRTH_ALIGNED                    ACTION_RARE
#define ACTION_SHAPE_DEATH_SIZED                      ACTION_DEATH_SIZED
#define ACTION_SHAPE_DEATH_ALIGNED                    ACTION_RARE
#define ACTION_SHAPE_DEATH_SIZED_ALIGNED              ACTION_RARE
#define ACTION_SHAPE_HEAP                             ACTION_RARE
#define ACTION_ENTRY(number, identifier, name, shape) [(number)] = ACTION_SHAPE_##shape,
static const uint8_t actions[256] = {CALL_KIND_LIST(ACTION_ENTRY)};

/* For a varint of index+1 bytes, the bits of a 64-bit load that are its own. */
static const uint64_t varint_masks[VARINT_BYTES_MAX - 1] = {
    UINT64_C(0xff),
    UINT64_C(0xffff),
    UINT64_C(0xffffff),
    UINT64_C(0xffffffff),
    UINT64_C(0xffffffffff),
    UINT64_C(0xffffffffffff),
    UINT64_C(0xffffffffffffff),
    UINT64_MAX,
};

/* varint_get() for integers of up to 8 bytes. Returns what is behind it, or NULL when it is longer. */
static inline const uint8_t *number_get(const uint8_t *at, uint64_t *number)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    if (__builtin_expect((uint8_t)word == 0, 0)) return NULL;
    unsigned zeros = (unsigned)__builtin_ctzll(word);
    *number = (word & varint_masks[zeros]) >> (zeros + 1);
    return at + zeros + 1;
}

/* The same by comparisons. Where most integers are as long as the one before, the processor guesses where the next one
 * begins; number_get() makes it wait until the length has been worked out. */
static inline const uint8_t *number_get_guessing(const uint8_t *at, uint64_t *number)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    if (word & 1) {
        *number = (uint8_t)word >> 1;
        return at + 1;
    } else if (word & 2) {
        *number = (uint16_t)word >> 2;
        return at + 2;
    }
    return number_get(at, number);
}

/* How many integers number_lengths_agree() looks at, and how many may be of another length. */
#define LENGTHS_SAMPLED 64u
#define LENGTHS_OTHER   8u

/* Whether the integers from `at` on are mostly of one length. */
static bool number_lengths_agree(const uint8_t *at, const uint8_t *end)
{
    unsigned counts[VARINT_BYTES_MAX + 1] = {0}, sampled = 0, most = 0;
    for (; sampled < LENGTHS_SAMPLED && at < end; sampled++) {
        unsigned bytes = varint_bytes(*at);
        if (++counts[bytes] > most) most = counts[bytes];
        at += bytes;
    }
    return sampled - most <= LENGTHS_OTHER;
}

/* An instruction without operands, written as the two words it consists of: five narrow stores take longer. */
static inline void instruction_store(struct instruction *to, uint64_t opcode, uint64_t object,
                                     uint64_t size)
{
    uint64_t words[2] = {opcode | object << 32, size};
    memcpy(to, words, sizeof words);
}

/* The same past the caches: they would have to fetch each line from those of the processor that last read it, which takes
 * several times as long as decoding where the two processors share no cache. */
static inline void instruction_store_past(struct instruction *to, uint64_t opcode, uint64_t object,
                                          uint64_t size)
{
    long long *words = (long long *)(void *)to;
    _mm_stream_si64(words, (long long)(opcode | object << 32));
    _mm_stream_si64(words + 1, (long long)size);
}
_Static_assert(sizeof(struct instruction) == 16 && offsetof(struct instruction, opcode) == 0 &&
                   offsetof(struct instruction, object) == 4 &&
                   offsetof(struct instruction, size) == 8,
               "they know the layout");

/* Decodes all instructions of a block: here those that are frequent, what is rare or looks wrong in
 * block_decode_rare(). This loop is most of what a null replay costs. It does not look for the end of a column:
 * it runs into the next column, or into the slack behind the payload, and reader_decode() refuses the block
 * afterwards, whatever error that led to. What it reads it still checks, so nothing but the block is lost. */
static inline __attribute__((always_inline)) bool block_decode_loop(
    struct instruction_reader *reader, struct block *block,
    const uint8_t *(*place_get)(const uint8_t *at, uint64_t *place),
    void (*store)(struct instruction *to, uint64_t opcode, uint64_t object, uint64_t size))
{
    struct live_objects objects = block->objects;
    const uint8_t *sizes = block->next[COLUMN_SIZES], *places = block->next[COLUMN_OBJECTS];
    const uint8_t *opcode_at = block->next[COLUMN_OPCODES];
    const uint8_t *const opcodes_end = opcode_at + block->count;
    struct instruction *to = reader->room->at;

    for (; opcode_at < opcodes_end; opcode_at++, to++) {
        const uint8_t opcode = *opcode_at, action = actions[opcode];
        const uint8_t *behind_size, *behind_place;
        uint64_t size, place;
        if (action == ACTION_BIRTH) {
            behind_size = number_get(sizes, &size);
            if (__builtin_expect(behind_size == NULL, 0)) goto rare;
            sizes = behind_size;
            store(to, opcode, objects_begin(&objects, size), size);
            continue;
        } else if (action == ACTION_DEATH) {
            behind_place = place_get(places, &place);
            if (__builtin_expect(behind_place == NULL, 0)) goto rare;
            if (__builtin_expect(place >= objects.registers.live, 0)) goto rare;
            places = behind_place;
            store(to, opcode, objects_end(&objects, place), 0);
            continue;
        } else if (action != ACTION_RARE) {
            behind_size = number_get(sizes, &size);
            behind_place = number_get(places, &place);
            if (__builtin_expect(behind_size == NULL || behind_place == NULL, 0)) goto rare;
            if (__builtin_expect(place >= objects.registers.live, 0)) goto rare;
            sizes = behind_size;
            places = behind_place;
            uint32_t object = action == ACTION_REALLOC ? objects_resize(&objects, place, size)
                                                       : objects_end(&objects, place);
            store(to, opcode, object, size);
            continue;
        }
    rare:
        block->next[COLUMN_OPCODES] = opcode_at;
        block->next[COLUMN_SIZES] = sizes;
        block->next[COLUMN_OBJECTS] = places;
        block->objects = objects;
        block->at = (size_t)(to - reader->room->at);
        if (!block_decode_rare(reader, block, to)) return false;
        objects = block->objects;
        sizes = block->next[COLUMN_SIZES];
        places = block->next[COLUMN_OBJECTS];
    }
    block->at = block->count;
    block->next[COLUMN_OPCODES] = opcode_at;
    block->next[COLUMN_SIZES] = sizes;
    block->next[COLUMN_OBJECTS] = places;
    block->objects = objects;
    return true;
}

static __attribute__((noinline)) bool block_decode_guessing(struct instruction_reader *reader,
                                                            struct block *block, bool past)
{
    if (past) return block_decode_loop(reader, block, number_get_guessing, instruction_store_past);
    return block_decode_loop(reader, block, number_get_guessing, instruction_store);
}

static __attribute__((noinline)) bool block_decode_plainly(struct instruction_reader *reader,
                                                           struct block *block, bool past)
{
    if (past) return block_decode_loop(reader, block, number_get, instruction_store_past);
    return block_decode_loop(reader, block, number_get, instruction_store);
}

/* `again`: the instructions will be looked at here. */
static bool block_decode(struct instruction_reader *reader, struct block *block, bool again)
{
    bool past = reader->room_elsewhere && !again;
    bool guess = number_lengths_agree(block->next[COLUMN_OBJECTS], block->end[COLUMN_OBJECTS]);
    bool good = guess ? block_decode_guessing(reader, block, past)
                      : block_decode_plainly(reader, block, past);
    if (past) _mm_sfence(); /* instruction_store_past() keeps no order */
    return good;
}

/* The column `addresses` (4.3), spread to one entry per instruction. */
static bool block_decode_addresses(struct instruction_reader *reader, struct block *block)
{
    uint64_t address = 0;
    for (size_t i = 0; i < block->count; i++) {
        const struct instruction *one = &reader->room->at[i];
        uint8_t shape = call_shapes[instruction_number(one)];
        bool brings = shape_is_birth(shape) || shape == SHAPE_REALLOC;
        reader->room->addresses[i] = 0;
        if (!brings || (one->opcode & INSTRUCTION_FAILED)) continue;
        uint64_t difference;
        block->at = i;
        if (!block_get(reader, block, COLUMN_ADDRESSES, &difference)) return false;
        address += (uint64_t)unzigzag(difference) * 8;
        reader->room->addresses[i] = address;
    }
    return true;
}

/* Decodes a whole block and takes it into the totals, or refuses it. */
static bool reader_decode(struct instruction_reader *reader, struct block *block)
{
    const uint8_t *opcodes = block->next[COLUMN_OPCODES];
    bool addresses = (reader->header.features & INSTRUCTION_FEATURE_ADDRESSES) != 0;
    if (!objects_reserve(&reader->objects, block->count)) {
        error_set_system(&reader->error, "no memory for %" PRIu64 " registers",
                         reader->objects.registers.live + block->count);
        return reader_fail(reader);
    }
    block->objects = reader->objects;
    if (!block_decode(reader, block, addresses)) return false;
    if (addresses && !block_decode_addresses(reader, block)) return false;
    for (unsigned column = 0; column < COLUMNS; column++)
        if (block->next[column] != block->end[column]) return block_column_error(reader, block);

    objects_count_registers(&block->objects);
    reader->objects = block->objects;
    reader->totals.lost_events += block->lost_events;
    instruction_totals_add(&reader->totals, opcodes, block->count);
    reader->totals.live = reader->objects.registers.live;
    reader->totals.registers = reader->objects.registers.high;
    return true;
}

/* ---- end block (6) ---- */

static bool end_get(struct instruction_reader *reader, uint64_t offset, const uint8_t **next,
                    const uint8_t *end, uint64_t *value)
{
    if (*next >= end) return reader_error(reader, INSTRUCTION_ERROR_COLUMNS, offset);
    *value = varint_get(next);
    return true;
}

static bool end_compare(struct instruction_reader *reader, uint64_t offset, const char *what,
                        uint64_t said, uint64_t counted)
{
    if (said == counted) return true;
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_TOTALS], offset,
              "%s: %" PRIu64 " in the end block, %" PRIu64 " read", what, said, counted);
    return reader_fail(reader);
}

static bool end_check_kinds(struct instruction_reader *reader, uint64_t offset,
                            const uint8_t **next, const uint8_t *end)
{
    uint64_t said[CALL_KINDS] = {0};
    uint64_t kinds, kind, count;
    if (!end_get(reader, offset, next, end, &kinds)) return false;
    for (uint64_t i = 0; i < kinds; i++) {
        if (!end_get(reader, offset, next, end, &kind)) return false;
        if (!end_get(reader, offset, next, end, &count)) return false;
        if (kind >= CALL_KINDS || call_shapes[kind] == SHAPE_UNDEFINED)
            return reader_error(reader, INSTRUCTION_ERROR_OPERAND, offset);
        said[kind] = count;
    }
    for (unsigned i = 0; i < CALL_KINDS; i++)
        if (!end_compare(reader, offset, call_names[i], said[i], reader->totals.by_kind[i]))
            return false;
    return true;
}

static bool reader_end(struct instruction_reader *reader, uint64_t offset, const uint8_t *payload,
                       size_t payload_bytes)
{
    const uint8_t *next = payload, *end = payload + payload_bytes;
    const struct instruction_totals *totals = &reader->totals;
    uint64_t status, live, registers, threads, lost;
    if (!end_get(reader, offset, &next, end, &status) ||
        !end_get(reader, offset, &next, end, &live) ||
        !end_get(reader, offset, &next, end, &registers) ||
        !end_get(reader, offset, &next, end, &threads) ||
        !end_get(reader, offset, &next, end, &lost))
        return false;
    if (status > INSTRUCTION_STATUS_DAMAGED)
        return reader_error(reader, INSTRUCTION_ERROR_OPERAND, offset);
    if (!end_compare(reader, offset, "live objects", live, totals->live) ||
        !end_compare(reader, offset, "registers", registers, totals->registers) ||
        !end_compare(reader, offset, "threads", threads, totals->threads) ||
        !end_compare(reader, offset, "lost events", lost, totals->lost_events) ||
        !end_check_kinds(reader, offset, &next, end))
        return false;
    if (next != end) return reader_error(reader, INSTRUCTION_ERROR_COLUMNS, offset);

    if (input_peek(reader->input, 1) > 0)
        return reader_error(reader, INSTRUCTION_ERROR_TRAILING, input_offset(reader->input));
    if (reader->input->state == INPUT_FAILED) return reader_input_ended(reader, offset);
    reader->end_status = (enum instruction_status)status;
    reader->state = INSTRUCTIONS_END;
    return false;
}

bool instruction_reader_next(struct instruction_reader *reader, struct instruction_batch *batch)
{
    struct block block = {0};
    const uint8_t *payload = NULL;
    size_t payload_bytes = 0;
    if (reader->state != INSTRUCTIONS_MORE) return false;
    uint64_t number = reader->totals.instructions;
    if (!reader_read_block(reader, &block, &payload, &payload_bytes)) return false;
    if (block.count == 0) return reader_end(reader, block.offset, payload, payload_bytes);
    if (!block_split_columns(reader, &block, payload, payload_bytes)) return false;
    if (!reader_decode(reader, &block)) return false;
    bool addresses = (reader->header.features & INSTRUCTION_FEATURE_ADDRESSES) != 0;
    *batch = (struct instruction_batch){
        .at = reader->room->at,
        .count = block.count,
        .operands = reader->room->operands,
        .addresses = addresses ? reader->room->addresses : NULL,
        .ticks = reader->room->ticks,
        .ticks_count = block.ticks,
        .number = number,
        .offset = block.offset,
        .registers = reader->totals.registers,
    };
    return true;
}
