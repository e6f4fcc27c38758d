#include "report/by_code_freed.h"

#include <stdlib.h>

enum { FREES_LEAST = 10 }; /* fewer samples do not tell who frees a row's objects */

/* Objects that one row made and another one freed. */
struct row_pair {
    uint32_t made, freed;
    uint64_t short_lived, remote;
};

static int by_rows(const void *one, const void *other)
{
    const struct row_pair *a = one, *b = other;
    if (a->made != b->made) return a->made < b->made ? -1 : 1;
    return a->freed < b->freed ? -1 : a->freed > b->freed;
}

struct freers {
    uint64_t all, most;
    uint32_t row;
};

static void take_freer(struct freers *freers, uint32_t row, uint64_t objects)
{
    freers->all += objects;
    if (objects <= freers->most) return;
    freers->most = objects;
    freers->row = row;
}

static struct by_code_freer freer_of(const struct by_code *code, const struct freers *freers)
{
    const uint64_t least = stack_tally_frees_are_sampled(&code->tally) ? FREES_LEAST : 1;
    if (freers->all < least) return (struct by_code_freer){CODE_GROUP_NONE, 0};
    return (struct by_code_freer){freers->row, (double)freers->most / (double)freers->all};
}

/* Finds for each row that makes something who frees most of it. `pairs` are sorted by maker. */
static void take_pairs(struct by_code *code, const struct row_pair *pairs, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        struct freers short_lived = {.all = 0}, remote = {.all = 0};
        for (end = i; end < count && pairs[end].made == pairs[i].made; end++) {
            take_freer(&short_lived, pairs[end].freed, pairs[end].short_lived);
            take_freer(&remote, pairs[end].freed, pairs[end].remote);
        }
        if (pairs[i].made != CODE_GROUP_NONE)
            code->freed[pairs[i].made] =
                (struct by_code_freed){freer_of(code, &short_lived), freer_of(code, &remote)};
    }
}

bool by_code_freed_find(struct by_code *code)
{
    const struct stack_tally *tally = &code->tally;
    struct row_pair *pairs = calloc(tally->pairs_count + 1, sizeof *pairs);
    const struct by_code_freer none = {CODE_GROUP_NONE, 0};
    size_t count = 0;
    code->freed = calloc(code->groups.count + 1, sizeof *code->freed);
    const bool good = pairs != NULL && code->freed != NULL;
    for (size_t i = 0; i <= code->groups.count && good; i++)
        code->freed[i] = (struct by_code_freed){none, none};
    for (size_t i = 0; i < tally->pairs_count && good; i++)
        pairs[i] = (struct row_pair){code_groups_itself(&code->groups, tally->pairs[i].made),
                                     code_groups_itself(&code->groups, tally->pairs[i].freed),
                                     tally->pairs[i].short_lived, tally->pairs[i].remote};
    if (good && tally->pairs_count > 1) qsort(pairs, tally->pairs_count, sizeof *pairs, by_rows);
    for (size_t i = 0; i < tally->pairs_count && good; i++) {
        if (count > 0 && by_rows(&pairs[count - 1], &pairs[i]) == 0) {
            pairs[count - 1].short_lived += pairs[i].short_lived;
            pairs[count - 1].remote += pairs[i].remote;
        } else {
            pairs[count++] = pairs[i];
        }
    }
    if (good) take_pairs(code, pairs, count);
    free(pairs);
    return good;
}
