#include "compare/tune.h"

#include <string.h>

#include "allocators/facts.h"
#include "common/error.h"

static bool has_allocator(const struct compare_list *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (list->entries[i].settings_count == 0 && strcmp(list->entries[i].allocator, name) == 0)
            return true;
    return false;
}

/* Each setting by itself, in the form of --allocators. */
static bool tune_add(struct compare_list *list, const struct allocator_facts *facts, char *why,
                     size_t why_bytes)
{
    char text[256];
    for (const char *const *tuned = facts->tuned; tuned != NULL && *tuned != NULL; tuned++) {
        snprintf(text, sizeof text, "%s:%s", facts->name, *tuned);
        if (!compare_list_add(list, text, why, why_bytes)) return false;
    }
    return true;
}

bool compare_tune(struct compare_list *list, char *why, size_t why_bytes)
{
    const size_t count = list->count;
    for (unsigned i = 0; i < ALLOCATORS; i++) {
        /* The C library's, the last one, first. */
        const struct allocator_facts *facts = allocator_facts[(i + ALLOCATORS - 1) % ALLOCATORS];
        if (has_allocator(list, count, facts->name) && !tune_add(list, facts, why, why_bytes))
            return false;
    }
    return true;
}
