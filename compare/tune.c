#include "compare/tune.h"

#include <string.h>

#include "allocators/known.h"
#include "common/error.h"

const char *const compare_huge_pages[] = {"always", "madvise", "never", NULL};

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

/* Adds the first `count` entries once more. */
static bool vary_as(struct compare_list *list, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++) {
        if (!compare_list_vary(list, i, "REPLAY_THP", word)) return false;
        struct compare_entry *entry = &list->entries[list->count - 1];
        /* libc's allocator maps by no function that a replay could take. */
        if (strcmp(word, "always") == 0 && (strcmp(entry->allocator, "system") == 0 ||
                                            strncmp(entry->allocator, "glibc", 5) == 0)) {
            const bool good = compare_list_vary(list, list->count - 1, "GLIBC_TUNABLES",
                                                "glibc.malloc.hugetlb=1");
            compare_list_drop(list, list->count - 1 - good);
            if (!good) return false;
        }
    }
    return true;
}

bool compare_vary_huge_pages(struct compare_list *list, const char *words, char *why,
                             size_t why_bytes)
{
    const char *const *known = compare_huge_pages;
    const size_t count = list->count;
    for (const char *at = words;; at++) {
        const size_t bytes = strcspn(at, ",");
        size_t i = 0;
        while (known[i] != NULL &&
               (strlen(known[i]) != bytes || strncmp(known[i], at, bytes) != 0))
            i++;
        if (known[i] == NULL)
            return error_explain(why, why_bytes, "'%.*s' is not always, madvise or never",
                                 (int)bytes, at);
        if (!vary_as(list, count, known[i])) return error_explain(why, why_bytes, "no memory");
        at += bytes;
        if (*at == '\0') return true;
    }
}
