#include "postprocess/instruction_writer.h"

#include <emmintrin.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/checksum.h"
#include "common/pages.h"
#include "postprocess/half_bytes.h"

/* The most one instruction can put into each column (5): a size and an address once, and in `misc` an alignment, the
 * operands of a tick, or a count and two numbers. */
#define MISC_BYTES_MAX (INSTRUCTION_OPERANDS_MAX * VARINT_BYTES_MAX)

/* Without room behind the columns of bytes: these are filled in whole vectors, of which a block has a whole number. */
static const size_t column_bytes[COLUMNS] = {
    [COLUMN_PALETTE] = HALF_BYTES_VALUES,
    [COLUMN_OPCODES] = INSTRUCTION_BLOCK_MAX,
    [COLUMN_LOW] = INSTRUCTION_BLOCK_MAX,
    [COLUMN_HIGH] = INSTRUCTION_BLOCK_MAX,
    [COLUMN_WIDE] = INSTRUCTION_BLOCK_MAX * VARINT_BYTES_MAX,
    [COLUMN_SIZES] = INSTRUCTION_BLOCK_MAX * VARINT_BYTES_MAX,
    [COLUMN_MISC] = INSTRUCTION_BLOCK_MAX * MISC_BYTES_MAX,
    [COLUMN_ADDRESSES] = INSTRUCTION_BLOCK_MAX * VARINT_BYTES_MAX,
};
#define COLUMNS_BYTES                                                                          \
    (HALF_BYTES_VALUES + INSTRUCTION_BLOCK_MAX * (3 + 3 * VARINT_BYTES_MAX + MISC_BYTES_MAX) + \
     COLUMNS * VARINT_SLACK)

/* What stands before the columns: two numbers and a length for each. */
#define PAYLOAD_HEAD_BYTES ((2 + COLUMNS) * VARINT_BYTES_MAX + VARINT_SLACK)

/* `high` is as short as it can be when at most one value in so many needs `wide`. */
#define WIDE_SHARE 32

/* The mapping: the values of a block before they are columns, the wide ones made anew, and the columns. */
#define VALUES_BYTES  (INSTRUCTION_BLOCK_MAX * sizeof(uint16_t))
#define WIDE_BYTES    (INSTRUCTION_BLOCK_MAX / WIDE_SHARE * VARINT_BYTES_MAX + VARINT_SLACK)
#define MAPPING_BYTES (VALUES_BYTES + WIDE_BYTES + PAYLOAD_HEAD_BYTES + COLUMNS_BYTES)

/* So that no block the writer can fill is one that a reader must refuse: the longest instruction is a tick; others put
 * something into three of the columns of integers at most. */
_Static_assert(MISC_BYTES_MAX >= 3 * VARINT_BYTES_MAX, "a tick is the longest");
_Static_assert(INSTRUCTION_BLOCK_MAX *(3 + MISC_BYTES_MAX) + PAYLOAD_HEAD_BYTES <=
                   INSTRUCTION_BLOCK_PAYLOAD_MAX,
               "a full block of the longest instructions fits into a payload");

static bool writer_grow(struct instruction_writer *writer, uint64_t capacity)
{
    struct writer_object *objects = (struct writer_object *)pages_grow(
        writer->objects, writer->objects_count * sizeof *objects, capacity * sizeof *objects);
    if (objects == NULL) return false;
    writer->objects = objects;
    uint64_t *large_sizes =
        (uint64_t *)pages_grow(writer->large_sizes, writer->objects_count * sizeof *large_sizes,
                               capacity * sizeof *large_sizes);
    if (large_sizes == NULL) return false;
    writer->large_sizes = large_sizes;
    writer->objects_count = capacity;
    return true;
}

/* Makes room for the births of a block. */
static bool writer_reserve(struct instruction_writer *writer)
{
    struct register_order *registers = &writer->registers;
    if (!register_order_reserve(registers, INSTRUCTION_BLOCK_MAX)) return false;
    return writer->objects_count == registers->capacity || writer_grow(writer, registers->capacity);
}

static void writer_start_block(struct instruction_writer *writer)
{
    for (unsigned column = 0; column < COLUMNS; column++)
        writer->next[column] = writer->start[column];
    writer->count = 0;
    writer->last_address = 0;
    writer->peak_bytes = 0;
    if (!writer_reserve(writer)) error_set_system(&writer->error, "no memory for registers");
    /* After a failure registers mean nothing, but they must stay inside the tables whatever comes: a block takes or
     * releases at most half of the smallest ones. */
    if (error_is_set(&writer->error)) writer->registers.live = writer->objects_count / 2;
}

static bool writer_write(struct instruction_writer *writer, const void *data, size_t bytes)
{
    if (error_is_set(&writer->error)) return false;
    if (!output_write(writer->output, data, bytes)) writer->error = writer->output->error;
    return !error_is_set(&writer->error);
}

/* A block header and its payload (4.2). */
static void writer_write_block(struct instruction_writer *writer, uint32_t instructions,
                               const uint8_t *payload, size_t bytes)
{
    uint8_t header[INSTRUCTION_BLOCK_HEADER_BYTES];
    memcpy(header, INSTRUCTION_BLOCK_MAGIC, 4);
    bytes_put32(header + 4, (uint32_t)bytes);
    bytes_put32(header + 8, instructions);
    bytes_put32(header + 12, checksum_of_two(header, 12, payload, bytes));
    writer_write(writer, header, sizeof header);
    writer_write(writer, payload, bytes);
}

/* ---- columns of bytes and half-bytes (4.3, 4.4) ---- */

/* Ends `opcodes`: indices of half a byte, if there are few enough that differ. */
static void writer_put_opcodes(struct instruction_writer *writer, size_t count,
                               const uint64_t *seen)
{
    uint8_t *opcodes = writer->opcodes, *const palette = writer->start[COLUMN_PALETTE];
    unsigned different = 0;
    writer->next[COLUMN_OPCODES] = opcodes + count;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (seen[opcode] == 0) continue;
        if (different == HALF_BYTES_VALUES) return;
        palette[different++] = (uint8_t)opcode;
    }
    writer->next[COLUMN_PALETTE] = palette + different;
    half_bytes_pack_indices(opcodes, count, palette, different);
    writer->next[COLUMN_OPCODES] = opcodes + half_bytes_size(count);
}

/* Values are looked at in whole vectors. */
#define VALUES_VECTOR 8

/* Which of a vector of values are at most `most`: all ones. */
static inline __m128i values_fit(const uint16_t *values, __m128i most)
{
    __m128i these = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm_cmpeq_epi16(_mm_subs_epu16(these, most), _mm_setzero_si128());
}

/* How many values are not less than `escape`. */
static size_t values_count_wide(const uint16_t *values, size_t count, unsigned escape)
{
    const __m128i most = _mm_set1_epi16((short)(escape - 1));
    __m128i fitting = _mm_setzero_si128(); /* eight counts */
    uint16_t counts[VALUES_VECTOR];
    size_t wide = (count + VALUES_VECTOR - 1) / VALUES_VECTOR * VALUES_VECTOR;
    for (size_t i = 0; i < count; i += VALUES_VECTOR)
        fitting = _mm_sub_epi16(fitting, values_fit(values + i, most)); /* all ones are -1 */
    _mm_storeu_si128((__m128i *)(void *)counts, fitting);
    for (unsigned i = 0; i < VALUES_VECTOR; i++)
        wide -= counts[i];
    return wide;
}

/* `low` and `high` as bytes, in whole vectors. */
static void values_split(const uint16_t *values, size_t count, uint8_t *low, uint8_t *high)
{
    const __m128i byte = _mm_set1_epi16(0xff);
    for (size_t i = 0; i < count; i += 16) {
        const __m128i *from = (const __m128i *)(const void *)(values + i);
        __m128i first = _mm_loadu_si128(from), second = _mm_loadu_si128(from + 1);
        _mm_storeu_si128((__m128i *)(void *)(low + i),
                         _mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(second, byte)));
        _mm_storeu_si128((__m128i *)(void *)(high + i),
                         _mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(second, 8)));
    }
}

/* Brings values that are not less than `escape` to `wide`, which has those that do not fit into 16 bits already. */
static void writer_put_wide(struct instruction_writer *writer, size_t count, uint16_t escape)
{
    const __m128i most = _mm_set1_epi16((short)(escape - 1));
    uint8_t *wide = writer->new_wide;
    const uint8_t *wide_already = writer->start[COLUMN_WIDE];
    for (size_t i = 0; i < count; i += VALUES_VECTOR) {
        uint16_t *const values = writer->values + i;
        /* Two bits for each value. */
        unsigned beyond = ~(unsigned)_mm_movemask_epi8(values_fit(values, most)) & 0x5555;
        for (; __builtin_expect(beyond != 0, 0); beyond &= beyond - 1) {
            uint16_t *const place = &values[__builtin_ctz(beyond) / 2];
            uint64_t value = *place;
            if (value == INSTRUCTION_ESCAPE) value = varint_get(&wide_already);
            wide = varint_put(wide, value);
            *place = escape;
        }
    }
    size_t bytes = (size_t)(wide - writer->new_wide);
    memcpy(writer->start[COLUMN_WIDE], writer->new_wide, bytes);
    writer->next[COLUMN_WIDE] = writer->start[COLUMN_WIDE] + bytes;
}

/* Ends `low`, `high` and `wide`, in the shortest form in which few values are wide. */
static void writer_put_values(struct instruction_writer *writer, size_t count)
{
    uint16_t *const values = writer->values;
    uint8_t *const low = writer->start[COLUMN_LOW], *const high = writer->start[COLUMN_HIGH];
    memset(values + count, 0, (-count % VALUES_VECTOR) * sizeof *values);
    const bool none =
        values_count_wide(values, count, INSTRUCTION_ESCAPE_NARROW) <= count / WIDE_SHARE;
    const bool half =
        !none && values_count_wide(values, count, INSTRUCTION_ESCAPE_HALF) <= count / WIDE_SHARE;
    if (none) writer_put_wide(writer, count, INSTRUCTION_ESCAPE_NARROW);
    if (half) writer_put_wide(writer, count, INSTRUCTION_ESCAPE_HALF);
    values_split(values, count, low, high);
    if (half) half_bytes_pack(high, count);
    writer->next[COLUMN_LOW] = low + count;
    writer->next[COLUMN_HIGH] = high + (none ? 0 : half ? half_bytes_size(count) : count);
}

/* ---- blocks ---- */

/* Moves the columns together, behind what stands before them (4.3). Returns the payload, whose end is *end. The first
 * column starts with room in front for that, and no column moves over one that has not moved yet. */
static uint8_t *writer_join_columns(struct instruction_writer *writer, uint8_t **end)
{
    uint8_t head[PAYLOAD_HEAD_BYTES];
    uint8_t *head_end = varint_put(head, writer->live_bytes);
    head_end = varint_put(head_end, writer->peak_bytes);
    for (unsigned column = 0; column < COLUMNS; column++)
        head_end = varint_put(head_end, (uint64_t)(writer->next[column] - writer->start[column]));
    size_t head_bytes = (size_t)(head_end - head);
    uint8_t *payload = writer->start[COLUMN_PALETTE] - head_bytes;
    memcpy(payload, head, head_bytes);
    uint8_t *to = writer->next[COLUMN_PALETTE];
    for (unsigned column = COLUMN_PALETTE + 1; column < COLUMNS; column++) {
        size_t bytes = (size_t)(writer->next[column] - writer->start[column]);
        if (to != writer->start[column]) memmove(to, writer->start[column], bytes);
        to += bytes;
    }
    *end = to;
    return payload;
}

void instruction_writer_end_block(struct instruction_writer *writer)
{
    const size_t count = writer->count;
    if (count > 0) {
        uint64_t seen[256];
        uint8_t *end;
        instruction_count_opcodes(&writer->totals, writer->opcodes, count, seen);
        instruction_totals_add(&writer->totals, seen);
        writer_put_opcodes(writer, count, seen);
        writer_put_values(writer, count);
        uint8_t *payload = writer_join_columns(writer, &end);
        writer_write_block(writer, (uint32_t)count, payload, (size_t)(end - payload));
    }
    writer->totals.live = writer->registers.live;
    writer->totals.registers = writer->registers.high;
    writer_start_block(writer);
}

static void writer_write_header(struct instruction_writer *writer,
                                const struct instruction_header *header)
{
    uint8_t fixed[INSTRUCTION_HEADER_BYTES] = {0};
    size_t metadata = header->metadata_bytes;
    if (metadata > INSTRUCTION_METADATA_MAX) {
        metadata = INSTRUCTION_METADATA_MAX;
        while (metadata > 0 && header->metadata[metadata - 1] != '\n')
            metadata--;
    }
    memcpy(fixed, INSTRUCTION_MAGIC, 8);
    bytes_put16(fixed + 8, INSTRUCTION_VERSION_MAJOR);
    bytes_put16(fixed + 10, INSTRUCTION_VERSION_MINOR);
    bytes_put32(fixed + 12, (uint32_t)metadata);
    bytes_put64(fixed + 16, header->features);
    bytes_put64(fixed + 24, header->info);
    bytes_put32(fixed + 32,
                checksum_of_two(fixed, 32, (const uint8_t *)header->metadata, metadata));
    writer_write(writer, fixed, sizeof fixed);
    writer_write(writer, header->metadata, metadata);
}

bool instruction_writer_open(struct instruction_writer *writer, struct output *output,
                             const struct instruction_header *header)
{
    *writer = (struct instruction_writer){.output = output};
    writer->addresses = (header->features & INSTRUCTION_FEATURE_ADDRESSES) != 0;
    writer->columns = (uint8_t *)pages_map(MAPPING_BYTES);
    if (writer->columns == NULL) return error_set_system(&writer->error, "no memory for a block");
    uint8_t *at = writer->columns + VALUES_BYTES;
    writer->values = (uint16_t *)(void *)writer->columns;
    writer->new_wide = at;
    at += WIDE_BYTES + PAYLOAD_HEAD_BYTES;
    for (unsigned column = 0; column < COLUMNS; column++) {
        writer->start[column] = at;
        at += column_bytes[column] + (column < COLUMN_WIDE ? 0 : VARINT_SLACK);
    }
    writer->opcodes = writer->start[COLUMN_OPCODES];
    writer_start_block(writer);
    if (writer->objects_count == 0) return false; /* nothing could be put at all */
    writer_write_header(writer, header);
    return !error_is_set(&writer->error);
}

bool instruction_writer_flush(struct instruction_writer *writer)
{
    instruction_writer_end_block(writer);
    if (!error_is_set(&writer->error) && !output_flush(writer->output))
        writer->error = writer->output->error;
    return !error_is_set(&writer->error);
}

const struct instruction_totals *instruction_writer_totals(struct instruction_writer *writer)
{
    instruction_writer_end_block(writer);
    return &writer->totals;
}

bool instruction_writer_finish(struct instruction_writer *writer, enum instruction_status status)
{
    instruction_writer_end_block(writer);
    const struct instruction_totals *totals = &writer->totals;
    uint8_t payload[(6 + 2 * CALL_KINDS) * VARINT_BYTES_MAX + VARINT_SLACK];
    uint64_t kinds = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        kinds += totals->by_kind[kind] != 0;

    uint8_t *end = varint_put(payload, status);
    end = varint_put(end, totals->live);
    end = varint_put(end, totals->registers);
    end = varint_put(end, totals->threads);
    end = varint_put(end, totals->lost_events);
    end = varint_put(end, kinds);
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        if (totals->by_kind[kind] == 0) continue;
        end = varint_put(end, kind);
        end = varint_put(end, totals->by_kind[kind]);
    }
    writer_write_block(writer, 0, payload, (size_t)(end - payload));
    return instruction_writer_flush(writer);
}

void instruction_writer_close(struct instruction_writer *writer)
{
    pages_unmap(writer->objects, writer->objects_count * sizeof *writer->objects);
    pages_unmap(writer->large_sizes, writer->objects_count * sizeof *writer->large_sizes);
    register_order_free(&writer->registers);
    pages_unmap(writer->columns, MAPPING_BYTES);
    writer->columns = NULL;
}

/* ---- what is rare ---- */

void instruction_put_birth_failed(struct instruction_writer *writer, enum call_kind kind,
                                  uint64_t size, uint64_t alignment)
{
    instruction_put_opcode(writer, kind | INSTRUCTION_FAILED, size);
    if (call_shapes[kind] == SHAPE_BIRTH_ALIGNED)
        instruction_put_number(writer, COLUMN_MISC, alignment);
    instruction_put_end(writer);
}

void instruction_put_realloc_failed(struct instruction_writer *writer, uint32_t object,
                                    uint64_t size)
{
    instruction_put_opcode(writer, CALL_REALLOC_MOVED | INSTRUCTION_FAILED,
                           instruction_place(writer, object));
    instruction_put_number(writer, COLUMN_SIZES, size);
    instruction_put_end(writer);
}

uint32_t instruction_put_realloc_unknown(struct instruction_writer *writer, enum call_kind kind,
                                         uint64_t size, uint64_t address)
{
    instruction_put_opcode(writer, kind | INSTRUCTION_UNKNOWN, 0);
    instruction_put_number(writer, COLUMN_SIZES, size);
    instruction_put_address(writer, address);
    uint32_t taken = instruction_take_register(writer, size);
    instruction_put_end(writer);
    return taken;
}

void instruction_put_realloc_unknown_failed(struct instruction_writer *writer, uint64_t size)
{
    instruction_put_opcode(writer, CALL_REALLOC_MOVED | INSTRUCTION_FAILED | INSTRUCTION_UNKNOWN,
                           0);
    instruction_put_number(writer, COLUMN_SIZES, size);
    instruction_put_end(writer);
}

void instruction_put_death_unknown(struct instruction_writer *writer, enum call_kind kind,
                                   uint64_t size, uint64_t alignment)
{
    uint8_t shape = call_shapes[kind];
    instruction_put_opcode(writer, kind | INSTRUCTION_UNKNOWN, 0);
    if (shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_SIZED_ALIGNED)
        instruction_put_number(writer, COLUMN_SIZES, size);
    if (shape == SHAPE_DEATH_ALIGNED || shape == SHAPE_DEATH_SIZED_ALIGNED)
        instruction_put_number(writer, COLUMN_MISC, alignment);
    instruction_put_end(writer);
}

/* An opcode whose operands are all in `misc`. */
static void writer_put_misc(struct instruction_writer *writer, unsigned opcode, unsigned count,
                            const uint64_t *numbers)
{
    instruction_put_opcode(writer, opcode, 0);
    for (unsigned i = 0; i < count; i++)
        instruction_put_number(writer, COLUMN_MISC, numbers[i]);
    instruction_put_end(writer);
}

void instruction_put_heap(struct instruction_writer *writer, enum call_kind kind, unsigned count,
                          const uint64_t *numbers)
{
    instruction_put_number(writer, COLUMN_MISC, count);
    writer_put_misc(writer, kind, count, numbers);
}

void instruction_put_lane_change(struct instruction_writer *writer, uint64_t lane)
{
    writer->lane = lane;
    writer_put_misc(writer, INSTRUCTION_LANE, 1, &lane);
}

void instruction_put_thread_begin(struct instruction_writer *writer, uint64_t thread)
{
    writer_put_misc(writer, INSTRUCTION_THREAD_BEGIN, 1, &thread);
}

void instruction_put_thread_end(struct instruction_writer *writer)
{
    writer_put_misc(writer, INSTRUCTION_THREAD_END, 0, NULL);
}

void instruction_put_thread_cache_deleted(struct instruction_writer *writer)
{
    writer_put_misc(writer, INSTRUCTION_THREAD_CACHE_DELETED, 0, NULL);
}

void instruction_put_tick(struct instruction_writer *writer, uint64_t elapsed_ns,
                          uint64_t rss_bytes, uint64_t heap_bytes)
{
    writer_put_misc(writer, INSTRUCTION_TICK, 4,
                    (uint64_t[]){elapsed_ns, rss_bytes, heap_bytes, writer->live_bytes});
}

void instruction_put_lost(struct instruction_writer *writer, uint64_t lane, uint64_t events)
{
    writer->totals.lost_events += events;
    writer_put_misc(writer, INSTRUCTION_LOST, 2, (uint64_t[]){lane, events});
}

void instruction_put_freed_twice(struct instruction_writer *writer)
{
    writer_put_misc(writer, INSTRUCTION_FREED_TWICE, 0, NULL);
}
