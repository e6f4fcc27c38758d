#include "replay/settle.h"

#include <dlfcn.h>

#include "allocators/glibc_top.h"
#include "replay/new_handler.h"

uint64_t settle(const struct allocator *allocator)
{
    const struct allocator_facts *facts = allocator->facts;
    new_handler_free_pool();
    /* The second call frees the message of a failed dlsym(). */
    dlerror();
    dlerror();
    if (facts != NULL && facts->settle != NULL) facts->settle(&allocator->library);
    return facts == &allocator_glibc ? glibc_top_prepare() : 0;
}
