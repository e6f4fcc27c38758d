#include "common/checksum_fast.h"

#include "common/checksum.h"

#if defined __x86_64__ && !defined __clang__

/* From here on the compiler may use AVX2, and XXH3 does. */
#pragma GCC target("avx2")
#include <immintrin.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static uint32_t checksum_avx2(const uint8_t *first, size_t first_bytes, const uint8_t *second,
                              size_t second_bytes)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, first, first_bytes);
    XXH3_64bits_update(&state, second, second_bytes);
    uint32_t checksum = (uint32_t)XXH3_64bits_digest(&state);
    /* Or all SSE2 code that follows takes half as long again. */
    _mm256_zeroupper();
    return checksum;
}

#pragma GCC reset_options
#define CHECKSUM_AVX2
#endif

uint32_t checksum_fast_of_two(const uint8_t *first, size_t first_bytes, const uint8_t *second,
                              size_t second_bytes)
{
#ifdef CHECKSUM_AVX2
    if (__builtin_cpu_supports("avx2"))
        return checksum_avx2(first, first_bytes, second, second_bytes);
#endif
    return checksum_of_two(first, first_bytes, second, second_bytes);
}
