/* random - the numbers a simulation is made of: the same seed gives the same ones on every
 * machine. */
#ifndef TESTS_SIM_RANDOM_H
#define TESTS_SIM_RANDOM_H

#include <cstddef>
#include <cstdint>
#include <vector>

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x1234567) {}

    uint64_t next() /* splitmix64 */
    {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    /* 0 .. limit - 1; limit at least 1. */
    uint64_t below(uint64_t limit) { return static_cast<uint64_t>(next() >> 11) % limit; }
    /* Both ends included. */
    uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
    bool one_in(uint64_t count) { return below(count) == 0; }
    /* Small numbers are as frequent as large ones: each number of bits up to `bits` comes equally
     * often. */
    uint64_t of_bits(unsigned bits)
    {
        uint64_t count = below(bits + 1);
        return count == 0 ? 0 : next() >> (64 - count);
    }
    template <class T> T &pick(std::vector<T> &from) { return from[below(from.size())]; }
    template <class T> const T &pick(const std::vector<T> &from)
    {
        return from[below(from.size())];
    }

  private:
    uint64_t state_;
};

/* Takes out one of them, leaving no order among the rest. */
template <class T> T take_out(std::vector<T> &from, size_t index)
{
    T taken = from[index];
    from[index] = from.back();
    from.pop_back();
    return taken;
}

#endif
