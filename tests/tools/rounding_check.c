/* rounding_check - compares the rules of allocators/ with the allocator that is preloaded.
 *
 *   LD_PRELOAD=libjemalloc.so.2 rounding_check jemalloc GREATEST
 *
 * For each size up to 40 000, and some up to GREATEST, the object must be as large as the rule
 * says. Where the library tells of sizes without making an object (nallocx, mi_good_size), that is
 * compared, too, and alone where an object may be larger than what counts. */
#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/known.h"

enum { EACH_UP_TO = 40000, STEPS = 997, MESSAGES_MAX = 10 };

/* What malloc_usable_size() of glibc leaves out. */
enum { GLIBC_HEADER = 8 };

typedef size_t (*nallocx_function)(size_t size, int flags);
typedef size_t (*good_size_function)(size_t size);

static unsigned compare(const char *who, uint64_t size, uint64_t said, uint64_t rule)
{
    static unsigned messages;
    if (said == rule) return 0;
    if (messages++ < MESSAGES_MAX)
        printf("# %" PRIu64 " bytes: %s says %" PRIu64 ", the rule %" PRIu64 "\n", size, who, said,
               rule);
    return 1;
}

int main(int count, char **words)
{
    const struct allocator_facts *const *facts = allocator_facts, *const *end = facts + ALLOCATORS;
    unsigned wrong = 0, compared = 0;
    if (count != 3) return 2;
    while (facts < end && strcmp((*facts)->name, words[1]) != 0)
        facts++;
    if (facts == end) return 2;
    const uint64_t greatest = strtoull(words[2], NULL, 10);
    const uint64_t header = strcmp(words[1], "glibc") == 0 ? GLIBC_HEADER : 0;
    nallocx_function nallocx = (nallocx_function)dlsym(RTLD_DEFAULT, "nallocx");
    good_size_function good_size = (good_size_function)dlsym(RTLD_DEFAULT, "mi_good_size");
    for (uint64_t size = 0; size <= greatest; size += size < EACH_UP_TO ? 1 : size / STEPS) {
        const uint64_t rule = (*facts)->size(size);
        void *object = malloc(size);
        if (good_size == NULL)
            wrong += compare("the object", size, malloc_usable_size(object) + header, rule);
        else if (size > 0)
            wrong += compare("mi_good_size()", size, good_size(size), rule);
        if (nallocx != NULL && size > 0)
            wrong += compare("nallocx()", size, nallocx(size, 0), rule);
        free(object);
        compared++;
    }
    printf("# %s: %u sizes, %u differences\n", (*facts)->sizes_name, compared, wrong);
    return wrong > 0;
}
