#include "allocators/known.h"

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
