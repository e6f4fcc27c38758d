#include "stream/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t checksum_of_two(const uint8_t *first, size_t first_bytes, const uint8_t *second,
                         size_t second_bytes)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, first, first_bytes);
    XXH3_64bits_update(&state, second, second_bytes);
    return (uint32_t)XXH3_64bits_digest(&state);
}
