#include "postprocess/half_bytes.h"

#include <emmintrin.h>
#include <string.h>

#define VECTOR (HALF_BYTES_SLACK + 1)

static inline __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

/* Bytes less than 16 become eight half as long. */
static inline void store_halves(uint8_t *to, __m128i bytes)
{
    __m128i pairs = _mm_or_si128(bytes, _mm_srli_epi16(bytes, 4));
    pairs = _mm_and_si128(pairs, _mm_set1_epi16(0xff));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(pairs, pairs));
}

void half_bytes_pack(uint8_t *bytes, size_t count)
{
    memset(bytes + count, 0, -count % VECTOR);
    for (size_t i = 0; i < count; i += VECTOR)
        store_halves(bytes + i / 2, load(bytes + i));
}

void half_bytes_pack_indices(uint8_t *bytes, size_t count, const uint8_t *list, unsigned listed)
{
    __m128i entries[HALF_BYTES_VALUES], indices[HALF_BYTES_VALUES];
    for (unsigned i = 0; i < listed; i++) {
        entries[i] = _mm_set1_epi8((char)list[i]);
        indices[i] = _mm_set1_epi8((char)i);
    }
    memset(bytes + count, list[0], -count % VECTOR);
    for (size_t i = 0; i < count; i += VECTOR) {
        const __m128i these = load(bytes + i);
        __m128i found = _mm_setzero_si128();
        for (unsigned k = 1; k < listed; k++) { /* what is none of these has index 0 */
            __m128i equal = _mm_cmpeq_epi8(these, entries[k]);
            found = _mm_or_si128(found, _mm_and_si128(equal, indices[k]));
        }
        store_halves(bytes + i / 2, found);
    }
}

void half_bytes_look_up(const uint8_t *from, size_t count, const uint8_t table[HALF_BYTES_VALUES],
                        uint8_t *to)
{
    for (size_t i = 0; i < half_bytes_size(count); i++) {
        to[2 * i] = table[from[i] & 0xf];
        to[2 * i + 1] = table[from[i] >> 4];
    }
}
