#include "stream/raw_unpack.h"

#include <stddef.h>

#include "common/bytes.h"
#include "stream/pack.h"
#include "stream/raw_format.h"

/* Bytes of the code that begins with `first`. */
static inline unsigned code_bytes(uint8_t first)
{
    return 1u + (first >> 7) + (first == RAW_PACKED_UNIT);
}

/* One unit at a time, for the end of the payload. Returns where the units end, NULL if they have
 * no room or the last code is cut off. */
static uint8_t *unpack_last(const uint32_t *entries, const uint8_t *from, const uint8_t *end,
                            uint8_t *to, const uint8_t *to_end)
{
    for (; from < end; to += 2) {
        unsigned bytes = code_bytes(*from);
        if (to == to_end || end - from < bytes) return NULL;
        uint32_t entry = entries[*from], more = 0;
        if (bytes > 1) more = from[1];
        if (bytes > 2) more |= (uint32_t)from[2] << 8;
        bytes_put16(to, (uint16_t)(entry + (more & entry >> 16)));
        from += bytes;
    }
    return to;
}

bool raw_unpack(const uint32_t *entries, const uint8_t *from, uint32_t bytes, uint8_t *to,
                uint32_t *units)
{
    const uint8_t *end = from + bytes;
    uint8_t *begin = to, *to_end = to + 2 * (size_t)*units;
    /* Eight bytes are four units, if none has three bytes. The way from one code to the next is
     * a few instructions in a register, not a load. */
    while (end - from >= 8 && to_end - to >= 8) {
        uint64_t word = bytes_get64(from);
        unsigned bits = 0, unit;
#pragma GCC unroll 4
        for (unit = 0; unit < 4; unit++) {
            uint32_t entry = entries[word & 0xff];
            if (__builtin_expect(entry == PACK_MASK_UNIT, 0)) break;
            bytes_put16(to + 2 * unit, (uint16_t)(entry + ((uint32_t)(word >> 8) & entry >> 16)));
            unsigned code_bits = 8 + (word >> 4 & 8);
            word >>= code_bits;
            bits += code_bits;
        }
        to += 2 * unit;
        from += bits / 8;
        if (unit == 4) continue;
        if (end - from < 3) break;
        bytes_put16(to, bytes_get16(from + 1));
        to += 2;
        from += 3;
    }
    to = unpack_last(entries, from, end, to, to_end);
    if (to == NULL) return false;
    *units = (uint32_t)(to - begin) / 2;
    return true;
}
