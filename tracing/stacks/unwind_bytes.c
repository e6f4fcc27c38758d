/* unwind_bytes - numbers, blocks and pointers of unwind tables, read one after the other. */
#include "tracing/stacks/unwind_own.h"

bool unwind_read_bytes(struct unwind_source *source, uintptr_t from, void *to, size_t bytes)
{
    if (unwind_read(source->memory, source->object, from, to, bytes)) return true;
    source->is_cut = true;
    return false;
}

uint64_t unwind_take(struct unwind_reader *reader, unsigned bytes)
{
    uint64_t value = 0;
    if (reader->end - reader->at < bytes ||
        !unwind_read_bytes(reader->source, reader->at, &value, bytes)) {
        reader->at = reader->end;
        return 0;
    }
    reader->at += bytes;
    return value;
}

/* LEB128; `bits`: how many bits it had. */
static uint64_t take_leb128(struct unwind_reader *reader, unsigned *bits)
{
    uint64_t value = 0;
    unsigned byte;
    *bits = 0;
    do {
        byte = (unsigned)unwind_take(reader, 1);
        if (*bits < 64) value |= (uint64_t)(byte & 0x7f) << *bits;
        *bits += 7;
    } while (byte & 0x80);
    return value;
}

uint64_t unwind_take_unsigned(struct unwind_reader *reader)
{
    unsigned bits;
    return take_leb128(reader, &bits);
}

int64_t unwind_take_signed(struct unwind_reader *reader)
{
    unsigned bits;
    uint64_t value = take_leb128(reader, &bits);
    if (bits < 64 && value >> (bits - 1) & 1) value |= ~UINT64_C(0) << bits;
    return (int64_t)value;
}

struct unwind_reader unwind_take_block(struct unwind_reader *reader)
{
    uint64_t bytes = unwind_take_unsigned(reader);
    struct unwind_reader block = {reader->at, reader->at, reader->source};
    if (bytes > reader->end - reader->at) bytes = reader->end - reader->at;
    reader->at += bytes;
    block.end = reader->at;
    return block;
}

uint64_t unwind_take_encoded(struct unwind_reader *reader, unsigned encoding, bool relative)
{
    const uintptr_t here = reader->at;
    uint64_t value;
    switch (encoding & 0x0f) {
    case 0x01: value = unwind_take_unsigned(reader); break;
    case 0x02: value = unwind_take(reader, 2); break;
    case 0x03: value = unwind_take(reader, 4); break;
    case 0x09: value = (uint64_t)unwind_take_signed(reader); break;
    case 0x0a: value = (uint64_t)(int16_t)unwind_take(reader, 2); break;
    case 0x0b: value = (uint64_t)(int32_t)unwind_take(reader, 4); break;
    default: value = unwind_take(reader, 8);
    }
    return relative && (encoding & 0x70) == 0x10 ? value + here : value;
}
