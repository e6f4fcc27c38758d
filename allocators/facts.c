#include "allocators/facts.h"

uint64_t allocator_round_up(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

uint64_t allocator_round_to_quarter(uint64_t size)
{
    const unsigned log2 = 63u - (unsigned)__builtin_clzll(size - 1);
    return allocator_round_up(size, UINT64_C(1) << (log2 - 2));
}
