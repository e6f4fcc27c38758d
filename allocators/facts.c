#include "allocators/facts.h"

#define ALLOCATOR_ADDRESS(name) &allocator_##name,
const struct allocator_facts *const allocator_facts[ALLOCATORS] = {
    ALLOCATOR_LIST(ALLOCATOR_ADDRESS)};
#undef ALLOCATOR_ADDRESS

const struct allocator_facts *allocator_facts_of(const struct allocator_functions *functions)
{
    for (unsigned i = 0; i < ALLOCATORS; i++)
        if (allocator_facts[i]->is_it(functions)) return allocator_facts[i];
    return NULL;
}

uint64_t allocator_round_up(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

uint64_t allocator_round_to_quarter(uint64_t size)
{
    const unsigned log2 = 63u - (unsigned)__builtin_clzll(size - 1);
    return allocator_round_up(size, UINT64_C(1) << (log2 - 2));
}
