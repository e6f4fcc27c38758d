/* bytes - little-endian numbers, varints (FORMAT.md 2.2, INSTRUCTIONS.md 2.2) and the checksum. */
#ifndef TESTS_SIM_BYTES_H
#define TESTS_SIM_BYTES_H

#include <cstdint>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace bytes {

inline void put(std::string &to, uint64_t value, int count)
{
    for (int i = 0; i < count; i++)
        to += static_cast<char>(value >> (8 * i));
}

inline void put_varint(std::string &to, uint64_t value)
{
    int count = 1;
    while (count < 8 && (value >> (7 * count)) != 0)
        count++;
    if (count == 8 && (value >> 56) != 0) {
        to += '\0';
        put(to, value, 8);
    } else {
        put(to, (value << count) | (uint64_t{1} << (count - 1)), count);
    }
}

inline uint64_t zigzag(int64_t value)
{
    return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

inline uint32_t checksum(const std::string &data)
{
    return static_cast<uint32_t>(XXH3_64bits(data.data(), data.size()));
}

} // namespace bytes

#endif
